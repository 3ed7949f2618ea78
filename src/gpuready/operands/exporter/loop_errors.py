"""What fails inside a library's callback, where nobody can catch it: told once and in one line.

A socket that speaks something else than the kubelet does breaks grpclib at every question; asyncio would
write its whole traceback each time.
"""

from __future__ import annotations

import asyncio
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
        fields = {"error": type(exc).__name__, "reason": str(exc)[:200], "where": message}
        kind = (message, type(exc).__name__)
        say = log.debug if kind in self._told else log.warning
        self._told.add(kind)
        say("a callback failed", **fields)
