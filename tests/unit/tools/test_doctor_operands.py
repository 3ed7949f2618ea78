"""Doctor on the policy's rows of operands, where no node speaks of them."""

from __future__ import annotations

from typing import Any

from tests.unit.tools.cluster import cluster, gpu_node, link, node, policy
from tests.unit.tools.findings import findings

from gpuready import names
from gpuready.tools.doctor import text
from gpuready.tools.doctor.analysis import report_of
from gpuready.tools.doctor.finding import Severity
from gpuready.tools.snapshot import Snapshot


def operand(name: str, state: str, reason: str, message: str) -> dict[str, Any]:
    return {"name": name, "enabled": True, "state": state, "reason": reason, "message": message}


def with_operands(
    *rows: dict[str, Any], state: str = "notReady", reason: str = "OperandNotReady"
) -> Snapshot:
    policies = [policy(state, reason, operands=list(rows))]
    return cluster(node("g1", gpus=8), gpu_nodes=[gpu_node("g1")], policies=policies)


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


def test_one_reason_of_many_pods_is_said_once_and_in_one_line() -> None:
    row = operand("operator-validator", "notReady", "PodsNotReady", "v: 0 of 5 pods ready; next: look")
    waiting = {"reason": "ErrImagePull", "message": "no such image;\n  a registry's long answer\n"}
    pods = [validator_pod(number, {"waiting": waiting}) for number in range(4)]
    pods.append(validator_pod(4, {"running": {}}, "containers with unready status: [main]"))
    seen = cluster(
        node("g1", gpus=8),
        gpu_nodes=[gpu_node("g1")],
        policies=[policy("notReady", "OperandNotReady", operands=[row])],
        pods=pods,
    )

    (finding,) = findings(seen)

    named = ", ".join(f"gpu-operator/v-{number} on n{number}" for number in range(3))
    assert finding.evidence == (
        f"pods {named} and 1 more: ErrImagePull: no such image; a registry's long answer",
        "pod gpu-operator/v-4 on n4: Running: containers with unready status: [main]",
    )


def validator_pod(number: int, state: dict[str, Any], unready: str = "") -> dict[str, Any]:
    metadata = {
        "name": f"v-{number}",
        "namespace": "gpu-operator",
        "labels": {names.OPERAND_LABEL: "operator-validator"},
    }
    ready = {"type": "Ready", "status": "False", "message": unready}
    status = {"phase": "Running", "containerStatuses": [{"state": state}], "conditions": [ready]}
    return {"metadata": metadata, "spec": {"nodeName": f"n{number}"}, "status": status}


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
    pods = "x: 0 of 1 pod ready; next: kubectl get pods -n n -l app=x, or gpuready doctor"
    seen = with_operands(
        operand("dcgm-exporter", "notReady", "RollingOut", waits),
        operand("mig-manager", "notReady", "PodsNotReady", pods),
    )

    assert [finding.next_step for finding in findings(seen)] == ["", "kubectl get pods -n n -l app=x"]
