"""A process of the simulator ends with the one that started it: nothing is left of one that was killed."""

from __future__ import annotations

import ctypes
import os
import signal

_VARIABLE = "GPUREADY_SIM_PARENT"
_PR_SET_PDEATHSIG = 1


def named_parent() -> dict[str, str]:
    """The environment for a child that calls `die_with_parent`: it learns who its parent was."""
    return {**os.environ, _VARIABLE: str(os.getpid())}


def die_with_parent() -> None:
    """Get SIGTERM when the parent dies, also when it is dead already."""
    parent = int(os.environ.get(_VARIABLE) or os.getppid())
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
