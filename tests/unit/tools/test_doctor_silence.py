"""Doctor on nodes of which nothing is heard: taints keep discovery away (case C03), or nobody reports."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.tools.cluster import AGENT, cluster, daemonset, gpu_node, meta, node, operand_pod
from tests.unit.tools.findings import findings, told

from gpuready.tools.doctor.analysis import report_of
from gpuready.tools.snapshot import Snapshot


def test_default_tolerations_let_discovery_onto_any_tainted_node() -> None:
    tainted = node("g1", taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}])

    assert findings(cluster(tainted, agents=False)) == []


@pytest.mark.parametrize(
    ("taint", "mentioned"),
    [
        ({"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}, "nvidia.com/gpu=true"),
        ({"key": "team", "value": "ml", "effect": "NoSchedule"}, "team=ml"),
        ({"key": "dedicated", "effect": "NoExecute"}, "dedicated"),
    ],
)
def test_a_node_nobody_can_look_at_is_undiscovered_not_without_gpus(
    taint: dict[str, Any], mentioned: str
) -> None:
    narrow = daemonset(
        "gpuready-node-agent",
        "node-agent",
        tolerations=[
            {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
        ],
    )
    seen = cluster(node("g1", taints=[taint]), node("cpu"), daemonsets=[narrow], agents=False)

    report = report_of(seen)

    (finding,) = report.findings
    assert finding.reason == "DiscoveryKeptAway"
    for words in ("g1", mentioned, "gpuready-node-agent", "add the toleration"):
        assert words in told(finding)
    assert [row.name for row in report.rows if row.undiscovered] == ["g1"]


def test_with_nfd_it_is_its_worker_that_must_be_let_in() -> None:
    labels = {"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"}
    worker = daemonset("nfd-worker", labels=labels)
    tainted = node("g1", taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}])

    (finding,) = findings(cluster(tainted, daemonsets=[AGENT, worker], agents=False))

    assert "nfd-worker" in finding.message


@pytest.mark.parametrize(
    ("seen", "reason", "mentioned"),
    [
        pytest.param(
            cluster(node("g1", gpus=8, ready=False), gpu_nodes=[gpu_node("g1")]),
            "NodeNotReady",
            "Kubelet stopped posting",
            id="the node is not ready",
        ),
        pytest.param(
            cluster(
                node("g1", gpus=8),
                gpu_nodes=[gpu_node("g1")],
                pods=[operand_pod("node-agent", "g1", waiting={"reason": "CrashLoopBackOff"})],
                agents=False,
            ),
            "AgentSilent",
            "CrashLoopBackOff",
            id="the agent crashes",
        ),
        pytest.param(
            cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1")], agents=False, daemonsets=[]),
            "AgentNotDeployed",
            "operator",
            id="there is no agent",
        ),
        pytest.param(cluster(node("g1", gpus=8)), "NoGpuNode", "ClusterPolicy", id="no GPUNode"),
        pytest.param(
            cluster(node("g1", gpus=8), gpu_nodes=[{"metadata": meta("g1"), "spec": {}}]),
            "NotReported",
            "g1",
            id="the agent is there and has judged nothing yet",
        ),
    ],
)
def test_a_node_that_is_not_heard_of_says_why(seen: Snapshot, reason: str, mentioned: str) -> None:
    (finding,) = findings(seen)

    assert finding.reason == reason
    assert mentioned in told(finding)


def test_what_a_silent_node_last_said_is_not_shown_as_its_state() -> None:
    report = report_of(cluster(node("g1", gpus=8, ready=False), gpu_nodes=[gpu_node("g1")]))

    assert report.rows[0].columns["driver"] == "-"
