"""Doctor on the ClusterPolicy and its operator: whether there are any, and what the policy's status says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.tools.cluster import cluster, gpu_node, link, node, policy
from tests.unit.tools.findings import MISMATCH, WANTS_ONE, findings, told

from gpuready import names
from gpuready.tools.doctor import text
from gpuready.tools.doctor.analysis import report_of
from gpuready.tools.doctor.finding import Severity
from gpuready.tools.snapshot import Snapshot


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


def test_without_our_definitions_the_advice_is_the_readmes() -> None:
    (finding,) = findings(cluster(missing=("gpunodes",)))

    assert finding.next_step == "gpuready crds | kubectl apply --server-side -f -"


def test_a_policy_that_waits_for_nodes_is_explained_by_the_nodes() -> None:
    seen = cluster(
        node("g1", gpus=8),
        gpu_nodes=[gpu_node("g1", MISMATCH)],
        policies=[policy("notReady", "OperandNotReady")],
    )

    assert [finding.subject for finding in findings(seen)] == ["node/g1"]


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
