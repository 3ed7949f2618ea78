"""Which keys wait for a worker: each at most once, never by two workers at a time.

`Ledger` holds the rules and is pure (`now` is passed in); `WorkQueue` adds waiting and timers.
Source of the rules: client-go, util/workqueue (queue.go, delaying_queue.go, default_rate_limiters.go).
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque

FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 60.0


class Ledger:
    """A key is waiting, processing, or both ("dirty": changed while being processed, so it comes again)."""

    def __init__(
        self, *, first_retry_s: float = FIRST_RETRY_S, longest_retry_s: float = LONGEST_RETRY_S
    ) -> None:
        self._first_retry_s = first_retry_s
        self._longest_retry_s = longest_retry_s
        self._ready: deque[str] = deque()
        self._dirty: set[str] = set()
        self._processing: set[str] = set()
        self._due: dict[str, float] = {}
        self._timeline: list[tuple[float, str]] = []
        self._failures: dict[str, int] = {}

    def add(self, key: str) -> None:
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._ready.append(key)

    def add_at(self, key: str, when: float, now: float) -> None:
        """The earliest of several deadlines of a key counts."""
        if when <= now:
            self._due.pop(key, None)
            self.add(key)
        elif when < self._due.get(key, float("inf")):
            self._due[key] = when
            heapq.heappush(self._timeline, (when, key))

    def next_retry_s(self, key: str) -> float:
        """Exponential per key, until `forget`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(self._first_retry_s * 2.0 ** min(failures, 32), self._longest_retry_s)

    def forget(self, key: str) -> None:
        self._failures.pop(key, None)

    def retries(self, key: str) -> int:
        return self._failures.get(key, 0)

    def promote(self, now: float) -> None:
        """Move what has become due among the ready."""
        while self._timeline and self._timeline[0][0] <= now:
            when, key = heapq.heappop(self._timeline)
            if self._due.get(key) == when:
                del self._due[key]
                self.add(key)

    def next_due(self) -> float | None:
        while self._timeline and self._due.get(self._timeline[0][1]) != self._timeline[0][0]:
            heapq.heappop(self._timeline)  # superseded by an earlier one
        return self._timeline[0][0] if self._timeline else None

    def take(self) -> str | None:
        if not self._ready:
            return None
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._processing.add(key)
        return key

    def done(self, key: str) -> None:
        self._processing.discard(key)
        if key in self._dirty:
            self._ready.append(key)

    def __len__(self) -> int:
        return len(self._ready)


class WorkQueue:
    """For one event loop; `get` and `done` frame the work on one key."""

    def __init__(
        self, *, first_retry_s: float = FIRST_RETRY_S, longest_retry_s: float = LONGEST_RETRY_S
    ) -> None:
        self._ledger = Ledger(first_retry_s=first_retry_s, longest_retry_s=longest_retry_s)
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: str) -> None:
        self._ledger.add(key)
        self._wake()

    def add_after(self, key: str, delay_s: float) -> None:
        now = self._now()
        self._ledger.add_at(key, now + delay_s, now)
        self._wake()

    def add_rate_limited(self, key: str, *, at_least_s: float = 0.0) -> float:
        """Come again after a wait that doubles with each call until `forget`; returns the seconds.

        Up to a fifth longer, so that what failed together does not come again together.
        """
        delay_s = max(self._ledger.next_retry_s(key), at_least_s) * random.uniform(1.0, 1.2)
        self.add_after(key, delay_s)
        return delay_s

    def forget(self, key: str) -> None:
        self._ledger.forget(key)

    def retries(self, key: str) -> int:
        return self._ledger.retries(key)

    async def get(self) -> str:
        while True:
            self._ledger.promote(self._now())
            key = self._ledger.take()
            if key is not None:
                self._wake()
                return key
            await self._wait()

    def done(self, key: str) -> None:
        self._ledger.done(key)
        self._wake()

    def __len__(self) -> int:
        return len(self._ledger)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _wait(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        self._set_timer()
        try:
            await getter
        except asyncio.CancelledError:
            if getter.done() and not getter.cancelled():
                self._wake()  # the call was for us; pass it on
            raise
        finally:
            if getter in self._getters:
                self._getters.remove(getter)

    def _wake(self) -> None:
        """One waiting worker per ready key, and a timer for the next that becomes due."""
        for _ in range(len(self._ledger)):
            while self._getters and self._getters[0].done():
                self._getters.popleft()
            if not self._getters:
                break
            self._getters.popleft().set_result(None)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._ledger.next_due()
        if due is not None and self._getters:
            self._timer = asyncio.get_running_loop().call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        # The loop may call a little early (its clock resolution); due is due.
        self._ledger.promote(max(self._now(), self._ledger.next_due() or 0.0))
        self._wake()
