"""One error tree; every error says what is wrong, why, and what to do next.

    GPUReadyError
    ├── PolicyError        a ClusterPolicy, sharing configuration or label that we cannot follow
    ├── AllocationError    an Allocate call that must be refused
    ├── HardwareError      NVML or the driver answered with an error
    ├── ApiError           the API server's answer (kube/errors.py refines it by status and reason)
    ├── InternalError      a mistake of ours, met where the rest can go on without it
    └── UsageError         a command line or environment that makes no sense

The same three sentences reach the log, the condition and the terminal.
"""

from __future__ import annotations


class GPUReadyError(Exception):
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


class PolicyError(GPUReadyError):
    """A ClusterPolicy, sharing configuration or label that we cannot follow."""


class AllocationError(GPUReadyError):
    """An Allocate call that must be refused; the text reaches the pod's status.message."""


class HardwareError(GPUReadyError):
    """NVML or the driver answered with an error."""


class ApiError(GPUReadyError):
    """The API server refused or could not be reached."""


class UsageError(GPUReadyError):
    """A command line or environment that makes no sense."""


class InternalError(GPUReadyError):
    """A mistake of ours; what went wrong with one object, operand or node must not stop the others."""

    @classmethod
    def of(cls, error: Exception) -> InternalError:
        text = f"{INTERNAL}: {type(error).__name__}: {error}"
        found = cls(text[:300], next_step="report it with the operator's log, which has the traceback")
        found.__cause__ = error
        return found


# By these words it is known again in a text.
INTERNAL = "internal error"
