"""Which node a pod gets, and the scheduler's words when none."""

from __future__ import annotations

import pytest

from gpuready_sim.controllers.scheduler.choice import choose, is_waiting, queue_order
from gpuready_sim.controllers.scheduler.fit import NodeState

from .builders import node, pod, taint

GPU = {"nvidia.com/gpu": "1"}


def gpu_node(name: str, gpus: int, **rest):
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return node(name, allocatable=allocatable, **rest)


def states(*nodes, pods=()):
    return [
        NodeState.of(n, [p for p in pods if p["spec"]["nodeName"] == n["metadata"]["name"]]) for n in nodes
    ]


def test_a_gpu_pod_goes_to_the_node_with_a_free_gpu():
    nodes = states(
        node("cpu"), gpu_node("g1", 1), gpu_node("g2", 1), pods=[pod("x", requests=GPU, node_name="g1")]
    )

    assert choose(pod(requests=GPU), nodes).node == "g2"


def test_limits_stand_in_for_requests_of_extended_resources():
    asking = pod()
    asking["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "2"}}

    assert choose(asking, states(gpu_node("g1", 1), gpu_node("g2", 2))).node == "g2"


def test_the_emptier_node_wins_and_equal_ones_go_by_name():
    busy = pod("x", requests={"cpu": "4"}, node_name="a")

    assert (
        choose(pod(requests={"cpu": "1"}), states(node("a"), node("b"), node("c"), pods=[busy])).node == "b"
    )


def test_the_message_counts_reasons_over_all_nodes_in_the_schedulers_order():
    taken = [pod(f"x{i}", requests=GPU, node_name=f"g{i}") for i in range(3)]
    nodes = states(gpu_node("t", 8, taints=[taint()]), *(gpu_node(f"g{i}", 1) for i in range(3)), pods=taken)

    assert choose(pod(requests=GPU), nodes).message == (
        "0/4 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}, "
        "3 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: "
        "1 Preemption is not helpful for scheduling, 3 No preemption victims found for incoming pod."
    )


@pytest.mark.parametrize(
    ("asking", "machine", "others", "reason", "helpful"),
    [
        pytest.param(pod(requests=GPU), node(), (), "Insufficient nvidia.com/gpu", False, id="no GPU at all"),
        pytest.param(
            pod(requests={"cpu": "9", "memory": "99Gi"}),
            node(),
            (),
            "1 Insufficient cpu, 1 Insufficient memory",
            False,
            id="every short resource is named",
        ),
        pytest.param(
            pod(nodeSelector={"x": "y"}),
            node(),
            (),
            "node(s) didn't match Pod's node affinity/selector",
            False,
            id="selector",
        ),
        pytest.param(pod(), node(unschedulable=True), (), "node(s) were unschedulable", False, id="cordoned"),
        pytest.param(
            pod(),
            node(taints=[taint(value="")]),
            (),
            "node(s) had untolerated taint {nvidia.com/gpu: }",
            False,
            id="taint without value",
        ),
        pytest.param(
            pod(),
            node(allocatable={"cpu": "8", "pods": "1"}),
            (pod("x", node_name="n1"),),
            "Too many pods",
            True,
            id="pod count",
        ),
        pytest.param(
            pod(
                labels={"app": "d"},
                affinity={
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "labelSelector": {"matchLabels": {"app": "d"}},
                                "topologyKey": "kubernetes.io/hostname",
                            }
                        ]
                    }
                },
            ),
            node(),
            (pod("x", labels={"app": "d"}, node_name="n1"),),
            "node(s) didn't match pod anti-affinity rules",
            True,
            id="anti-affinity per host",
        ),
    ],
)
def test_each_refusal_has_the_real_words(asking, machine, others, reason, helpful):
    message = choose(asking, states(machine, pods=others)).message

    tail = (
        "No preemption victims found for incoming pod"
        if helpful
        else "Preemption is not helpful for scheduling"
    )
    expected = reason if reason.startswith("1 ") else f"1 {reason}"
    assert message == (f"0/1 nodes are available: {expected}. preemption: 0/1 nodes are available: 1 {tail}.")


def test_a_pinned_daemon_pod_names_only_its_own_node_as_short():
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }

    choice = choose(pod(requests={"cpu": "100"}, affinity=affinity), states(node("a"), node("b")))

    assert choice.message.startswith(
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_without_nodes_the_scheduler_says_so():
    assert choose(pod(), []).message == "no nodes available to schedule pods"


def test_only_unbound_pods_of_the_default_scheduler_wait_for_it():
    assert is_waiting(pod())
    assert not is_waiting(pod(node_name="n1"))
    assert not is_waiting(pod(schedulerName="other"))
    assert not is_waiting(pod(phase="Succeeded"))


def test_higher_priority_goes_first():
    pods = [pod("a", priority=0), pod("b", priority=2000001000)]

    assert [p["metadata"]["name"] for p in sorted(pods, key=queue_order)] == ["b", "a"]
