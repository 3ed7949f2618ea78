"""What doctor says, from snapshots: the first broken link of a node, and why a GPU pod waits."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.tools.cluster import (
    AGENT,
    GPU,
    cluster,
    daemonset,
    gpu_node,
    link,
    meta,
    node,
    operand_pod,
    pod,
    policy,
)

from gpuready import names
from gpuready.errors import UsageError
from gpuready.tools import placement
from gpuready.tools import snapshot as snapshots
from gpuready.tools.doctor import command, pending, text
from gpuready.tools.doctor.analysis import Report, report_of
from gpuready.tools.doctor.finding import Finding, Severity
from gpuready.tools.snapshot import Snapshot

MISMATCH = link(
    "driver",
    "broken",
    "DriverLibraryMismatch",
    "driver/library version mismatch: library 570.9, module 570.1",
    evidence=["module nvidia 570.1 is loaded"],
    nextStep="reload the NVIDIA modules, or reboot the node",
)
WAITING_PLUGIN = link("device-plugin", "waiting", "WaitingForDriver", "for driver: DriverLibraryMismatch")
ILL = link(
    "device-plugin",
    "degraded",
    "UnhealthyDevices",
    "1 of 8 GPUs unhealthy: GPU 3 (GPU-d5-3): XID 79",
    nextStep="GPU 3: reboot the node",
)


def findings(snapshot: Snapshot) -> list[Finding]:
    return list(report_of(snapshot).findings)


def told(finding: Finding) -> str:
    return " ".join([finding.message, *finding.evidence, finding.next_step])


def test_a_healthy_cluster_yields_no_finding() -> None:
    seen = cluster(
        node("cpu"), node("g1", gpus=8), gpu_nodes=[gpu_node("g1")], pods=[pod("p", on="g1", gpus=8)]
    )

    assert findings(seen) == []
    assert text.report_text(report_of(seen)).splitlines() == [
        "ok    g1: 8 GPUs, every checked link is whole",
        "-     1 node without GPUs",
        "nothing found",
    ]


def test_nodes_that_wait_for_their_driver_are_a_finding_though_all_is_ready() -> None:
    message = "2 nodes wait for another driver (a, b); 25% of 8 driver nodes is 2; next: kubectl uncordon c"
    row = {"type": "DriverUpgradeWaiting", "status": "True", "reason": "MaxUnavailable", "message": message}
    asked = policy()
    asked["status"]["conditions"].append(row)
    found = findings(cluster(node("a", gpus=1), gpu_nodes=[gpu_node("a", gpus=1)], policies=[asked]))
    assert [(each.subject, each.severity, each.reason, each.next_step) for each in found] == [
        ("policy/cluster-policy", Severity.WAITING, "MaxUnavailable", "kubectl uncordon c")
    ]


def test_a_roll_out_that_a_runtime_has_stopped_is_a_problem_of_its_own() -> None:
    message = (
        "1 node waits to restart the container runtime (b): the runtime of a did not take the same change"
    )
    row = {"type": "RuntimeRestartsStopped", "status": "True", "reason": "RuntimeNotBack"}
    asked = policy()
    asked["status"]["conditions"].append(row | {"message": f"{message}; next: gpuready doctor --node a"})

    found = findings(cluster(node("a", gpus=1), gpu_nodes=[gpu_node("a", gpus=1)], policies=[asked]))

    assert [(each.severity, each.message, each.next_step) for each in found] == [
        (Severity.PROBLEM, message, "gpuready doctor --node a")
    ]


def test_a_state_that_only_a_newer_node_agent_knows_is_told_with_its_word() -> None:
    cooling = link("driver", "cooling\x07", reason="", message="90 C")
    report = report_of(cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1", cooling)]))

    assert text.report_text(report).splitlines() == [
        "warn  node/g1  driver  this gpuready does not know the state that its node agent reports: "
        "cooling\\x07: 90 C",
        "      next  use a gpuready of the operator's version",
        "1 warning",
    ]
    assert "cooling\\x07 driver         90 C" in text.node_text(report.rows[0], report)


def test_only_the_first_broken_link_of_a_node_is_a_finding() -> None:
    (finding,) = findings(
        cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1", WAITING_PLUGIN, MISMATCH, healthy=0)])
    )

    assert (finding.subject, finding.link, finding.severity) == ("node/g1", "driver", Severity.PROBLEM)
    assert "570.9" in finding.message
    assert "570.1" in finding.message


def test_an_unhealthy_gpu_is_a_warning_with_its_xid_and_its_action() -> None:
    (finding,) = findings(cluster(node("g1", gpus=8, healthy=7), gpu_nodes=[gpu_node("g1", ILL, healthy=7)]))

    assert finding.severity is Severity.WARNING
    assert "XID 79" in finding.message
    assert finding.next_step == "GPU 3: reboot the node"


def test_a_lost_gpu_is_one_finding_with_one_next_step() -> None:
    silent = link(
        "driver",
        "degraded",
        "GpuNotAnswering",
        "570.86.10 works with 7 of 8 GPUs; GPU 3 (0000:1d:00.0) does not answer (GPU is lost)",
        nextStep="reboot the node: GPU 3 comes back only so",
    )
    (finding,) = findings(
        cluster(node("g1", gpus=8, healthy=7), gpu_nodes=[gpu_node("g1", silent, ILL, healthy=7)])
    )

    assert (finding.link, finding.next_step) == ("device-plugin", "GPU 3: reboot the node")


def test_one_node_is_shown_link_by_link() -> None:
    seen = cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1", WAITING_PLUGIN, MISMATCH)])

    report = report_of(seen, "g1")

    assert text.node_text(report.rows[0], report).splitlines() == [
        "ok    reporting      agent gpu-operator/node-agent-g1 is ready",
        "ok    discovery      fine",
        "FAIL  driver         driver/library version mismatch: library 570.9, module 570.1",
        "      why            module nvidia 570.1 is loaded",
        "      next           reload the NVIDIA modules, or reboot the node",
        "-     toolkit        fine",
        "wait  device-plugin  for driver: DriverLibraryMismatch",
        "-     cuda           fine",
        "1 problem",
    ]


def test_a_node_that_does_not_exist_is_an_error_that_names_those_that_do() -> None:
    with pytest.raises(UsageError) as caught:
        report_of(cluster(node("g1")), "g2")

    assert (caught.value.what, caught.value.why) == ("there is no node g2", "the nodes are g1")
    assert caught.value.next_step == "kubectl get nodes"


def test_of_a_thousand_nodes_only_those_with_a_similar_name_are_told() -> None:
    many = [node(f"worker-{number:03d}") for number in range(500)]

    with pytest.raises(UsageError) as caught:
        report_of(cluster(*many, node("gpu-17"), agents=False), "gpu-18")

    assert caught.value.why == "none of the 501 nodes has this name; the nearest are gpu-17"


# --- C03: taints that keep discovery away -----------------------------------------------------------------


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


# --- silence ----------------------------------------------------------------------------------------------


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


# --- pods of operands -------------------------------------------------------------------------------------

LOST = link("device-plugin", "broken", "KubeletShowsNothing", "the Node shows none")
INSTALLING = link("driver", "waiting", "DriverInstalling", "the driver container is not finished")


def test_a_driver_pod_that_crashes_is_a_problem_with_its_last_words() -> None:
    waiting = {"reason": "CrashLoopBackOff", "message": "no headers for 6.8.0-71-generic"}
    seen = cluster(
        node("d1", gpus=8),
        gpu_nodes=[gpu_node("d1", INSTALLING)],
        pods=[operand_pod("driver", "d1", waiting=waiting)],
        daemonsets=[AGENT, daemonset("nvidia-driver-daemonset", "driver")],
    )

    (finding,) = findings(seen)

    assert (finding.severity, finding.reason) == (Severity.PROBLEM, "CrashLoopBackOff")
    assert "6.8.0-71-generic" in told(finding)


def test_an_operand_kept_away_by_a_taint_says_where_the_toleration_goes() -> None:
    absent = link("device-plugin", "waiting", "PluginNotStarted", "has not reported")
    seen = cluster(
        node("g1", gpus=8, taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}]),
        gpu_nodes=[gpu_node("g1", absent)],
        daemonsets=[AGENT, daemonset("nvidia-device-plugin-daemonset", "device-plugin")],
    )

    (finding,) = findings(seen)

    assert (finding.severity, finding.reason) == (Severity.PROBLEM, "OperandKeptAway")
    assert "team=ml" in finding.message
    assert "spec.daemonsets.tolerations" in finding.next_step


NO_TOOLKIT = link("toolkit", "waiting", "ToolkitNotStarted", "the toolkit has not reported", nextStep="look")
NO_PLUGIN = link("device-plugin", "waiting", "PluginNotStarted", "has not reported")
SETS = [
    AGENT,
    daemonset("nvidia-container-toolkit-daemonset", "toolkit"),
    daemonset("nvidia-device-plugin-daemonset", "device-plugin"),
]


def test_the_first_link_that_a_taint_keeps_away_is_the_problem_whatever_operand_it_is() -> None:
    team_ml = node("g1", gpus=8, taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}])
    seen = cluster(team_ml, gpu_nodes=[gpu_node("g1", NO_TOOLKIT, NO_PLUGIN)], daemonsets=SETS)

    report = report_of(seen)
    (finding,) = report.findings
    alone = report_of(seen, "g1")

    assert (finding.subject, finding.severity, finding.link) == ("node/g1", Severity.PROBLEM, "toolkit")
    assert "nvidia-container-toolkit-daemonset" in finding.message
    assert "team=ml:NoSchedule" in finding.message
    assert '{key: team, operator: Equal, value: "ml", effect: NoSchedule}' in finding.next_step
    assert alone.findings == report.findings
    assert text.counts(report) == text.counts(alone) == "1 problem"
    assert (report.rows[0].columns["runtime"], report.rows[0].columns["plugin"]) == ("broken", "broken")


def test_a_toolkit_pod_that_crashes_is_a_problem() -> None:
    crashing = operand_pod("toolkit", "g1", waiting={"reason": "CrashLoopBackOff"})
    seen = cluster(
        node("g1", gpus=8), gpu_nodes=[gpu_node("g1", NO_TOOLKIT)], pods=[crashing], daemonsets=SETS
    )

    (finding,) = findings(seen)

    assert (finding.severity, finding.link) == (Severity.PROBLEM, "toolkit")
    assert "the toolkit pod gpu-operator/toolkit-g1 does not start: CrashLoopBackOff" in finding.message


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


# --- policy and operator ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        pytest.param(
            cluster(node("n"), missing=("clusterpolicies", "gpunodes")), "NotInstalled", id="no CRDs"
        ),
        pytest.param(cluster(node("n"), policies=[]), "NoPolicy", id="no policy"),
        pytest.param(cluster(node("n"), policies=[policy("")]), "OperatorSilent", id="never answered"),
        pytest.param(
            cluster(node("n"), policies=[policy(observedGeneration=0)]), "OperatorSilent", id="an old answer"
        ),
        pytest.param(
            cluster(node("n"), policies=[policy("notReady", "PolicyInvalid", "spec.x: no")]),
            "PolicyInvalid",
            id="a wrong policy",
        ),
        pytest.param(
            cluster(node("n"), policies=[policy(), policy("ignored", "Ignored", "older one in force")]),
            "Ignored",
            id="a second policy",
        ),
    ],
)
def test_the_policy_and_its_operator_are_looked_at_first(seen: Snapshot, reason: str) -> None:
    assert [finding.reason for finding in findings(seen)] == [reason]


def test_a_policy_that_waits_for_nodes_is_explained_by_the_nodes() -> None:
    seen = cluster(
        node("g1", gpus=8),
        gpu_nodes=[gpu_node("g1", MISMATCH)],
        policies=[policy("notReady", "OperandNotReady")],
    )

    assert [finding.subject for finding in findings(seen)] == ["node/g1"]


WRONG = "MIG_STRATEGY=banana"
REFUSED = link(
    "device-plugin",
    "broken",
    "EnvInvalid",
    f"spec.devicePlugin.env or spec.mig: {WRONG} (allowed are none, single, mixed)",
    nextStep="correct the value",
)


def test_a_refused_device_plugin_is_a_problem_of_the_policy_of_its_nodes_and_of_waiting_pods() -> None:
    row = {
        "name": "device-plugin",
        "state": "notReady",
        "reason": REFUSED["reason"],
        "message": f"{REFUSED['message']}; next: {REFUSED['nextStep']}",
    }
    bare = {names.NFD_PCI_LABELS[0]: "true"}
    seen = cluster(
        node("g1", labels=bare),
        node("g2", labels=bare),
        gpu_nodes=[gpu_node("g1", REFUSED), gpu_node("g2", REFUSED)],
        policies=[policy("notReady", "OperandRefused", operands=[row])],
        pods=[WANTS_ONE],
    )

    report = report_of(seen)

    assert [finding.subject for finding in report.findings] == [
        "policy/cluster-policy",
        "node/g1",
        "node/g2",
        "pod/default/train",
    ]
    for finding in report.findings:
        assert WRONG in told(finding)
        assert finding.next_step.startswith("correct the value")
    assert text.report_text(report).splitlines()[:4] == [
        f"FAIL  policy/cluster-policy  {REFUSED['message']}",
        "      next  correct the value",
        f"FAIL  node/g1, node/g2  device-plugin  {REFUSED['message']}",
        "      next  correct the value",
    ]


def test_an_operand_of_which_nodes_say_nothing_is_explained_by_its_pods() -> None:
    row = {
        "name": "operator-validator",
        "state": "notReady",
        "reason": "PodsNotReady",
        "message": "nvidia-operator-validator: 0 of 1 pod ready; next: kubectl get pods",
    }
    plugin = {**row, "name": "device-plugin", "message": "said by the node"}
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    pod = {
        "metadata": {
            "name": "v-1",
            "namespace": "gpu-operator",
            "labels": {names.OPERAND_LABEL: "operator-validator"},
        },
        "spec": {"nodeName": "g1"},
        "status": {"phase": "Pending", "initContainerStatuses": [{"state": {"waiting": waiting}}]},
    }
    seen = cluster(
        node("g1", gpus=8),
        gpu_nodes=[gpu_node("g1")],
        policies=[policy("notReady", "OperandNotReady", operands=[row, plugin])],
        pods=[pod],
    )

    (finding,) = findings(seen)
    assert (finding.subject, finding.reason) == ("policy/cluster-policy", "PodsNotReady")
    assert finding.message == "nvidia-operator-validator: 0 of 1 pod ready"
    assert finding.evidence == ("pod gpu-operator/v-1 on g1: ImagePullBackOff: no such image",)


def test_a_device_plugin_that_the_policy_disables_is_no_fault_and_no_gpu_either() -> None:
    disabled = link("device-plugin", "not-checked", "Disabled", "the policy does not want a device plugin")
    seen = cluster(
        node("g1", labels={names.NFD_PCI_LABELS[0]: "true"}), gpu_nodes=[gpu_node("g1", disabled, gpus=1)]
    )

    assert text.report_text(report_of(seen)).splitlines() == [
        "-     g1: 1 GPU, not offered: the policy does not want a device plugin",
        "nothing found",
    ]
    just_disabled = node("g1", gpus=1, healthy=0)  # the kubelet still shows the capacity
    for nodes in (seen.nodes, [just_disabled]):
        (finding,) = findings(replace(seen, nodes=nodes, pods=[*seen.pods, WANTS_ONE]))
        assert finding.reason == "NotOffered"
        assert "devicePlugin.enabled: true" in finding.next_step


def test_a_fresh_cluster_is_not_called_one_without_gpus() -> None:
    seen = cluster(node("a"), node("b"), agents=False, daemonsets=[], policies=[], pods=[WANTS_ONE])

    told_lines = text.report_text(report_of(seen)).splitlines()

    assert "-     2 nodes not looked at yet: there is no ClusterPolicy" in told_lines
    assert not [line for line in told_lines if "without GPUs" in line]
    assert [finding.reason for finding in findings(seen)] == ["NoPolicy", "NoPolicy"]


def test_ready_does_not_hide_what_is_not_installed_and_is_no_finding() -> None:
    rows = [{"name": name, "state": "notImplemented"} for name in ("toolkit", "mig-manager")]
    seen = cluster(node("g1", gpus=1), gpu_nodes=[gpu_node("g1", gpus=1)], policies=[policy(operands=rows)])

    report = report_of(seen)

    assert report.findings == ()
    assert text.report_text(report).splitlines() == [
        "ok    policy/cluster-policy  ready; not installed by this version: toolkit, mig-manager",
        "ok    g1: 1 GPU, every checked link is whole",
        "nothing found",
    ]


# --- pods that wait ---------------------------------------------------------------------------------------

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
WANTS_ONE = pod("train", gpus=1)


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


# --- bundles and exit statuses ----------------------------------------------------------------------------


def saved(tmp_path: Path, seen: Snapshot) -> str:
    file = tmp_path / "bundle.json"
    snapshots.save(seen, str(file))
    return str(file)


def test_a_saved_bundle_gives_the_same_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1", MISMATCH)], pods=[WANTS_ONE])
    bundle = saved(tmp_path, seen)

    assert command.run(bundle=bundle, output="json") == 1

    assert json.loads(capsys.readouterr().out) == report_of(seen).to_json()


def test_a_healthy_bundle_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(bundle=saved(tmp_path, cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1")]))) == 0
    assert "nothing found" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["{not json", '{"kind": "List"}', "[]"])
def test_what_is_no_bundle_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(content)

    with pytest.raises(UsageError, match="not a bundle"):
        command.run(bundle=str(file))


def test_a_bundle_holds_no_environment_no_command_and_no_annotation() -> None:
    secret = {
        "metadata": {"name": "p", "annotations": {"a": "s3cret"}, "managedFields": []},
        "spec": {
            "containers": [{"name": "c", "env": [{"name": "K", "value": "s3cret"}], "command": ["s3cret"]}]
        },
        "status": {"phase": "Pending"},
    }

    assert "s3cret" not in json.dumps(snapshots.trimmed_pod(secret))


def test_a_report_names_the_same_fields_in_json_and_text() -> None:
    report: Report = report_of(cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1", MISMATCH)]))

    (row,) = report.to_json()["findings"]

    assert text.report_text(report).splitlines() == [
        f"FAIL  {row['subject']}  {row['link']}  {row['message']}",
        f"      why   {row['evidence'][0]}",
        f"      next  {row['nextStep']}",
        "1 problem",
    ]
    assert GPU not in row["message"]


# --- large clusters ---------------------------------------------------------------------------------------


def test_the_work_grows_with_the_cluster_not_with_nodes_times_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: each pod is read a few times, and pods alike share one walk over the nodes."""
    nodes, held, waiting = 200, 400, 80
    calls: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        real = getattr(module, name)

        def counting(*arguments: Any) -> Any:
            calls[name] += 1
            return real(*arguments)

        monkeypatch.setattr(module, name, counting)

    seen = cluster(
        *(node(f"g{number}", gpus=2) for number in range(nodes)),
        gpu_nodes=[gpu_node(f"g{number}", gpus=2) for number in range(nodes)],
        pods=[
            *(pod(f"held-{number}", on=f"g{number % nodes}", gpus=1) for number in range(held)),
            *(pod(f"one-{number}", gpus=1) for number in range(waiting // 2)),
            *(pod(f"two-{number}", gpus=2, nodeSelector={"zone": "b"}) for number in range(waiting // 2)),
        ],
    )
    count(placement, "requested")
    count(placement, "is_finished")
    count(placement, "quantities")
    count(pending, "_refusal")

    found = findings(seen)

    assert [finding.reason for finding in found] == ["Full"] * 40 + ["NotSelected"] * 40
    assert len({finding.subject for finding in found}) == waiting
    every_pod = len(seen.pods)
    assert calls["_refusal"] < 40, "one look at each kind of node for each kind of request"
    assert calls["requested"] <= 3 * every_pod
    assert calls["is_finished"] <= 2 * every_pod
    assert calls["quantities"] <= 4 * nodes


def test_thousands_of_pods_that_ask_for_different_things_are_held_against_a_few_kinds_of_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, real = 0, pending._refusal

    def counting(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        return real(*arguments)

    monkeypatch.setattr(pending, "_refusal", counting)
    nodes = [node(f"g{number}", gpus=8, labels={"zone": f"z{number % 3}"}) for number in range(120)]
    waiting = [pod(f"p{n}", gpus=1 + n % 8, nodeSelector={"zone": f"z{n}"}) for n in range(400)]

    found = findings(cluster(*nodes, gpu_nodes=[gpu_node(f"g{n}", gpus=8) for n in range(120)], pods=waiting))

    by_pod = {finding.subject: finding for finding in found}
    assert by_pod["pod/default/p7"].reason == "NotSelected"
    assert by_pod["pod/default/p7"].evidence[:2] == ("g0 does not have zone=z7", "g1 does not have zone=z7")
    assert asked < 400 * 20


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


# --- operands of which no node speaks ---------------------------------------------------------------------


def operand(name: str, state: str, reason: str, message: str) -> dict[str, Any]:
    return {"name": name, "enabled": True, "state": state, "reason": reason, "message": message}


def with_operands(
    *rows: dict[str, Any], state: str = "notReady", reason: str = "OperandNotReady"
) -> Snapshot:
    policies = [policy(state, reason, operands=list(rows))]
    return cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1")], policies=policies)


def test_an_exporter_that_is_not_ready_for_its_own_reason_is_a_problem() -> None:
    why = "g1: there is no counters file /etc/x.csv; next: correct DCGM_EXPORTER_COLLECTORS"

    (finding,) = findings(with_operands(operand("dcgm-exporter", "notReady", "CountersMissing", why)))

    assert (finding.subject, finding.severity) == ("policy/cluster-policy", Severity.PROBLEM)
    assert finding.message == "dcgm-exporter: g1: there is no counters file /etc/x.csv"
    assert finding.next_step == "correct DCGM_EXPORTER_COLLECTORS"


def test_a_remark_of_a_ready_operand_is_a_warning() -> None:
    rejected = operand(
        "dcgm-exporter", "ready", "CountersRejected", "g1: line 3 is rejected; next: correct it"
    )
    fine = operand("gpu-feature-discovery", "ready", "Ready", "")

    (finding,) = findings(with_operands(rejected, fine, state="ready"))

    assert (finding.severity, finding.reason) == (Severity.WARNING, "CountersRejected")


def test_what_a_node_says_of_an_operand_is_not_said_twice() -> None:
    rows = [operand("device-plugin", "notReady", "NoDevices", "g1: none")]
    broken = link("device-plugin", "broken", "NoDevices", "none")
    seen = cluster(
        node("g1", gpus=8),
        gpu_nodes=[gpu_node("g1", broken)],
        policies=[policy("notReady", "OperandNotReady", operands=rows)],
    )

    assert [finding.subject for finding in findings(seen)] == ["node/g1"]


def test_an_operand_whose_objects_cannot_be_applied_is_a_problem_although_the_nodes_are_whole() -> None:
    rows = [operand("device-plugin", "notReady", "ApplyFailed", "DaemonSet/x: forbidden")]

    (finding,) = findings(with_operands(*rows))

    assert (finding.severity, finding.reason) == (Severity.PROBLEM, "ApplyFailed")


def test_one_missing_secret_is_one_problem_with_the_operands_that_miss_it() -> None:
    why = "there is no Secret gpu-operator/pull; next: kubectl create secret"
    rows = [
        operand(name, "notReady", "ReferenceMissing", why) for name in ("toolkit", "driver", "device-plugin")
    ]

    report = report_of(with_operands(*rows, reason="OperandRefused"))

    (finding,) = report.findings
    assert finding.evidence == ("operands: toolkit, driver, device-plugin",)
    assert text.counts(report) == "1 problem"


def test_doctor_does_not_advise_to_run_doctor() -> None:
    waits = "the nodes wait; next: gpuready doctor"
    pods = "x: 0 of 1 pod ready; next: kubectl get pods -l app=x, or gpuready doctor"
    seen = with_operands(
        operand("dcgm-exporter", "notReady", "RollingOut", waits),
        operand("mig-manager", "notReady", "PodsNotReady", pods),
    )

    assert [finding.next_step for finding in findings(seen)] == ["", "kubectl get pods -l app=x"]


def test_a_failing_driver_pod_is_seen_through_the_pause_with_who_holds_the_gpu() -> None:
    failing = link(
        "driver",
        "degraded",
        "DriverPodFailing",
        "on g1 the driver pod d fails: CrashLoopBackOff",
        nextStep="x",
    )
    paused = link("device-plugin", "waiting", "Paused", "paused: nvidia.com/gpu.deploy.device-plugin=paused")
    seen = cluster(
        node("g1", gpus=8),
        gpu_nodes=[gpu_node("g1", failing, paused)],
        pods=[pod("train", on="g1", gpus=2)],
    )

    report = report_of(seen)

    first, second = report.findings
    assert (first.severity, first.link, first.reason) == (Severity.PROBLEM, "driver", "DriverPodFailing")
    assert "pod default/train holds 2 nvidia.com/gpu" in first.evidence
    assert second.reason == "Paused"
    assert text.counts(report) == text.counts(report_of(seen, "g1")) == "1 problem, 1 waiting"


def test_without_our_definitions_the_advice_is_the_readmes() -> None:
    (finding,) = findings(cluster(missing=("gpunodes",)))

    assert finding.next_step == "gpuready crds | kubectl apply --server-side -f -"
