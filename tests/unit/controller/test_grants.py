"""Who may restart its container runtime: one busy node at a time, fresh ones at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuready.controller.nodes.grants import Grant, RollOut, Stop, at_once, is_left_over
from gpuready.controller.nodes.summary import GPUNodeSummary, LinkSummary, RequestSummary, StatusSummary
from gpuready.controller.policy.active import ActivePolicy
from gpuready.controller.policy.conditions import conditions_of
from gpuready.controller.policy.observed import Observed
from gpuready.kube.trimmed import Metadata
from gpuready.names import RESTARTS_STOPPED_CONDITION as STOPPED


def node(
    name: str,
    *,
    asks: str = "",
    granted: str = "",
    busy: bool = True,
    state: str = "waiting",
    reason: str = "",
) -> GPUNodeSummary:
    requests = (RequestSummary("RestartRuntime", asks, busy),) if asks else ()
    status = StatusSummary(chain=(LinkSummary("toolkit", state, reason),), requests=requests)
    toolkit = {"enabled": True, **({"grant": granted} if granted else {})}
    return GPUNodeSummary(Metadata(name=name), {"toolkit": toolkit}, status)


def grant_for(name: str, nodes: list[GPUNodeSummary], max_unavailable: int | str, **more) -> Grant:
    return RollOut(nodes, max_unavailable, **more).grant_for(name)


def test_a_node_without_workloads_need_not_wait():
    nodes = [node("a", asks="1", granted="1"), node("b", asks="2", busy=False)]

    assert grant_for("b", nodes, 1) == Grant("2")


def test_of_busy_nodes_the_first_by_name_goes_first():
    nodes = [node("b", asks="2"), node("a", asks="1")]

    assert grant_for("a", nodes, 1) == Grant("1")
    assert grant_for("b", nodes, 1) == Grant("", "a first, 1 at a time")


def test_the_next_goes_when_the_one_before_is_done():
    at_it = [node("a", asks="1", granted="1"), node("b", asks="2")]
    done = [node("a", granted="1", state="ok"), node("b", asks="2")]

    assert grant_for("b", at_it, 1).id == ""
    assert grant_for("b", done, 1) == Grant("2")


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("RuntimeConfigRolledBack", "the runtime of a did not take the same change"),
        ("RuntimeSilent", "the runtime of a, which was allowed to restart, does not answer"),
    ],
)
def test_a_runtime_that_did_not_take_it_stops_the_others(reason, said):
    nodes = [
        node("a", granted="1", state="broken", reason=reason),
        node("b", asks="2"),
        node("c", asks="3", busy=False),
    ]

    assert grant_for("b", nodes, 3) == Grant("", said)
    assert grant_for("c", nodes, 3) == Grant("3"), "a fresh node has nothing to lose"
    assert RollOut(nodes).stop == Stop("a", said, ("b",))


NOT_READY = "the kubelet does not report (the node is not Ready)"


def test_a_node_that_dies_with_its_grant_stops_the_others_until_it_is_back_or_gone():
    nodes = [node("a", asks="1", granted="1"), node("b", asks="2")]
    said = f"a was allowed to restart its runtime and is silent since: {NOT_READY}"

    assert grant_for("b", nodes, 3, lost={"a": NOT_READY}) == Grant("", said)
    assert RollOut(nodes, lost={"a": NOT_READY}).stop == Stop("a", said, ("b",))
    assert grant_for("b", nodes[1:], 3) == Grant("2")
    assert grant_for("b", [node("a", granted="1", state="ok"), nodes[1]], 1) == Grant("2")


def test_a_node_that_died_while_it_waited_gets_no_grant_and_holds_nobody_up():
    nodes = [node("a", asks="1"), node("b", asks="2")]

    assert grant_for("a", nodes, 1, absent={"a": NOT_READY}) == Grant("", NOT_READY)
    assert grant_for("b", nodes, 1, absent={"a": NOT_READY}) == Grant("2")


def test_what_was_granted_a_moment_ago_counts_though_no_watch_has_brought_it_yet():
    """b was the only one that asked, then a asks: both would restart at once."""
    nodes = [node("a", asks="1"), node("b", asks="2")]

    assert grant_for("a", nodes, 1, given={"b": "2"}) == Grant("", "b first, 1 at a time")
    assert grant_for("b", nodes, 1, given={"b": "2"}) == Grant("2")


@given(
    names=st.sets(st.sampled_from("abcdefgh"), min_size=1),
    order=st.randoms(use_true_random=False),
    limit=st.integers(1, 3),
)
@settings(max_examples=30)
def test_however_they_ask_no_more_than_allowed_are_at_it_and_all_get_their_turn(names, order, limit):
    """Each asks when it likes, is judged when it likes, and takes as long as it likes."""
    state = dict.fromkeys(sorted(names), "quiet")
    granted: dict[str, str] = {}
    turns = [name for _ in range(40) for name in order.sample(sorted(state), len(state))]
    for name in turns:
        if state[name] == "quiet":
            state[name] = "asks"
        elif state[name] == "asks":
            nodes = [node(each, asks="1" if state[each] in ("asks", "busy") else "") for each in state]
            if grant_for(name, nodes, limit, given=granted).id:
                state[name], granted[name] = "busy", "1"
        elif state[name] == "busy":
            state[name] = "done"
            del granted[name]
        assert list(state.values()).count("busy") <= limit
    assert set(state.values()) == {"done"}


def test_only_the_next_ones_are_told_whose_turn_it_is():
    """It changes with every node that is done, and is written to each that waits."""
    nodes = [node(f"n{number:04}", asks=str(number + 1)) for number in range(1_000)]

    assert grant_for("n0002", nodes, 1).held_by == "n0000, n0001 first, 1 at a time"
    before = {grant_for(name, nodes, 1).held_by for name in ("n0011", "n0500", "n0999")}
    after = {grant_for(name, nodes[1:], 1).held_by for name in ("n0500", "n0999")}
    assert before == after == {"at least 10 other nodes first, 1 at a time"}


def test_a_thousand_nodes_that_ask_are_judged_in_one_look():
    nodes = [node(f"n{number:04}", asks="1") for number in range(1_000)]

    found = RollOut(nodes, "5%")

    assert sum(bool(found.grant_for(each.metadata.name).id) for each in nodes) == 50


def test_the_policy_says_which_node_has_stopped_the_others():
    nodes = [node("a", granted="1", state="broken", reason="RuntimeSilent"), node("b", asks="2")]
    seen = Observed([], {each.metadata.name: each for each in nodes})

    (row,) = [
        row
        for row in conditions_of(ActivePolicy("p", "u", 1, {}, None), None, [], seen)
        if row["type"] == STOPPED
    ]

    assert row["message"] == (
        "1 node waits to restart the container runtime (b): the runtime of a, which was allowed to restart, "
        "does not answer; next: gpuready doctor --node a; the others go on once that node is mended, or has "
        "left the cluster"
    )


def test_nothing_is_stopped_while_nobody_waits():
    failed = node("a", granted="1", state="broken", reason="RuntimeSilent")

    assert RollOut([failed, node("b", granted="2", state="ok")]).stop is None


def test_what_was_granted_stays_while_the_node_is_at_it():
    assert grant_for("a", [node("a", asks="1", granted="1")], 1) == Grant("1")


def test_another_change_needs_another_grant():
    nodes = [node("a", asks="2", granted="1"), node("0", asks="9", granted="9")]

    assert grant_for("a", nodes, 1) == Grant("", "0 first, 1 at a time")


@pytest.mark.parametrize(
    ("found", "left_over"),
    [
        pytest.param(node("a", granted="1", state="broken"), True, id="nobody ever asked for it"),
        pytest.param(node("a", granted="1", state="ok"), True, id="done"),
        pytest.param(node("a", granted="1", state="waiting"), False, id="at it"),
        pytest.param(node("a", granted="1", state="broken", reason="RuntimeSilent"), False, id="stops all"),
        pytest.param(node("a", granted="1", asks="1"), False, id="asked for"),
        pytest.param(node("a"), False, id="nothing was granted"),
    ],
)
def test_a_grant_that_nobody_asks_for_is_left_over(found, left_over):
    assert is_left_over(found) is left_over


@pytest.mark.parametrize(
    ("asked", "nodes", "count"), [(1, 100, 1), ("3", 100, 3), ("25%", 10, 3), ("1%", 10, 1), (0, 10, 1)]
)
def test_how_many_at_once(asked, nodes, count):
    assert at_once(asked, nodes) == count
