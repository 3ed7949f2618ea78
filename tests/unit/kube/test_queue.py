"""The queue's promises, first one by one, then under any order of calls."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gpuready.kube.queue import Ledger, WorkQueue


async def test_a_key_added_twice_is_worked_on_once() -> None:
    queue = WorkQueue()
    queue.add("a")
    queue.add("a")

    assert await queue.get() == "a"
    assert len(queue) == 0


async def test_a_key_that_changes_while_being_processed_comes_again_afterwards() -> None:
    queue = WorkQueue()
    queue.add("a")
    await queue.get()

    queue.add("a")
    assert len(queue) == 0  # not by a second worker at the same time
    queue.done("a")

    assert await queue.get() == "a"


async def test_the_earlier_of_two_deadlines_counts() -> None:
    queue = WorkQueue()
    queue.add_after("a", 60)
    queue.add_after("a", 0.02)
    queue.add_after("a", 30)

    async with asyncio.timeout(30):
        assert await queue.get() == "a"


async def test_a_waiting_worker_is_woken_by_a_deadline_set_later() -> None:
    queue = WorkQueue()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after("a", 0.02)

    async with asyncio.timeout(30):
        assert await worker == "a"


async def test_each_key_goes_to_one_of_several_workers() -> None:
    queue = WorkQueue()
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    for key in "abc":
        queue.add(key)

    async with asyncio.timeout(30):
        assert sorted(await asyncio.gather(*workers)) == ["a", "b", "c"]


async def test_a_cancelled_worker_takes_no_key_with_it() -> None:
    queue = WorkQueue()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()

    async with asyncio.timeout(30):
        assert await second == "a"


async def test_failures_wait_longer_each_time_until_forgotten() -> None:
    queue = WorkQueue(first_retry_s=1, longest_retry_s=5)

    for wait_s in (1, 2, 4, 5):
        assert wait_s <= queue.add_rate_limited("a") <= wait_s * 1.2
    assert queue.retries("a") == 4
    queue.forget("a")
    assert queue.add_rate_limited("a") <= 1.2
    assert queue.add_rate_limited("a", at_least_s=60) >= 60, "as the server asked"


KEYS = st.sampled_from("abc")


class AnyOrder(RuleBasedStateMachine):
    """Against a plain model: what is owed, what is being worked on, and when the rest is due."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.now = 0.0
        self.owed: set[str] = set()
        self.busy: set[str] = set()
        self.due: dict[str, float] = {}

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.ledger.add(key)
        self.owed.add(key)

    @rule(key=KEYS, delay=st.integers(0, 5))
    def add_later(self, key: str, delay: int) -> None:
        self.ledger.add_at(key, self.now + delay, self.now)
        if delay == 0:
            self.owed.add(key)
            self.due.pop(key, None)
        else:
            self.due[key] = min(self.due.get(key, float("inf")), self.now + delay)

    @rule(seconds=st.integers(1, 4))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        self.ledger.promote(self.now)
        for key in [key for key, when in self.due.items() if when <= self.now]:
            del self.due[key]
            self.owed.add(key)

    @rule()
    def take(self) -> None:
        key = self.ledger.take()
        if key is None:
            assert not self.owed - self.busy  # nothing is held back
            return
        assert key in self.owed
        assert key not in self.busy  # never two workers on one key
        self.owed.discard(key)
        self.busy.add(key)

    @rule(key=KEYS)
    def done(self, key: str) -> None:
        if key in self.busy:
            self.ledger.done(key)
            self.busy.discard(key)

    @invariant()
    def the_next_deadline_is_the_earliest(self) -> None:
        assert self.ledger.next_due() == (min(self.due.values()) if self.due else None)

    @invariant()
    def ready_is_what_is_owed_and_not_busy(self) -> None:
        assert len(self.ledger) == len(self.owed - self.busy)


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrder = pytest.mark.filterwarnings("ignore")(AnyOrder.TestCase)
