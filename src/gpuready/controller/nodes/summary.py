"""What the controller keeps of a GPUNode: the verdicts in short, the spec whole, nothing else."""

from __future__ import annotations

from typing import Any

import msgspec

from gpuready.chain.verdict import Link, State
from gpuready.kube.trimmed import Metadata, shared


class LinkSummary(msgspec.Struct, gc=False, rename="camel"):
    link: str
    state: str = ""
    reason: str = ""
    message: str = ""
    next_step: str = ""

    def __post_init__(self) -> None:
        for name in ("link", "state", "reason", "message", "next_step"):
            setattr(self, name, shared(getattr(self, name)))


class DriverSummary(msgspec.Struct, gc=False, rename="camel"):
    owner: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        self.owner, self.version = shared(self.owner), shared(self.version)


class StatusSummary(msgspec.Struct, rename="camel"):
    chain: list[LinkSummary] = []
    driver: DriverSummary = msgspec.field(default_factory=DriverSummary)
    gpus: int = 0
    healthy: int = 0
    reason: str = ""
    uninstalled: bool = False
    observed_generation: int = 0


class GPUNodeSummary(msgspec.Struct):
    metadata: Metadata
    spec: dict[str, Any] = {}
    status: StatusSummary = msgspec.field(default_factory=StatusSummary)

    def __post_init__(self) -> None:
        """An agent is done with one spec; a policy that came back meanwhile has made another."""
        if self.status.observed_generation < self.metadata.generation:
            self.status.uninstalled = False

    def find_link(self, link: Link) -> LinkSummary | None:
        return next((row for row in self.status.chain if row.link == link), None)

    def is_whole(self, link: Link) -> bool:
        row = self.find_link(link)
        return row is not None and row.state in (State.OK, State.DEGRADED)

    def first_broken(self) -> LinkSummary | None:
        order = {str(link): place for place, link in enumerate(Link)}
        rows = [row for row in self.status.chain if row.state in (State.BROKEN, State.WAITING)]
        return min(rows, key=lambda row: order.get(row.link, len(order)), default=None)


_DECODER = msgspec.json.Decoder(GPUNodeSummary)


def decode_gpunode(raw: bytes) -> GPUNodeSummary:
    return _DECODER.decode(raw)
