"""What fails inside a library's callback, where nobody can catch it: told once and in one line.

A socket that speaks something else than the kubelet does breaks grpclib at every question; asyncio would
write its whole traceback each time. And where no file descriptor is left, asyncio's accept loop reports so
as often as its queue is long, in one go: with a traceback each, a daemon does nothing else for minutes.
"""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from typing import Any

from gpuready.log import Logger


class LoopErrors:
    """For `loop.set_exception_handler`.

    tracebacks  only what the system refuses is told in one line; the rest as asyncio does, with its traceback
    """

    def __init__(self, log: Logger, *, tracebacks: bool = False) -> None:
        self._log, self._tracebacks = log, tracebacks
        self._told: set[tuple[str, str]] = set()

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        exc = context.get("exception")
        if self._tracebacks and not isinstance(exc, OSError):
            loop.default_exception_handler(context)
            return
        message = str(context.get("message", "")).partition("\n")[0]
        fields = {"error": type(exc).__name__, "reason": str(exc)[:200], "during": message, "at": _place(exc)}
        kind = (message, type(exc).__name__)
        say = self._log.debug if kind in self._told else self._log.warning
        self._told.add(kind)
        say("a callback failed", **fields)


def _place(exc: BaseException | None) -> str:
    """ "protocol.py:573", where it was raised."""
    frames = traceback.extract_tb(exc.__traceback__) if exc is not None else []
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
