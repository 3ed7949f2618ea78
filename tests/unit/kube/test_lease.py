"""Who leads: every row of the decision, and that no two lead, whatever happens to them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kube.lease_world import World

from gpuready.errors import UsageError
from gpuready.kube import lease
from gpuready.kube.lease import Action, Record, Refusal, Standing, Timing

NOW = 1000.0
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIMING = Timing()


def record(holder: str = "other", *, version: str = "7", duration_s: int = 15, **spec: Any) -> Record:
    meta = {"name": "lease", "namespace": "ns", "resourceVersion": version}
    spec = {"holderIdentity": holder, "leaseDurationSeconds": duration_s, "leaseTransitions": 3, **spec}
    return Record({"metadata": meta, "spec": spec})


def standing(**known: Any) -> Standing:
    return Standing("me", TIMING, **known)


def leader(renewed_s_ago: float = 0.0, **known: Any) -> Standing:
    since = NOW - renewed_s_ago
    given = {"record": record("me"), "unchanged_since": since, "rests_until": since + TIMING.retry_s}
    return standing(**{**given, "led_from": since, **known})


@pytest.mark.parametrize(
    ("known", "action"),
    [
        pytest.param(standing(), Action.CREATE, id="nothing is known yet"),
        pytest.param(standing(in_doubt=True), Action.LOOK, id="it was there already"),
        pytest.param(standing(record=record(), unchanged_since=NOW), Action.WAIT, id="another has renewed"),
        pytest.param(
            standing(record=record(), unchanged_since=NOW - 14.9), Action.WAIT, id="his time is not over"
        ),
        pytest.param(standing(record=record(), unchanged_since=NOW - 15), Action.TAKE, id="his time is over"),
        pytest.param(
            standing(record=record(duration_s=60), unchanged_since=NOW - 15),
            Action.WAIT,
            id="he promised more than we would",
        ),
        pytest.param(
            standing(record=record(duration_s=2**31 - 1), unchanged_since=NOW - lease.LONGEST_S + 1),
            Action.WAIT,
            id="he promised the most there is, and two minutes are not over",
        ),
        pytest.param(
            standing(record=record(duration_s=2**31 - 1), unchanged_since=NOW - lease.LONGEST_S),
            Action.TAKE,
            id="he promised the most there is, and has said nothing for two minutes",
        ),
        pytest.param(
            Standing("me", Timing(300, 200, 2), record=record(duration_s=300), unchanged_since=NOW - 299),
            Action.WAIT,
            id="he promised as much as we would, however much that is",
        ),
        pytest.param(standing(record=record(""), unchanged_since=NOW), Action.TAKE, id="released"),
        pytest.param(
            standing(record=record("me"), unchanged_since=NOW), Action.RENEW, id="ours by a lost answer"
        ),
        pytest.param(standing(vacant_from=NOW + 1), Action.WAIT, id="deleted under another"),
        pytest.param(standing(vacant_from=NOW), Action.CREATE, id="deleted, and his time is over"),
        pytest.param(standing(rests_until=NOW + 1), Action.WAIT, id="just refused"),
        pytest.param(leader(1), Action.WAIT, id="leads and renewed a second ago"),
        pytest.param(leader(2), Action.RENEW, id="leads and it is time to renew"),
        pytest.param(leader(9.9, in_doubt=True), Action.LOOK, id="leads and was not answered"),
        pytest.param(leader(10), Action.STEP_DOWN, id="leads and could not renew"),
        pytest.param(leader(1, record=record()), Action.STEP_DOWN, id="leads, but another holds it"),
        pytest.param(leader(3, record=None), Action.CREATE, id="leads, and somebody deleted it"),
        pytest.param(leader(3, record=record("")), Action.TAKE, id="leads, and somebody emptied it"),
    ],
)
def test_what_a_candidate_does_next(known: Standing, action: Action) -> None:
    assert lease.next_step(known, NOW).action == action


@pytest.mark.parametrize(
    ("known", "until"),
    [
        pytest.param(
            standing(record=record(), unchanged_since=NOW - 5), NOW + 10, id="until his time is over"
        ),
        pytest.param(leader(1), NOW + 1, id="until it is time to renew"),
        pytest.param(leader(9, rests_until=NOW + 5), NOW + 1, id="not beyond the own deadline"),
        pytest.param(standing(rests_until=NOW + 2, in_doubt=True), NOW + 2, id="until it may ask again"),
    ],
)
def test_how_long_it_waits(known: Standing, until: float) -> None:
    assert lease.next_step(known, NOW) == lease.Step(Action.WAIT, until)


def test_a_grant_counts_from_the_start_of_its_request_not_from_the_answer() -> None:
    known = lease.answered(standing(), Action.CREATE, record("me"), started=NOW, now=NOW + 4)
    assert known.leads_until == NOW + TIMING.renew_s
    assert lease.next_step(known, NOW + 4).action is Action.RENEW


def test_a_grant_that_is_heard_of_after_its_time_makes_no_leader() -> None:
    known = lease.answered(standing(), Action.TAKE, record("me"), started=NOW, now=NOW + 60)
    assert not known.leads(NOW + 60)
    assert lease.next_step(known, NOW + 60).action is Action.STEP_DOWN


def test_a_version_seen_again_does_not_begin_his_time_anew() -> None:
    first = lease.seen(standing(), record(), NOW)
    again = lease.seen(first, record(), NOW + 10)
    changed = lease.seen(first, record(version="8"), NOW + 10)
    assert (again.may_be_taken_from, changed.may_be_taken_from) == (NOW + 15, NOW + 25)


def test_whoever_held_a_deleted_lease_keeps_his_time() -> None:
    known = lease.seen(lease.seen(standing(), record(), NOW), None, NOW + 3)
    assert lease.next_step(known, NOW + 3) == lease.Step(Action.WAIT, NOW + 15)


@pytest.mark.parametrize(
    ("duration_s", "free_after_s"),
    [
        pytest.param(60, 60, id="an operator's: all of it"),
        pytest.param(120, 120, id="the longest that is believed"),
        pytest.param(121, 15, id="nobody's: the time of whoever led before it was written"),
        pytest.param(2**31 - 1, 15, id="forged"),
    ],
)
def test_deleting_a_lease_ends_the_wait_for_a_promise_that_no_operator_makes(
    duration_s: int, free_after_s: float
) -> None:
    held = lease.seen(standing(), record("evil", duration_s=duration_s), NOW)
    known = lease.seen(held, None, NOW + 10)

    assert lease.next_step(known, NOW + free_after_s - 0.1) == lease.Step(Action.WAIT, NOW + free_after_s)
    assert lease.next_step(known, NOW + free_after_s).action is Action.CREATE


def test_a_lease_that_counts_as_many_transitions_as_there_can_be_is_taken_all_the_same() -> None:
    taken = lease.claimed(standing(record=record(leaseTransitions=2**31 - 1)), {}, {}, NOON)
    assert taken["spec"]["leaseTransitions"] == 2**31 - 1


def test_clocks_in_the_lease_are_never_read() -> None:
    """An hour forward, an hour back: the same."""
    for jump in (timedelta(hours=1), timedelta(hours=-1)):
        text = (NOON + jump).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        known = lease.seen(standing(), record(renewTime=text, acquireTime=text), NOW)
        assert lease.next_step(known, NOW) == lease.Step(Action.WAIT, NOW + 15)


def test_what_is_written_is_what_client_go_writes() -> None:
    taken = lease.claimed(standing(record=record(strategy="kept")), {}, {"mark": "me"}, NOON)
    assert taken == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "lease",
            "namespace": "ns",
            "resourceVersion": "7",
            "annotations": {"mark": "me"},
        },
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T12:00:00.000000Z",
            "renewTime": "2026-01-01T12:00:00.000000Z",
            "leaseTransitions": 4,
            "strategy": "kept",
        },
    }


def test_a_renewal_moves_only_the_time_of_renewal() -> None:
    mine = lease.claimed(standing(record=record("me", acquireTime="then")), {}, {}, NOON)["spec"]
    assert (mine["acquireTime"], mine["leaseTransitions"]) == ("then", 3)
    assert mine["renewTime"] == "2026-01-01T12:00:00.000000Z"


def test_a_released_lease_is_nobodys_and_remembers_how_often_it_changed_hands() -> None:
    free = Record(lease.released(record("me"), NOON))
    assert (free.holder, free.spec["leaseTransitions"], free.version) == ("", 3, "7")
    assert lease.next_step(lease.seen(standing(), free, NOW), NOW).action is Action.TAKE


@pytest.mark.parametrize("timing", [Timing(10, 10, 2), Timing(15, 2, 2), Timing(15, 10, 0)])
def test_durations_with_which_two_could_lead_are_refused(timing: Timing) -> None:
    with pytest.raises(UsageError, match="cannot work"):
        timing.check()


# --- whatever happens ---------------------------------------------------------------------------------------

FAULTS_S = 120.0
FAULT = st.tuples(
    st.floats(0, FAULTS_S),
    st.sampled_from(["kill", "start", "end", "cut off", "stop", "slow", "lose", "forge", "delete"]),
    st.integers(0, 3),
    st.floats(0.1, 40),
)
CLOCK = st.tuples(st.floats(0.92, 1.08), st.floats(0, 1e6))  # a fast and a slow one share 15 to 10 seconds


def plan(world: World, faults: list[tuple[float, str, int, float]]) -> None:
    for at, kind, which, for_s in faults:
        one = world.candidates[which % len(world.candidates)]
        world.at(at, _DO[kind](world, one, for_s))


def _restarts(world: World, one: Any, end: Callable[[], None], for_s: float) -> Callable[[], None]:
    def do() -> None:
        end()
        world.at(world.now + for_s, one.start)

    return do


def _for_a_while(
    world: World, on: Any, name: str, value: Any, usual: Any, for_s: float
) -> Callable[[], None]:
    def do() -> None:
        setattr(on, name, value)
        world.at(world.now + for_s, lambda: setattr(on, name, usual))

    return do


def _stops(world: World, one: Any, for_s: float) -> Callable[[], None]:
    def do() -> None:
        one.stopped_until = world.now + for_s

    return do


_DO: dict[str, Callable[[World, Any, float], Callable[[], None]]] = {
    "kill": lambda world, one, for_s: _restarts(world, one, one.kill, for_s),
    "end": lambda world, one, for_s: _restarts(world, one, one.end, for_s),
    "start": lambda world, one, for_s: one.start,
    "cut off": lambda world, one, for_s: _for_a_while(world, one, "cut_off", True, False, for_s),
    "stop": _stops,
    "forge": lambda world, one, for_s: lambda: world.server.forge(),
    "delete": lambda world, one, for_s: world.delete,
    "slow": lambda world, one, for_s: _for_a_while(world, world, "slow_s", 4.0, 0.02, for_s),
    "lose": lambda world, one, for_s: _for_a_while(world, world, "loses", 0.4, 0.0, for_s),
}


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    clocks=st.lists(CLOCK, min_size=2, max_size=4),
    faults=st.lists(FAULT, max_size=25),
)
def test_no_two_lead_at_once_and_soon_after_the_last_fault_one_does(
    seed: int, clocks: list[tuple[float, float]], faults: list[tuple[float, str, int, float]]
) -> None:
    world = World(seed, TIMING, clocks)
    for candidate in world.candidates:
        world.at(0.0, candidate.start)
    plan(world, faults)

    world.run(FAULTS_S + 41)  # asserts after every event that at most one leads
    for candidate in world.candidates:
        candidate.start()
    # The time of a leader that is no more, and what a request may take on the way; twice, where the last word
    # of the Lease was lost and only a refused request tells of it.
    world.run(world.now + 2 * (lease.LONGEST_S + TIMING.renew_s) / 0.9)

    steady = world.leading()
    assert len(steady) == 1
    world.run(world.now + 60)
    assert world.leading() == steady


def test_a_leader_that_ends_cleanly_is_followed_at_once_and_a_killed_one_when_its_time_is_over() -> None:
    world = World(1, TIMING, [(1.0, 0.0), (1.0, 500.0)])
    world.candidates[0].start()
    world.run(10)
    world.candidates[1].start()
    world.run(19)
    assert world.leading() == ["c0-1"]

    world.candidates[0].end()
    world.run(19.5)
    assert world.leading() == ["c1-1"]

    world.candidates[0].start()
    world.run(29)
    world.candidates[1].kill()
    world.run(42)
    assert world.leading() == []
    world.run(45)
    assert world.leading() == ["c0-2"]


def test_a_request_without_an_answer_is_asked_about_before_anything_else() -> None:
    known = lease.answered(leader(2), Action.RENEW, Refusal.NO_ANSWER, started=NOW, now=NOW + 5)
    assert lease.next_step(known, NOW + 5).action is Action.LOOK
    known = lease.answered(known, Action.LOOK, record("me", version="8"), started=NOW + 5, now=NOW + 5)
    assert lease.next_step(known, NOW + 5).action is Action.RENEW
