"""The collection loop under a virtual clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from gpuready.gpu.telemetry.fields import field_of
from gpuready.gpu.telemetry.model import Collection, Field
from gpuready.operands.exporter.collector import Collector, next_due, patience_of

DEADLINE_S = 30


@dataclass
class Clock:
    now: float = 100.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class FakeReader:
    """Looks are due on time and take `takes_s`; `cut` makes the next one return early."""

    clock: Clock
    takes_s: float = 0.1
    cut: bool = False
    hurried: int = 0
    asked: list[tuple[float, tuple[int, ...]]] = field(default_factory=list)

    def start(self) -> None: ...
    def stop(self) -> None: ...

    def hurry(self) -> None:
        self.hurried += 1

    def collect(
        self, fields: Sequence[Field], due_at: float, interval_s: float, patience_s: float
    ) -> Collection | None:
        if self.cut:
            self.cut = False
            return None
        self.clock.now = max(self.clock.now, due_at) + self.takes_s
        self.asked.append((due_at, tuple(of.id for of in fields)))
        return Collection(started_at=due_at)


def loop(reader: FakeReader, told: list[Collection]) -> Collector:
    return Collector(reader, [field_of(150)], 10, told.append, clock=reader.clock)


def test_collections_stay_on_the_grid_of_the_interval() -> None:
    clock, told = Clock(), list[Collection]()
    reader = FakeReader(clock)
    collector, due = loop(reader, told), clock.now
    for _ in range(4):
        due = collector.turn(due)
    assert [each.started_at for each in told] == [100, 110, 120, 130]


def test_a_look_that_takes_longer_than_the_interval_makes_the_next_one_late_and_none_up() -> None:
    clock, told = Clock(), list[Collection]()
    reader = FakeReader(clock, takes_s=25)
    collector, due = loop(reader, told), clock.now
    for _ in range(3):
        due = collector.turn(due)
    assert [each.started_at for each in told] == [100, 130, 160]


@pytest.mark.parametrize(
    ("due_at", "now", "then"),
    [
        pytest.param(100, 100.1, 110, id="in time"),
        pytest.param(100, 99, 110, id="cut short before it was due"),
        pytest.param(100, 110, 120, id="exactly one interval later"),
        pytest.param(100, 3700, 3710, id="the machine slept for an hour"),
    ],
)
def test_the_next_look_is_always_still_to_come(due_at: float, now: float, then: float) -> None:
    assert next_due(due_at, now, 10) == then


def test_other_fields_are_asked_for_at_once_and_never_half_of_them() -> None:
    clock, told = Clock(), list[Collection]()
    reader = FakeReader(clock)
    collector = loop(reader, told)
    due = collector.turn(clock.now)
    collector.use([field_of(155), field_of(203)])
    assert reader.hurried == 1
    reader.cut = True  # as the hurried wait returns
    due = collector.turn(due)
    assert due == clock.now
    collector.turn(due)
    assert reader.asked == [(100, (150,)), (due, (155, 203))]


def test_fields_that_change_while_a_page_is_made_are_asked_for_at_once_too() -> None:
    clock = Clock()
    reader = FakeReader(clock)
    collector = Collector(reader, [], 10, lambda page: _change(collector, reader), clock=clock)
    due = collector.turn(clock.now)
    due = collector.turn(due)
    assert collector.turn(due) == clock.now
    assert reader.asked[1][1] == (155,)
    assert reader.asked[1][0] < 101


def _change(collector: Collector, reader: FakeReader) -> None:
    """The hurry comes too late for this look, and cuts the next one short."""
    collector.use([field_of(155)])
    reader.cut = True


def test_nobody_waits_for_a_gpu_longer_than_half_an_interval() -> None:
    assert patience_of(1) == 0.5
    assert patience_of(30) == 10


def test_a_page_that_cannot_be_made_is_told_and_does_not_end_the_loop() -> None:
    failures: list[Exception] = []
    clock = Clock()
    reader = FakeReader(clock)

    def fail(collection: Collection) -> None:
        if len(failures) == 1:
            collector.stop()
        raise ValueError(f"page {len(failures)}")

    collector = Collector(reader, [], 0.01, fail, clock=clock, failed=failures.append)
    collector.start()
    assert collector.join(DEADLINE_S)
    assert [str(failure) for failure in failures] == ["page 0", "page 1"]
