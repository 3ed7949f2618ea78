"""The two links before the hardware: is the node heard of, and is it known as a GPU node."""

from __future__ import annotations

import pytest

from gpuready.chain import discovery, reporting
from gpuready.chain.discovery import DiscoveryFacts
from gpuready.chain.reporting import AgentPod, ReportingFacts
from gpuready.chain.verdict import State

LABEL = "feature.node.kubernetes.io/pci-10de.present"


@pytest.mark.parametrize(
    ("given", "state", "reason"),
    [
        pytest.param(DiscoveryFacts("n"), State.OK, "NoGpus", id="a CPU node"),
        pytest.param(
            DiscoveryFacts("n", pci_labels=(LABEL,)), State.BROKEN, "GpusGone", id="labelled, no GPU"
        ),
        pytest.param(
            DiscoveryFacts("n", ("0000:1a:00.0",)), State.WAITING, "LabelsMissing", id="not labelled"
        ),
        pytest.param(
            DiscoveryFacts("n", ("0000:1a:00.0",), (LABEL,)), State.WAITING, "NoGpuNode", id="no GPUNode yet"
        ),
        pytest.param(
            DiscoveryFacts("n", ("0000:1a:00.0",), (LABEL,), gpu_node=True),
            State.OK,
            "Discovered",
            id="known",
        ),
    ],
)
def test_discovery(given: DiscoveryFacts, state: State, reason: str) -> None:
    verdict = discovery.judge(given)

    assert (verdict.state, verdict.reason) == (state, reason)


AGENT = AgentPod("gpu-operator/gpuready-node-agent-x1")


@pytest.mark.parametrize(
    ("given", "state", "reason", "must_mention"),
    [
        pytest.param(ReportingFacts("g1", agent=AGENT), State.OK, "AgentReports", [], id="heard of"),
        pytest.param(
            ReportingFacts("g1", node_ready=False, node_message="Kubelet stopped posting node status."),
            State.BROKEN,
            "NodeNotReady",
            ["Kubelet stopped"],
            id="the node is silent",
        ),
        pytest.param(
            ReportingFacts("g1", kept_away_by=("nvidia.com/gpu=true:NoSchedule",)),
            State.BROKEN,
            "DiscoveryKeptAway",
            [
                "g1",
                "nvidia.com/gpu=true",
                "gpuready-node-agent",
                '{key: nvidia.com/gpu, operator: Equal, value: "true", effect: NoSchedule}',
            ],
            id="C03: a taint keeps discovery away",
        ),
        pytest.param(
            ReportingFacts(
                "g1",
                agent=AgentPod("gpu-operator/a", ready=False, restarts=4, waiting_reason="CrashLoopBackOff"),
            ),
            State.BROKEN,
            "AgentSilent",
            [
                "CrashLoopBackOff",
                "kubectl logs -n gpu-operator a, and kubectl describe pod -n gpu-operator a",
            ],
            id="the agent crashes",
        ),
        pytest.param(
            ReportingFacts("g1", agent=AgentPod("gpu-operator/a", phase="Pending", ready=False)),
            State.WAITING,
            "AgentStarting",
            [],
            id="the agent starts",
        ),
        pytest.param(
            ReportingFacts("g1", agent=AgentPod("gpu-operator/a", ready=False, running_s=3)),
            State.WAITING,
            "AgentStarting",
            [],
            id="the agent runs and is about to be ready",
        ),
        pytest.param(
            ReportingFacts("g1", agent=AgentPod("gpu-operator/a", ready=False, running_s=300)),
            State.BROKEN,
            "AgentSilent",
            ["kubectl logs -n gpu-operator a, and kubectl describe pod -n gpu-operator a"],
            id="the agent runs and is not ready",
        ),
        pytest.param(
            ReportingFacts("g1", agent=AGENT, boot_id="b", reported_boot_id="a"),
            State.WAITING,
            "ReportFromEarlierBoot",
            [],
            id="rebooted and not reported since",
        ),
        pytest.param(
            ReportingFacts("g1", daemon_set=""), State.WAITING, "AgentNotDeployed", [], id="no DaemonSet"
        ),
        pytest.param(
            ReportingFacts("g1", unselected=("kubernetes.io/os=linux",)),
            State.WAITING,
            "AgentNotSelected",
            ["kubernetes.io/os=linux"],
            id="not selected",
        ),
    ],
)
def test_reporting(given: ReportingFacts, state: State, reason: str, must_mention: list[str]) -> None:
    verdict = reporting.judge(given)

    told = " ".join([verdict.message, *verdict.evidence, verdict.next_step])
    assert (verdict.state, verdict.reason) == (state, reason), told
    assert [words for words in must_mention if words not in told] == []


@pytest.mark.parametrize(
    ("taint", "toleration"),
    [
        ("team=ml:NoSchedule", '{key: team, operator: Equal, value: "ml", effect: NoSchedule}'),
        ("dedicated:NoExecute", "{key: dedicated, operator: Exists, effect: NoExecute}"),
    ],
)
def test_the_toleration_to_add_is_spelled_out(taint: str, toleration: str) -> None:
    assert reporting.toleration_for(taint) == toleration
