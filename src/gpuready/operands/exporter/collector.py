"""The one collection loop: a look at all GPUs every interval, handed on as a `Collection`.

It runs in a thread of its own, because a look waits for hardware; whoever serves pages does not.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from gpuready.gpu.telemetry.model import Collection, Field

_LONGEST_PATIENCE_S = 10.0


class Clock(Protocol):
    def monotonic(self) -> float: ...


class Reader(Protocol):
    """What the loop needs of gpu/telemetry/reader.py."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def hurry(self) -> None: ...
    def collect(
        self, fields: Sequence[Field], due_at: float, interval_s: float, patience_s: float
    ) -> Collection | None: ...


class Collector:
    """start() once, stop() once.

    tell    called in the loop's thread with each collection
    failed  called there with what went wrong when `tell` or a look raised; the loop goes on
    """

    def __init__(
        self,
        reader: Reader,
        fields: Sequence[Field],
        interval_s: float,
        tell: Callable[[Collection], None],
        *,
        clock: Clock,
        patience_s: float | None = None,
        failed: Callable[[Exception], None] = lambda exc: None,
    ) -> None:
        self._reader = reader
        self._fields = tuple(fields)
        self._interval_s = interval_s
        self._patience_s = patience_s if patience_s is not None else patience_of(interval_s)
        self._tell = tell
        self._failed = failed
        self._clock = clock
        self._stopping = threading.Event()
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)

    def start(self) -> None:
        self._reader.start()
        self._thread.start()

    def use(self, fields: Sequence[Field]) -> None:
        """Ask for these from now on, and at once; each collection is of one list of fields or the other."""
        self._fields = tuple(fields)
        self._changed.set()
        self._reader.hurry()

    def stop(self) -> None:
        self._stopping.set()
        self._reader.stop()

    def join(self, timeout_s: float) -> bool:
        """False when the loop has not ended in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        due_at = self._clock.monotonic()
        while not self._stopping.is_set():
            try:
                due_at = self.turn(due_at)
            except Exception as exc:  # pages must not freeze behind a loop that has ended
                self._failed(exc)
                due_at = next_due(due_at, self._clock.monotonic(), self._interval_s)
                self._stopping.wait(min(self._interval_s, 1.0))

    def turn(self, due_at: float) -> float:
        """One collection; returns when the next is due."""
        collection = self._reader.collect(self._fields, due_at, self._interval_s, self._patience_s)
        if collection is None:
            return self._clock.monotonic()
        self._tell(collection)
        if self._changed.is_set():
            self._changed.clear()
            return self._clock.monotonic()
        return next_due(due_at, self._clock.monotonic(), self._interval_s)


def next_due(due_at: float, now: float, interval_s: float) -> float:
    """The next point of the grid that is still to come: what was missed is not made up for."""
    missed = math.floor((now - due_at) / interval_s)
    return due_at + max(1, missed + 1) * interval_s


def patience_of(interval_s: float) -> float:
    """How long to wait for a GPU: the others' values must not get old over it."""
    return min(interval_s / 2, _LONGEST_PATIENCE_S)
