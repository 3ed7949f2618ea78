"""What fails inside a library's callback, where nobody can catch it: told once and in one line.

A socket that speaks something else than the kubelet does breaks grpclib at every question; asyncio would
write its whole traceback each time.
"""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from typing import Any

from gpuready.log import get_logger

log = get_logger("exporter")


class LoopErrors:
    """For `loop.set_exception_handler`."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        exc = context.get("exception")
        message = str(context.get("message", "")).partition("\n")[0]
        fields = {"error": type(exc).__name__, "reason": str(exc)[:200], "during": message, "at": _place(exc)}
        kind = (message, type(exc).__name__)
        say = log.debug if kind in self._told else log.warning
        self._told.add(kind)
        say("a callback failed", **fields)


def _place(exc: BaseException | None) -> str:
    """ "protocol.py:573", where it was raised."""
    frames = traceback.extract_tb(exc.__traceback__) if exc is not None else []
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
