"""What the controller keeps of a GPUNode: the verdicts in short, the spec whole, nothing else."""

from __future__ import annotations

from typing import Any

import msgspec

from gpuready.chain.verdict import Link, State
from gpuready.kube.trimmed import Metadata, shared

_WHOLE, _HOLDS_UP = (State.OK, State.DEGRADED), (State.BROKEN, State.WAITING)
_ORDER = {str(link): place for place, link in enumerate(Link)}


class LinkSummary(msgspec.Struct, gc=False, rename="camel"):
    link: str
    state: str = ""
    reason: str = ""
    message: str = ""
    next_step: str = ""

    def __post_init__(self) -> None:
        self.link, self.state, self.reason = shared(self.link), shared(self.state), shared(self.reason)
        self.message, self.next_step = shared(self.message), shared(self.next_step)

    @property
    def is_whole(self) -> bool:
        return self.state in _WHOLE


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
        for row in self.status.chain:  # asked for every node at every pass: no generator
            if row.link == link:
                return row
        return None

    def is_whole(self, link: Link) -> bool:
        row = self.find_link(link)
        return row is not None and row.is_whole

    def first_broken(self) -> LinkSummary | None:
        rows = [row for row in self.status.chain if row.state in _HOLDS_UP]
        return min(rows, key=lambda row: _ORDER.get(row.link, len(_ORDER)), default=None)


_DECODER = msgspec.json.Decoder(GPUNodeSummary)


def decode_gpunode(raw: bytes) -> GPUNodeSummary:
    return _DECODER.decode(raw)
