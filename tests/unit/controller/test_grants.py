"""Who may restart its container runtime: one busy node at a time, fresh ones at once."""

from __future__ import annotations

import pytest

from gpuready.controller.nodes.grants import Grant, at_once, grant_for
from gpuready.controller.nodes.summary import GPUNodeSummary, LinkSummary, RequestSummary, StatusSummary
from gpuready.kube.trimmed import Metadata


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


@pytest.mark.parametrize("reason", ["RuntimeConfigRolledBack", "RuntimeSilent"])
def test_a_runtime_that_did_not_take_it_stops_the_others(reason):
    nodes = [
        node("a", granted="1", state="broken", reason=reason),
        node("b", asks="2"),
        node("c", asks="3", busy=False),
    ]

    assert grant_for("b", nodes, 3) == Grant("", "the runtime of a did not take the same change")
    assert grant_for("c", nodes, 3) == Grant("3"), "a fresh node has nothing to lose"


def test_what_was_granted_stays_while_the_node_is_at_it():
    assert grant_for("a", [node("a", asks="1", granted="1")], 1) == Grant("1")


def test_another_change_needs_another_grant():
    nodes = [node("a", asks="2", granted="1"), node("0", asks="9", granted="9")]

    assert grant_for("a", nodes, 1) == Grant("1", "0 first, 1 at a time")


@pytest.mark.parametrize(
    ("asked", "nodes", "count"), [(1, 100, 1), ("3", 100, 3), ("25%", 10, 3), ("1%", 10, 1), (0, 10, 1)]
)
def test_how_many_at_once(asked, nodes, count):
    assert at_once(asked, nodes) == count
