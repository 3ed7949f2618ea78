"""Operands whose image the policy names: the original's pods, and when they count as ready."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.controller.policies import NAMED, NOW, daemonsets, deployed, gpu_node, planned, raw, view

from gpuready.controller.policy.active import read
from gpuready.controller.policy.observed import Observed
from gpuready.controller.policy.plan import plan_of
from gpuready.controller.policy.status import status_of
from gpuready.kube.trimmed import Taint


def test_a_named_image_runs_with_the_originals_contract():
    plan = planned(devicePlugin=NAMED)
    pod = daemonsets(plan)["nvidia-device-plugin-daemonset"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "example.org/nvidia/k8s-device-plugin:v0.17.0"
    assert pod["runtimeClassName"] == "nvidia"
    assert pod["initContainers"][0]["name"] == "toolkit-validation"
    assert "nvidia-operator-validator" in daemonsets(plan), "which opens the gate that it waits for"


def test_a_policy_that_names_no_image_has_none_of_the_originals_pods():
    assert not {"nvidia-operator-validator", "nvidia-device-plugin-mps-control-daemon"} & set(
        daemonsets(planned())
    )


def test_own_images_run_whatever_the_policy_names():
    found = daemonsets(planned(devicePlugin=NAMED, gpuready={"images": "own"}))
    pod = found["nvidia-device-plugin-daemonset"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "gpuready:test"
    assert "nvidia-operator-validator" not in found


@pytest.mark.parametrize(
    ("counts", "state", "reason", "said"),
    [
        pytest.param({"ready": 2}, "ready", "Ready", "", id="all pods are ready"),
        pytest.param({"ready": 1}, "notReady", "PodsNotReady", "1 of 2 pods ready", id="one is not"),
        pytest.param({"ready": 2, "updated": 1}, "notReady", "RollingOut", "1 of 2 nodes", id="one is old"),
        pytest.param(
            {"ready": 2, "seen": 0}, "notReady", "RollingOut", "", id="the new text is not seen yet"
        ),
    ],
)
def test_an_original_is_as_ready_as_its_pods(counts, state, reason, said):
    active = read(raw(devicePlugin=NAMED))
    plan = plan_of(active, active.policy, view())
    live = {name: {**obj, "status": _counts(**counts)} for name, obj in daemonsets(plan).items()}
    for obj in live.values():
        obj["metadata"] = {**obj["metadata"], "generation": 1}
    result = status_of(active, plan, Observed([deployed()], {"g1": gpu_node()}, live), "gpu-operator", NOW)
    row = next(row for row in result["operands"] if row["name"] == "device-plugin")
    assert (row["state"], row["reason"], row["flavour"]) == (state, reason, "original")
    assert (row["desired"], row["ready"]) == (2, counts["ready"])
    assert said in row["message"]


def _counts(ready: int, updated: int = 2, seen: int = 1) -> dict[str, int]:
    return {
        "observedGeneration": seen,
        "desiredNumberScheduled": 2,
        "updatedNumberScheduled": updated,
        "numberReady": ready,
    }


def tainted(node, *taints):
    return dataclasses.replace(node, taints=taints)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        pytest.param({"devicePlugin": NAMED}, "device-plugin", id="an original"),
        pytest.param({"dcgmExporter": {"enabled": True}}, "dcgm-exporter", id="our exporter"),
    ],
)
def test_a_node_whose_taint_keeps_the_pod_away_is_no_ready_node(spec, name):
    """A DaemonSet does not count it: desired 0, ready 0, and no Event anywhere."""
    active = read(raw(**spec))
    plan = plan_of(active, active.policy, view())
    counts = {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": 1}
    live = {each: {**obj, "status": counts} for each, obj in daemonsets(plan).items()}
    label = {"nvidia.com/gpu.deploy.dcgm-exporter": "true"}
    ml = tainted(deployed("g2", **label), Taint("team", "ml", "NoSchedule"))
    gpu = tainted(deployed("g1", **label), Taint("nvidia.com/gpu", "true", "NoSchedule"))
    seen = Observed([gpu, ml], {each: gpu_node(each) for each in ("g1", "g2")}, live)
    result = status_of(active, plan, seen, "gpu-operator", NOW)
    row = next(row for row in result["operands"] if row["name"] == name)
    assert (row["state"], row["reason"]) == ("notReady", "OperandKeptAway")
    assert (row["desired"], row["ready"]) == (2, 1)
    assert row["message"].startswith(f"g2: the {name} cannot run here: DaemonSet nvidia-d")
    assert "does not tolerate team=ml:NoSchedule; next: add to spec.daemonsets.tolerations" in row["message"]
    assert '{key: team, operator: Equal, value: "ml", effect: NoSchedule}' in row["message"]


def test_a_pod_that_was_there_before_the_taint_stays_and_is_not_missed():
    """The DaemonSet counts it as misscheduled; it runs, and "cannot run here" would not be true."""
    active = read(raw(devicePlugin=NAMED))
    plan = plan_of(active, active.policy, view())
    counts = {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": 1}
    ml = Taint("team", "ml", "NoSchedule")
    nodes = [deployed(), *(tainted(deployed(name), ml) for name in ("g2", "g3"))]

    def row(misscheduled: int, nodes):
        status = {**counts, "numberMisscheduled": misscheduled}
        live = {each: {**obj, "status": status} for each, obj in daemonsets(plan).items()}
        seen = Observed(nodes, {each.name: gpu_node(each.name) for each in nodes}, live)
        rows = status_of(active, plan, seen, "gpu-operator", NOW)["operands"]
        return next(row for row in rows if row["name"] == "device-plugin")

    assert (row(1, nodes[:2])["state"], row(1, nodes[:2])["desired"]) == ("ready", 1)
    one_lacks = row(1, nodes)
    assert (one_lacks["reason"], one_lacks["desired"]) == ("OperandKeptAway", 2)
    assert "more node" not in one_lacks["message"]


def test_a_node_that_has_opted_out_is_none_that_an_operand_waits_for():
    active = read(raw(devicePlugin=NAMED))
    plan = plan_of(active, active.policy, view())
    counts = {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": 1}
    live = {each: {**obj, "status": counts} for each, obj in daemonsets(plan).items()}
    out = deployed("g2", **{"nvidia.com/gpu.deploy.device-plugin": "false"})
    seen = Observed([deployed(), tainted(out, Taint("team", "ml", "NoSchedule"))], {"g1": gpu_node()}, live)
    result = status_of(active, plan, seen, "gpu-operator", NOW)
    row = next(row for row in result["operands"] if row["name"] == "device-plugin")
    assert (row["state"], row["desired"]) == ("ready", 1)
