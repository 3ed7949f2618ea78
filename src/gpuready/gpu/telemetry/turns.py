"""A thread that holds one session with NVML or DCGM and answers one order after the other.

Their calls can hang for as long as a driver is stuck. So nobody waits for such a thread: it is told what to
do and when, it leaves its answer, and a thread that hangs is left alone; it ends with the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gpuready.errors import HardwareError
from gpuready.gpu.telemetry.device_reader import Clock
from gpuready.gpu.telemetry.model import Field


class Closing(Protocol):
    def close(self) -> None: ...


Answer = TypeVar("Answer")
Session = TypeVar("Session", bound=Closing)
OpenedSession = TypeVar("OpenedSession", bound=Closing, covariant=True)
_LONGEST_WAIT_S = 2.0  # in one NVML call that waits for events: also how soon `release` is heard


@dataclass(frozen=True, slots=True)
class Order:
    """Look when it is `due_at` (monotonic). `number` grows from order to order."""

    number: int
    due_at: float
    fields: tuple[Field, ...] = ()
    interval_s: float = 30.0


class Opener(Protocol[OpenedSession]):
    def open(self) -> OpenedSession:
        """raises  HardwareError"""
        ...


class Turns(Generic[Session, Answer]):
    """done: called in this thread whenever an answer is there."""

    def __init__(self, name: str, library: Opener[Session], clock: Clock, done: Callable[[], None]) -> None:
        self._library = library
        self._clock = clock
        self._done = done
        self._wake = threading.Condition()
        self._order: Order | None = None
        self._stopping = self._released = False
        self._session: Session | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.answered = -1
        self.answer: Answer | None = None
        self.owes_since: float | None = None
        self.deaf_until = 0.0  # monotonic: it waits in a call, and hears of another order only then

    # --- from other threads -----------------------------------------------------------------------------
    def start(self) -> None:
        self._thread.start()

    def give(self, order: Order) -> None:
        """Replaces an order that was not begun."""
        self._set(_order=order)

    def release(self) -> None:
        """Give the driver up until `resume`."""
        self._set(_released=True)

    def resume(self) -> None:
        self._set(_released=False)

    def stop(self) -> None:
        self._set(_stopping=True)

    @property
    def holds_session(self) -> bool:
        return self._session is not None

    def _set(self, **flags: object) -> None:
        with self._wake:
            for name, value in flags.items():
                setattr(self, name, value)
            self._wake.notify()

    # --- the thread -------------------------------------------------------------------------------------
    def _run(self) -> None:
        while not self._stopping:
            order = self._order
            if self._released:
                self._close()
                self._rest(lambda: not self._released)
            elif order is None or order.number <= self.answered:
                self._rest(lambda: self._released)
            elif (wait_s := order.due_at - self._clock.monotonic()) > 0:
                self._wait(wait_s)
            else:
                self._do(order)
        self._close()

    def _do(self, order: Order) -> None:
        self.owes_since = self._clock.monotonic()
        try:
            self._session = self._session or self._library.open()
            answer = self.look(self._session, order)
        except HardwareError as exc:
            answer = self.failed(exc.what, order)
            self._close()
        except Exception as exc:  # a thread that ends says nothing: better a reason and another try
            answer = self.failed(f"asking for values failed: {type(exc).__name__}: {exc}", order)
            self._close()
        self.owes_since = None
        self.answer, self.answered = answer, order.number
        self._done()

    def _wait(self, seconds: float) -> None:
        longest = min(seconds, _LONGEST_WAIT_S)
        self.deaf_until = self._clock.monotonic() + longest
        has_waited = self._session is not None and self.wait(self._session, longest)
        self.deaf_until = 0.0
        if not has_waited:
            self._rest(lambda: self._released, seconds)

    def _rest(self, until: Callable[[], bool], seconds: float | None = None) -> None:
        """Until then, or until another order is given or we are to stop."""
        order = self._order
        with self._wake:
            self._wake.wait_for(lambda: until() or self._stopping or self._order is not order, seconds)

    def _close(self) -> None:
        """It is held until it is closed: who was told too early would find the driver still in use."""
        if self._session is not None:
            self.owes_since = self.owes_since or self._clock.monotonic()
            try:
                self.closing(self._session)
                self._session.close()
            finally:
                self._session = None
            self.owes_since = None

    # --- what a kind of thread does ---------------------------------------------------------------------
    def look(self, session: Session, order: Order) -> Answer:
        """raises  HardwareError: the session is closed, and opened again for the next order"""
        raise NotImplementedError

    def failed(self, reason: str, order: Order) -> Answer:
        raise NotImplementedError

    def wait(self, session: Session, seconds: float) -> bool:
        """Do something useful for at most so long; False when there is nothing."""
        return False

    def closing(self, session: Session) -> None:
        """The last that is asked of a session; raises nothing."""
