"""What we judge of one link of the chain from bare node to schedulable GPU.

Pure data: every module of this package turns facts into a `Verdict`; files, conditions, Events, metrics,
`status` and `doctor` are made from verdicts and from nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, TypeVar

_Known = TypeVar("_Known", bound=StrEnum)


class Link(StrEnum):
    """In the order in which a node comes up; the first that is not whole explains the rest."""

    REPORTING = "reporting"
    DISCOVERY = "discovery"
    DRIVER = "driver"
    TOOLKIT = "toolkit"
    DEVICE_PLUGIN = "device-plugin"
    CUDA = "cuda"


class State(StrEnum):
    OK = "ok"
    DEGRADED = "degraded"  # whole, and something is worth saying: the gate is written
    BROKEN = "broken"
    WAITING = "waiting"  # not yet; a state with a reason, not an error
    NOT_CHECKED = "not-checked"


@dataclass(frozen=True)
class Verdict:
    """One link's state with its reason.

    link, state   a word that only a newer node agent knows stays the word that it is
    reason     CamelCase, stable: conditions and tests use it
    message    one sentence that names node, device, version or path
    evidence   facts as they were read, most telling first
    next_step  what to do; empty when the link is whole
    """

    link: Link | str
    state: State | str
    reason: str
    message: str
    evidence: tuple[str, ...] = ()
    next_step: str = ""

    @property
    def is_whole(self) -> bool:
        return self.state in (State.OK, State.DEGRADED)

    @property
    def is_understood(self) -> bool:
        """False when a newer node agent says more of the link than we know: whole or not, we cannot tell."""
        return isinstance(self.state, State)

    @property
    def holds_up(self) -> bool:
        """True when the node cannot serve GPUs because of this link."""
        return self.state in (State.BROKEN, State.WAITING)

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "link": str(self.link),
            "state": str(self.state),
            "reason": self.reason,
            "message": self.message,
        }
        if self.evidence:
            row["evidence"] = list(self.evidence)
        if self.next_step:
            row["nextStep"] = self.next_step
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        return cls(
            link=_word(Link, row["link"]),
            state=_word(State, row["state"]),
            reason=row.get("reason", ""),
            message=row.get("message", ""),
            evidence=tuple(row.get("evidence", ())),
            next_step=row.get("nextStep", ""),
        )


def _word(known: type[_Known], word: str) -> _Known | str:
    return known(word) if word in list(known) else word
