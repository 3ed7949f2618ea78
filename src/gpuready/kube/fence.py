"""Keeps the writes of who does not lead any more from leaving the process.

A leader that was stopped for a minute (SIGSTOP, a paused machine, a starved processor) wakes up in the middle
of its work and knows nothing. So each write asks for the time at the last moment before it is sent, and the
clock counts while the machine sleeps. What was sent before is beyond recall; for that the Lease outlasts its
leader's own deadline by some seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpuready.kube.errors import Away


class Fenced(Away):
    """A write that was not sent."""

    def __init__(self) -> None:
        super().__init__(
            "the write was not sent",
            why="this operator does not lead",
            next_step="none: whoever leads does it; see the Lease",
        )


def boot_clock() -> float:
    """Seconds since the machine started; unlike time.monotonic() they pass while it is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Fence:
    """Open until a moment that is moved on again and again; closed at first."""

    def __init__(self, clock: Callable[[], float] = boot_clock) -> None:
        self._clock = clock
        self._open_until = float("-inf")
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def open_until(self, when: float) -> None:
        self._open_until = when

    def shut(self) -> None:
        self._open_until = float("-inf")

    @property
    def is_open(self) -> bool:
        return self._clock() < self._open_until

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Around one write, until it is answered; raises Fenced when it may not be sent."""
        if not self.is_open:
            raise Fenced
        self._under_way += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                self._idle.set()

    async def drained(self, within_s: float) -> bool:
        """Let no more writes through and wait for those under way; False when one is still not answered."""
        self.shut()
        try:
            async with asyncio.timeout(within_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True
