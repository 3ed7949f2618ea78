"""One thread with one session: when it may be said that the driver is free."""

from __future__ import annotations

import threading
import time

from gpuready.gpu.telemetry.turns import Order, Turns

DEADLINE_S = 30


class Held:
    """A session whose end takes until `may_end`."""

    def __init__(self) -> None:
        self.ends, self.may_end = threading.Event(), threading.Event()

    def open(self) -> Held:
        return self

    def close(self) -> None:
        self.ends.set()
        self.may_end.wait(DEADLINE_S)


class Looks(Turns[Held, int]):
    def look(self, session: Held, order: Order) -> int:
        return order.number

    def failed(self, reason: str, order: Order) -> int:
        raise AssertionError(reason)


def test_the_driver_is_held_until_its_session_has_been_closed() -> None:
    """Who unloads the driver asks this first, and a session that is being closed still holds it."""
    session, answered = Held(), threading.Event()
    thread = Looks("looks", session, time, answered.set)
    thread.start()
    thread.give(Order(0, due_at=0))
    assert answered.wait(DEADLINE_S)

    thread.release()
    assert session.ends.wait(DEADLINE_S)
    assert thread.holds_session

    session.may_end.set()
    thread.stop()
    thread._thread.join(DEADLINE_S)
    assert not thread.holds_session
