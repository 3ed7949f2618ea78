"""Errors of the simulator; each says what is wrong, why, and what to do next.

SimulatorError
├── UnknownModelError      a GPU model that is not in the catalogue
├── HardwareStateError     a state file, GPU or driver operation that makes no sense
└── DriverInUseError       the module cannot be unloaded: processes hold NVML
"""

from __future__ import annotations

from collections.abc import Sequence


class SimulatorError(Exception):
    """What happened; `why` and `next_step` complete the story for the reader."""

    def __init__(self, what: str, *, why: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.next_step = next_step

    def __str__(self) -> str:
        parts = [self.what]
        if self.why:
            parts.append(f"because {self.why}")
        if self.next_step:
            parts.append(f"next: {self.next_step}")
        return "; ".join(parts)


class UnknownModelError(SimulatorError):
    """A GPU model that is not in the catalogue."""

    def __init__(self, model: str, *, known: Sequence[str]) -> None:
        super().__init__(
            f"unknown GPU model {model!r}",
            why="the catalogue does not have it",
            next_step=f"use one of: {', '.join(known)}",
        )
        self.known = tuple(known)


class HardwareStateError(SimulatorError):
    """A state file, GPU or driver operation that makes no sense."""


class DriverInUseError(SimulatorError):
    """The module cannot be unloaded: processes hold NVML. `holders` are (pid, command)."""

    def __init__(self, node: str, holders: Sequence[tuple[int, str]]) -> None:
        names = ", ".join(f"{pid} ({command})" for pid, command in holders)
        super().__init__(
            f"the NVIDIA driver of {node} is in use",
            why=f"these processes hold NVML: {names}",
            next_step="end them, or drain the node, then try again",
        )
        self.holders = tuple(holders)
