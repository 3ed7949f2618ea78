"""Why a GPU pod waits."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.tools.cluster import GPU, cluster, gpu_node, node, pod
from tests.unit.tools.findings import ILL, LOST, MISMATCH, WAITING_PLUGIN, WANTS_ONE, findings, told

from gpuready import names
from gpuready.tools import placement
from gpuready.tools.doctor import text
from gpuready.tools.doctor.analysis import report_of

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("waiting", "nodes", "others", "reason", "mentioned"),
    [
        pytest.param(
            WANTS_ONE,
            [(node("d6", gpus=4), [])],
            [
                pod("a", on="d6", gpus=3),
                pod("b", on="d6", gpus=1),
                pod("old", on="d6", gpus=4, phase="Succeeded"),
            ],
            "Full",
            ["4 of 4", "default/a (3)", "default/b", "nothing is broken"],
            id="full, and who holds it",
        ),
        pytest.param(
            WANTS_ONE,
            [(node("d5", gpus=8, healthy=7), [ILL])],
            [pod("a", on="d5", gpus=7)],
            "UnhealthyDevices",
            ["1 of 8", "UnhealthyDevices", "doctor --node d5"],
            id="the last GPU is unhealthy",
        ),
        pytest.param(
            WANTS_ONE,
            [(node("g1", gpus=8, taints=[TAINT]), [])],
            [],
            "Tainted",
            ["nvidia.com/gpu=present:NoSchedule", "toleration"],
            id="a taint",
        ),
        pytest.param(
            pod("train", gpus=1, nodeSelector={"zone": "b"}),
            [(node("g1", gpus=8, labels={"zone": "a"}), [])],
            [],
            "NotSelected",
            ["zone=b"],
            id="a selector",
        ),
        pytest.param(
            pod(
                "train",
                gpus=1,
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {
                                            "key": "nvidia.com/gpu.memory",
                                            "operator": "Gt",
                                            "values": ["50000"],
                                        }
                                    ]
                                }
                            ]
                        }
                    }
                },
            ),
            [(node("g1", gpus=8, labels={"nvidia.com/gpu.memory": "40960"}), [])],
            [],
            "NotSelected",
            ["nvidia.com/gpu.memory Gt 50000"],
            id="an affinity",
        ),
        pytest.param(
            pod("train", gpus=16),
            [(node("g1", gpus=8), [])],
            [],
            "AsksForTooMany",
            ["8", "16"],
            id="too many",
        ),
        pytest.param(
            WANTS_ONE,
            [(node("g1", gpus=8, cordoned=True), [])],
            [],
            "Cordoned",
            ["uncordon g1"],
            id="cordoned",
        ),
        pytest.param(
            pod("train", gpus=1, resource="nvidia.com/gpus"),
            [(node("g1", gpus=8), [])],
            [],
            "NoSuchResource",
            ["nvidia.com/gpus", "ask for nvidia.com/gpu instead"],
            id="a misspelt resource",
        ),
        pytest.param(
            WANTS_ONE,
            [(node("g1", gpus=8, resource="nvidia.com/gpu.shared"), [])],
            [],
            "NoSuchResource",
            ["ask for nvidia.com/gpu.shared instead"],
            id="a renamed resource",
        ),
        pytest.param(
            WANTS_ONE,
            [(node("d4", labels={names.NFD_PCI_LABELS[0]: "true"}), [MISMATCH])],
            [],
            "NodesNotReady",
            ["DriverLibraryMismatch", "doctor --node d4"],
            id="no node is ready",
        ),
        pytest.param(
            WANTS_ONE,
            [
                (node("d4", labels={names.NFD_PCI_LABELS[0]: "true"}), [MISMATCH]),
                (node("g1", gpus=5, resource="nvidia.com/gpu.shared"), []),
            ],
            [],
            "NodesNotReady",
            ["DriverLibraryMismatch"],
            id="the node that would have it is not ready, another shares its GPUs under another name",
        ),
        pytest.param(
            WANTS_ONE,
            [(node("g1", gpus=8, healthy=0), [LOST])],
            [],
            "NodesNotReady",
            ["KubeletShowsNothing"],
            id="the plugin has died, its capacity still shows",
        ),
        pytest.param(
            pod("train", gpus=1, said="0/1 nodes are available: 1 Insufficient memory."),
            [(node("g1", gpus=8), [])],
            [],
            "NotForGpus",
            ["Insufficient memory", "8 of 8"],
            id="GPUs are free: memory is not",
        ),
    ],
)
def test_why_a_gpu_pod_waits(
    waiting: Any, nodes: list[Any], others: list[Any], reason: str, mentioned: list[str]
) -> None:
    gpu_nodes = [gpu_node(row["metadata"]["name"], *changed) for row, changed in nodes]
    seen = cluster(*(row for row, _ in nodes), gpu_nodes=gpu_nodes, pods=[waiting, *others])

    finding = next(finding for finding in findings(seen) if finding.subject == "pod/default/train")

    assert finding.reason == reason
    assert [words for words in mentioned if words not in told(finding)] == []


def test_a_request_that_is_too_large_gets_one_next_step() -> None:
    seen = cluster(
        node("big", gpus=8),
        node("small", gpus=1),
        gpu_nodes=[gpu_node("big"), gpu_node("small", gpus=1)],
        pods=[pod("train", gpus=16)],
    )

    (finding,) = findings(seen)

    assert finding.next_step == "ask for at most 8, or add a node with 16"


def test_a_cordoned_node_that_has_room_is_part_of_the_answer() -> None:
    seen = cluster(
        node("full", gpus=1),
        node("aside", gpus=8, cordoned=True),
        gpu_nodes=[gpu_node("full", gpus=1), gpu_node("aside")],
        pods=[pod("a", on="full", gpus=1), WANTS_ONE],
    )

    (finding,) = findings(seen)

    assert finding.reason == "Full"
    assert "aside is cordoned, with 8 nvidia.com/gpu free" in told(finding)
    assert "kubectl uncordon aside" in finding.next_step
    assert "-     aside: cordoned, no new pod goes there" in text.report_text(report_of(seen)).splitlines()


def test_six_nodes_behind_one_scheduler_message() -> None:
    """Case C08: full is not broken, and every broken node has exactly one finding."""
    seen = cluster(
        node("d4", gpus=8, healthy=0),
        node("d5", gpus=8, healthy=7),
        node("d6", gpus=4),
        gpu_nodes=[
            gpu_node("d4", MISMATCH, WAITING_PLUGIN),
            gpu_node("d5", ILL, healthy=7),
            gpu_node("d6", gpus=4),
        ],
        pods=[pod("a", on="d6", gpus=4), pod("b", on="d5", gpus=7), WANTS_ONE],
    )

    subjects = [finding.subject for finding in findings(seen)]

    assert subjects == ["node/d4", "node/d5", "pod/default/train"]
    assert "d6 4 of 4" in told(findings(seen)[-1])


def test_pods_alike_keep_what_the_scheduler_said_of_each() -> None:
    seen = cluster(
        node("g1", gpus=8),
        gpu_nodes=[gpu_node("g1")],
        pods=[pod("a", gpus=1, said="no memory"), pod("b", gpus=1, said="no cpu")],
    )

    assert [finding.evidence[0] for finding in findings(seen)] == [
        "scheduler: no memory",
        "scheduler: no cpu",
    ]


@pytest.mark.parametrize("number", ["²", "9" * 5000, "1.5", "-1"])
def test_an_amount_that_is_no_whole_number_counts_as_none(number: str) -> None:
    odd = node("g1", gpus=8)
    odd["status"]["capacity"][GPU] = odd["status"]["allocatable"][GPU] = number

    assert placement.allocatable(odd) == {}
    report_of(cluster(odd, gpu_nodes=[gpu_node("g1")], pods=[WANTS_ONE]))


@pytest.mark.parametrize(
    ("init", "amount"),
    [
        pytest.param([("beside", 1)], 3, id="a sidecar runs beside the containers"),
        pytest.param([("beside", 1), ("after", 4)], 5, id="and beside an init container after it"),
        pytest.param([("before", 4), ("beside", 1)], 4, id="not beside one before it"),
    ],
)
def test_a_pod_takes_what_its_start_takes_or_what_runs_after_it(init: list[Any], amount: int) -> None:
    def container(name: str, gpus: int) -> dict[str, Any]:
        always = {"restartPolicy": "Always"} if name == "beside" else {}
        return {"name": name, "resources": {"limits": {GPU: str(gpus)}}, **always}

    spec = {"containers": [container("main", 2)], "initContainers": [container(*one) for one in init]}
    assert placement.requested({"spec": spec}) == {GPU: amount}
