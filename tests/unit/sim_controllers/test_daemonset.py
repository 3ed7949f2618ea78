"""Where daemon pods belong, how they look, and how a new template rolls out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gpuready_sim.controllers.daemonset import placement, rollout
from gpuready_sim.controllers.daemonset.placement import Fit

from .builders import daemon_pod, daemon_set, node, taint

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
RUN, KEEP_ONLY, NEITHER = Fit(True, True), Fit(False, True), Fit(False, False)
GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def view(ds: dict[str, Any], nodes: list[Any], pods: list[Any], revision: str = "new") -> rollout.View:
    return rollout.View(ds, nodes, pods, revision, NOW)


@pytest.mark.parametrize(
    ("template", "machine", "expected"),
    [
        pytest.param({}, node(), RUN, id="plain pod on a plain node"),
        pytest.param({"nodeSelector": {"gpu": "yes"}}, node(), NEITHER, id="the selector does not match"),
        pytest.param({"nodeSelector": {"gpu": "yes"}}, node(labels={"gpu": "yes"}), RUN, id="it matches"),
        pytest.param({}, node(taints=[taint()]), KEEP_ONLY, id="NoSchedule starts none and drives none away"),
        pytest.param({}, node(taints=[taint(effect="NoExecute")]), NEITHER, id="NoExecute drives away"),
        pytest.param({"tolerations": [GPU_TOLERATION]}, node(taints=[taint()]), RUN, id="tolerated"),
        pytest.param(
            {},
            node(taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]),
            RUN,
            id="silent nodes keep their daemons",
        ),
        pytest.param(
            {},
            node(taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
            RUN,
            id="cordoned nodes too",
        ),
        pytest.param(
            {},
            node(taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
            KEEP_ONLY,
            id="a node that is not ready yet waits",
        ),
        pytest.param({"nodeName": "other"}, node(), NEITHER, id="pinned to another node"),
    ],
)
def test_a_daemon_pod_belongs_where_selector_and_taints_allow(template, machine, expected):
    spec = {"containers": [{"name": "main"}], **template}

    assert placement.fit(daemon_set(template=spec), machine) == expected


def test_a_new_pod_is_pinned_tolerates_node_troubles_and_names_its_owner():
    pod = placement.new_pod(daemon_set(), "n7", "hash")

    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required == {"nodeSelectorTerms": [term]}
    assert pod["metadata"]["generateName"] == "ds-"
    assert pod["metadata"]["labels"] == {
        "app": "ds",
        "controller-revision-hash": "hash",
        "pod-template-generation": "3",
    }
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "uid-ds"
    assert len(pod["spec"]["tolerations"]) == 6  # network-unavailable only for hostNetwork


def test_the_template_hash_changes_only_with_the_template():
    one, same = daemon_set(), daemon_set(max_unavailable=3)
    other = daemon_set(template={"containers": [{"name": "main", "image": "v2"}]})

    assert placement.template_hash(one) == placement.template_hash(same)
    assert placement.template_hash(one) != placement.template_hash(other)


def test_missing_pods_are_created_and_surplus_ones_deleted():
    nodes = [node("a"), node("b"), node("c", labels={"x": "y"})]
    older = daemon_pod("b", name="first", since="2025-01-01T00:00:00Z")
    newer = daemon_pod("b", name="second")

    plan = rollout.manage(view(daemon_set(), nodes, [older, newer]))

    assert plan.create == ("a", "c")
    assert [p["metadata"]["name"] for p in plan.delete] == ["second"]


def test_a_pod_leaves_a_node_that_no_longer_matches():
    ds = daemon_set(template={"containers": [], "nodeSelector": {"gpu": "yes"}})

    plan = rollout.manage(view(ds, [node("a")], [daemon_pod("a")]))

    assert [p["metadata"]["name"] for p in plan.delete] == ["ds-a"]


def test_a_failed_pod_is_named_apart_and_a_terminating_one_is_waited_for():
    pods = [daemon_pod("a", phase="Failed"), daemon_pod("b", deleting=True)]

    plan = rollout.manage(view(daemon_set(), [node("a"), node("b")], pods))

    assert plan.create == ()
    assert [p["metadata"]["name"] for p in plan.finished] == ["ds-a"]


@pytest.mark.parametrize(
    ("ds", "pods", "deleted"),
    [
        pytest.param({}, {"a": "old", "b": "old", "c": "old"}, ["ds-a"], id="one at a time"),
        pytest.param(
            {"max_unavailable": 2}, {"a": "old", "b": "old", "c": "old"}, ["ds-a", "ds-b"], id="two"
        ),
        pytest.param(
            {"max_unavailable": "50%"}, {"a": "old", "b": "old", "c": "old"}, ["ds-a", "ds-b"], id="50% up"
        ),
        pytest.param({}, {"a": "new", "b": "old", "c": "old"}, ["ds-b"], id="the next one"),
        pytest.param(
            {}, {"a": "new!", "b": "old", "c": "old"}, [], id="a new one that is not ready holds it up"
        ),
        pytest.param({}, {"a": "old!", "b": "old", "c": "old"}, ["ds-a"], id="a broken old one goes at once"),
        pytest.param({}, {"a": "gone", "b": "old", "c": "old"}, [], id="a terminating one holds it up"),
        pytest.param({}, {"b": "old", "c": "old"}, [], id="a missing one holds it up"),
        pytest.param({"strategy": "OnDelete"}, {"a": "old", "b": "old"}, [], id="OnDelete never"),
        pytest.param({}, {"a": "new", "b": "new", "c": "new"}, [], id="all new: nothing"),
    ],
)
def test_a_new_template_rolls_within_max_unavailable(ds, pods, deleted):
    made = [
        daemon_pod(n, revision=word.rstrip("!"), ready="!" not in word, deleting=word == "gone")
        for n, word in pods.items()
    ]

    plan = rollout.roll(view(daemon_set(**ds), [node("a"), node("b"), node("c")], made))

    assert [p["metadata"]["name"] for p in plan.delete] == deleted


def test_an_outdated_pod_behind_a_taint_that_came_later_goes_with_a_rollout():
    """Source: kubernetes v1.36, pkg/controller/daemon/update.go:65: every node with a pod is looked at."""
    pods = [daemon_pod("a", revision="new"), daemon_pod("b", revision="old")]

    plan = rollout.roll(view(daemon_set(), [node("a"), node("b", taints=[taint()])], pods))

    assert [p["metadata"]["name"] for p in plan.delete] == ["ds-b"]


def test_the_status_counts_as_the_real_one():
    nodes = [node("a"), node("b"), node("c", taints=[taint()]), node("d")]
    pods = [daemon_pod("a"), daemon_pod("b", ready=False, revision="old"), daemon_pod("c")]

    status = rollout.status_of(view(daemon_set(), nodes, pods)).to_json()

    assert status == {
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "numberReady": 1,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "numberUnavailable": 2,
        "observedGeneration": 3,
    }


def test_a_ready_pod_becomes_available_after_min_ready_seconds():
    ds = daemon_set(min_ready_s=30)
    fresh = daemon_pod("a", since="2026-01-01T00:00:50Z")
    settled = daemon_pod("b", since="2026-01-01T00:00:10Z")

    status = rollout.status_of(view(ds, [node("a"), node("b")], [fresh, settled]))

    assert (status.ready, status.available) == (2, 1)
    assert status.next_check_s == 30
