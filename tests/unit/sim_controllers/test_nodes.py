"""Conditions, taints and evictions of nodes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gpuready_sim.controllers.nodes import health

from .builders import node, pod, taint

NOW = "2026-01-01T00:00:00Z"
CLOCK = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


def keys(machine):
    wanted = health.wanted_taints(machine, NOW)
    return (
        None
        if wanted is None
        else [(t["key"].removeprefix("node.kubernetes.io/"), t["effect"]) for t in wanted]
    )


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        pytest.param(node(), None, id="ready and clean: nothing to write"),
        pytest.param(
            node(conditions={"Ready": "False"}),
            [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")],
            id="not ready",
        ),
        pytest.param(
            node(conditions={"Ready": "Unknown"}),
            [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")],
            id="silent",
        ),
        pytest.param(
            node(conditions={"Ready": "True", "DiskPressure": "True"}),
            [("disk-pressure", "NoSchedule")],
            id="disk pressure",
        ),
        pytest.param(node(unschedulable=True), [("unschedulable", "NoSchedule")], id="cordoned"),
        pytest.param(
            node(taints=[taint(), {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
            [("nvidia.com/gpu", "NoSchedule")],
            id="ready again: ours goes, a user's stays",
        ),
    ],
)
def test_taints_follow_the_conditions(machine, expected):
    assert keys(machine) == expected


def test_a_silent_node_has_unknown_conditions_once():
    first = health.silent_conditions(node(), NOW)

    assert {c["type"]: c["status"] for c in first}["Ready"] == "Unknown"
    assert first[0]["message"] == "Kubelet stopped posting node status."
    known = dict.fromkeys(("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"), "Unknown")
    assert health.silent_conditions(node(conditions=known), NOW) == []


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], 0, id="not tolerated: at once"),
        pytest.param([{"operator": "Exists"}], None, id="tolerated for ever"),
        pytest.param(
            [{"operator": "Exists", "tolerationSeconds": 300}], 240, id="for a while, from timeAdded"
        ),
        pytest.param([{"operator": "Exists", "tolerationSeconds": 30}], 0, id="the while is over"),
    ],
)
def test_no_execute_taints_evict_after_the_tolerated_time(tolerations, expected):
    silent = node(taints=[{**taint(effect="NoExecute"), "timeAdded": NOW}])

    assert health.evict_in(pod(tolerations=tolerations), silent, CLOCK) == expected
