"""A loop over keys: each is handled alone, failures come back later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gpuready_sim.client import ApiStatus, Conflict, Unreachable

log = logging.getLogger(__name__)
RETRY_S = (0.1, 0.3, 1.0, 3.0)


class KeyedLoop:
    """Calls `act(key)` for each marked key; a key marked while it is handled is handled once more.

    `act` may return seconds after which it wants to be called again for that key.
    """

    def __init__(self, name: str, act: Callable[[str], Awaitable[float | None]], *, workers: int = 4) -> None:
        self._name = name
        self._act = act
        self._workers = workers
        self._waiting: dict[str, None] = {}
        self._busy: set[str] = set()
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()

    def mark(self, key: str) -> None:
        self._waiting[key] = None
        self._wake.set()

    def mark_after(self, key: str, delay_s: float) -> None:
        """Later; an earlier time that is already set wins."""
        event_loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= event_loop.time() + delay_s:
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = event_loop.call_later(delay_s, self._timer_fired, key)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _work(self) -> None:
        while True:
            key = await self._take()
            try:
                again_s = await self._act(key)
                self._failures.pop(key, None)
                if again_s is not None:
                    self.mark_after(key, again_s)
            except (ApiStatus, Unreachable) as exc:
                self._retry(key, exc)
            except Exception as exc:
                log.exception("%s failed for %s", self._name, key)
                self._retry(key, exc)
            finally:
                self._busy.discard(key)
                self._wake.set()

    async def _take(self) -> str:
        while True:
            for key in self._waiting:
                if key not in self._busy:
                    del self._waiting[key]
                    self._busy.add(key)
                    return key
            self._wake.clear()
            await self._wake.wait()

    def _retry(self, key: str, exc: Exception) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if not isinstance(exc, Conflict) or failures > 2:
            log.info("%s will retry %s: %s", self._name, key, exc)
        self.mark_after(key, RETRY_S[min(failures, len(RETRY_S) - 1)])

    def _timer_fired(self, key: str) -> None:
        self._timers.pop(key, None)
        self.mark(key)
