"""Doctor on the device plugin's pod, whose words and absence say more than what the plugin said last."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.tools.cluster import AGENT, cluster, daemonset, gpu_node, link, node, operand_pod
from tests.unit.tools.findings import ILL, LOST, findings, told

from gpuready.tools.doctor.finding import Severity

STOPPED = link(
    "device-plugin",
    "broken",
    "PluginNotRunning",
    "the device plugin is not running (it said last: the plugin has been stopped)",
    nextStep="look at its pod",
)
UNREGISTERED = link(
    "device-plugin",
    "broken",
    "PluginNotRegistered",
    "the device plugin is not registered with the kubelet: connection refused",
    nextStep="check that the kubelet runs",
)
PLUGINS = daemonset(
    "nvidia-device-plugin-daemonset",
    "device-plugin",
    selector={"nvidia.com/gpu.deploy.device-plugin": "true"},
)
DEPLOYED = {"nvidia.com/gpu.deploy.device-plugin": "true"}
ENDED = {"exitCode": 2, "reason": "Error", "message": "FAIL_ON_INIT_ERROR must be true or false"}


def plugin_pod(state: Any, *, last: Any = None, ready: bool = False) -> Any:
    found = operand_pod("device-plugin", "g1", **({} if ready else {"waiting": {"reason": "x"}}))
    found["status"]["containerStatuses"] = [
        {"name": "main", "restartCount": 3, "state": state, "lastState": {"terminated": last} if last else {}}
    ]
    return found


def test_a_plugin_pod_that_is_not_there_says_which_label_is_missing() -> None:
    absent = link("device-plugin", "waiting", "PluginNotStarted", "has not reported")
    selector = {"nvidia.com/gpu.deploy.device-plugin": "true"}
    seen = cluster(
        node("g1", gpus=8),
        gpu_nodes=[gpu_node("g1", absent)],
        daemonsets=[AGENT, daemonset("nvidia-device-plugin-daemonset", "device-plugin", selector=selector)],
    )

    (finding,) = findings(seen)

    assert "nvidia.com/gpu.deploy.device-plugin=true" in told(finding)


@pytest.mark.parametrize("said", [STOPPED, UNREGISTERED, LOST, ILL | {"state": "broken"}])
@pytest.mark.parametrize(
    ("crashing", "reason"),
    [
        pytest.param(
            plugin_pod({"waiting": {"reason": "CrashLoopBackOff"}}, last=ENDED),
            "CrashLoopBackOff",
            id="waits",
        ),
        pytest.param(plugin_pod({"terminated": ENDED}), "Error", id="has just ended"),
        pytest.param(plugin_pod({"running": {}}, last=ENDED), "Error", id="runs until the next crash"),
    ],
)
def test_a_plugin_pod_that_crashes_is_told_before_anything_it_said_last(
    said: dict[str, Any], crashing: Any, reason: str
) -> None:
    seen = cluster(
        node("g1", gpus=8, healthy=0, labels=DEPLOYED),
        gpu_nodes=[gpu_node("g1", said)],
        pods=[crashing],
        daemonsets=[AGENT, PLUGINS],
    )

    (finding,) = findings(seen)

    assert (finding.severity, finding.reason) == (Severity.PROBLEM, reason)
    assert "gpu-operator/device-plugin-g1 crashes" in finding.message
    assert "exit status 2 (Error); FAIL_ON_INIT_ERROR" in finding.evidence[0]
    assert finding.next_step.startswith("kubectl logs -n gpu-operator device-plugin-g1")
    assert "--previous" in finding.next_step


@pytest.mark.parametrize("said", [STOPPED, UNREGISTERED, LOST])
@pytest.mark.parametrize(
    ("there", "daemonsets", "mentioned"),
    [
        pytest.param(node("g1", gpus=8, labels=DEPLOYED), [AGENT], "no DaemonSet", id="no DaemonSet"),
        pytest.param(
            node("g1", gpus=8),
            [AGENT, PLUGINS],
            "label the node nvidia.com/gpu.deploy.device-plugin=true",
            id="no label",
        ),
        pytest.param(
            node(
                "g1", gpus=8, labels=DEPLOYED, taints=[{"key": "team", "value": "ml", "effect": "NoExecute"}]
            ),
            [AGENT, PLUGINS],
            'tolerations of the ClusterPolicy: {key: team, operator: Equal, value: "ml", effect: NoExecute}',
            id="a taint",
        ),
        pytest.param(
            node("g1", gpus=8, labels=DEPLOYED),
            [AGENT, PLUGINS],
            "kubectl describe daemonset -n gpu-operator nvidia-device-plugin-daemonset",
            id="not yet",
        ),
    ],
)
def test_without_a_plugin_pod_the_next_step_is_not_about_the_kubelet(
    said: dict[str, Any], there: Any, daemonsets: list[Any], mentioned: str
) -> None:
    (finding,) = findings(cluster(there, gpu_nodes=[gpu_node("g1", said)], daemonsets=daemonsets))

    assert mentioned in told(finding)
    assert "kubelet runs" not in finding.next_step


def test_a_plugin_pod_that_found_no_room_says_so() -> None:
    affinity = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["g1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [affinity]}}
    waits = operand_pod("device-plugin", "", said="Too many pods", affinity={"nodeAffinity": required})
    seen = cluster(
        node("g1", gpus=8, labels=DEPLOYED),
        gpu_nodes=[gpu_node("g1", STOPPED)],
        pods=[waits],
        daemonsets=[AGENT, PLUGINS],
    )

    (finding,) = findings(seen)

    assert "does not run yet: Too many pods" in finding.evidence[0]
    assert "kubectl describe pod" in finding.next_step


def test_a_plugin_that_runs_and_is_not_registered_points_to_the_kubelet() -> None:
    seen = cluster(
        node("g1", gpus=8, labels=DEPLOYED),
        gpu_nodes=[gpu_node("g1", UNREGISTERED)],
        pods=[plugin_pod({"running": {}}, last=ENDED, ready=True)],
        daemonsets=[AGENT, PLUGINS],
    )

    (finding,) = findings(seen)

    assert (finding.reason, finding.next_step) == ("PluginNotRegistered", "check that the kubelet runs")


@pytest.mark.parametrize("reason", ["WaitingForDriver", "Paused"])
def test_a_plugin_whose_turn_it_is_not_is_not_blamed(reason: str) -> None:
    seen = cluster(
        node("g1", gpus=8, labels=DEPLOYED),
        gpu_nodes=[gpu_node("g1", link("device-plugin", "waiting", reason, "not yet"))],
        pods=[plugin_pod({"waiting": {"reason": "CrashLoopBackOff"}}, last=ENDED)],
        daemonsets=[AGENT, PLUGINS],
    )

    assert [finding.reason for finding in findings(seen)] == [reason]
