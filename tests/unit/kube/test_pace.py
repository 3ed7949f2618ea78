"""Two programs that undo each other's writes do not go on as fast as the server answers."""

from __future__ import annotations

from gpuready.kube.pace import AT_ONCE, THEN_EVERY_S, Pace


def writes_within(seconds: float, pace: Pace, clock: list[float], key: str = "node") -> int:
    """How often a key is written when somebody undoes each write within 20 ms."""
    count, end = 0, clock[0] + seconds
    while clock[0] < end:
        if not pace.wait_s(key):
            pace.wrote(key)
            count += 1
        clock[0] += 0.02
    return count


def test_a_fight_costs_a_write_every_two_seconds_and_a_quiet_time_forgives():
    clock = [1000.0]
    pace = Pace(lambda: clock[0])

    assert writes_within(0.5, pace, clock) == AT_ONCE
    assert writes_within(60, pace, clock) == 60 / THEN_EVERY_S
    assert pace.wait_s("another node") == 0
    clock[0] += AT_ONCE * THEN_EVERY_S
    assert writes_within(0.5, pace, clock) == AT_ONCE


def test_keys_that_are_written_once_are_forgotten():
    clock = [1000.0]
    pace = Pace(lambda: clock[0])

    for number in range(5_000):
        pace.wrote(f"node {number}")
        clock[0] += 0.01

    assert len(pace._whole_at) < 3 * THEN_EVERY_S / 0.01
