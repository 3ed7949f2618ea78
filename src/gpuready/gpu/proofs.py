"""What came of running a program on a GPU, and whether one may be run there at all. Pure.

A program that runs there already is worth more than our proof: `reason_to_leave_alone` says when we keep off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

AT_ONCE = 4  # processes; with a real libcuda each takes some 150 MiB of the machine's memory for its moment
NEEDED_MIB = 1024  # a context takes 250-600 MiB; the rest is left to whoever asks for some meanwhile
_SOMEBODY_MIB = 150  # no context is smaller: so much in use is somebody's, seen or not
PROHIBITED, EXCLUSIVE = 2, 3


class Outcome(StrEnum):
    OK = "ok"
    IN_USE = "in-use"  # left alone: programs run there
    FAILED = "failed"
    WRONG = "wrong"  # it ran, and its answer is not right
    TIMED_OUT = "timed-out"
    CRASHED = "crashed"


@dataclass(frozen=True)
class Proof:
    """What came of it for one GPU or MIG device.

    call, code, name, text   the call that failed or did not return, and CUDA's number, name and words
    pid, started             of a process that did not even end when it was killed (`process_start`); 0 = none
    """

    uuid: str
    outcome: Outcome
    call: str = ""
    code: int = 0
    name: str = ""
    text: str = ""
    pid: int = 0
    started: int = 0

    @property
    def is_good(self) -> bool:
        return self.outcome in (Outcome.OK, Outcome.IN_USE)

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        return cls(
            uuid=str(row["uuid"]),
            outcome=Outcome(row["outcome"]),
            call=str(row.get("call") or ""),
            code=int(row.get("code") or 0),
            name=str(row.get("name") or ""),
            text=str(row.get("text") or ""),
            pid=int(row.get("pid") or 0),
            started=int(row.get("started") or 0),
        )


@dataclass(frozen=True)
class Use:
    """Who is on a GPU or MIG device, as NVML tells it.

    compute_mode   0 default, 2 prohibited, 3 exclusive process
    processes      with a context there; a container's own view may lack those of others
    """

    compute_mode: int = 0
    processes: int = 0
    used_mib: int = 0
    free_mib: int = NEEDED_MIB


def reason_to_leave_alone(use: Use) -> str:
    """Why no context of ours may be made there; "" = nothing speaks against it."""
    somebody = use.processes or use.used_mib >= _SOMEBODY_MIB
    if not somebody:
        return ""
    if use.compute_mode == EXCLUSIVE:
        return "one process has it for itself"
    if use.free_mib < NEEDED_MIB:
        return f"{use.free_mib} MiB of its memory are free"
    return ""
