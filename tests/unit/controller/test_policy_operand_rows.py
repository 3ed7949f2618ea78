"""What a policy's status says of each operand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.controller.policies import NOW, daemonsets, deployed, gpu_node, raw, status, view

from gpuready.controller.policy.active import read
from gpuready.controller.policy.observed import Observed
from gpuready.controller.policy.plan import plan_of
from gpuready.controller.policy.status import status_of


@pytest.mark.parametrize(
    ("strategy", "generation", "updated", "ready", "expected"),
    [
        pytest.param("RollingUpdate", 1, 2, 2, "notReady", id="the new text is not seen yet"),
        pytest.param("RollingUpdate", 2, 1, 2, "notReady", id="one pod is still the old one"),
        pytest.param("RollingUpdate", 2, 2, 1, "notReady", id="one of the new pods is starting"),
        pytest.param("RollingUpdate", 2, 2, 2, "ready", id="all pods are new"),
        pytest.param("OnDelete", 2, 1, 2, "notReady", id="somebody has to delete the other"),
        pytest.param("OnDelete", 2, 2, 2, "ready", id="somebody has deleted all"),
    ],
)
def test_an_operand_whose_pods_are_being_replaced_is_not_ready(
    strategy, generation, updated, ready, expected
):
    active = read(raw())
    plan = plan_of(active, active.policy, view())
    live = {name: dict(obj) for name, obj in daemonsets(plan).items()}
    plugin = live["nvidia-device-plugin-daemonset"]
    counts = {"desiredNumberScheduled": 2, "updatedNumberScheduled": updated, "numberReady": ready}
    plugin["metadata"] = {**plugin["metadata"], "generation": 2}
    plugin["spec"] = {**plugin["spec"], "updateStrategy": {"type": strategy}}
    plugin["status"] = {"observedGeneration": generation, **counts}
    result = status_of(active, plan, Observed([deployed()], {"g1": gpu_node()}, live), "gpu-operator", NOW)
    assert result["state"] == expected


def test_pods_that_nobody_replaces_are_named_with_what_to_do():
    """The original waits for them without a word; ready speaks of what the policy asks for now."""
    active = read(raw(daemonsets={"updateStrategy": "OnDelete"}))
    plan = plan_of(active, active.policy, view())
    live = daemonsets(plan)
    counts = {"desiredNumberScheduled": 2, "updatedNumberScheduled": 1, "numberReady": 2}
    live["nvidia-device-plugin-daemonset"]["status"] = counts
    result = status_of(active, plan, Observed([deployed()], {"g1": gpu_node()}, live), "gpu-operator", NOW)
    row = next(row for row in result["operands"] if row["name"] == "device-plugin")
    assert row["message"] == (
        "nvidia-device-plugin-daemonset has its newest pods on 1 of 2 nodes; spec.daemonsets.updateStrategy "
        "OnDelete leaves the others to you; next: delete them "
        "(kubectl get pods -n gpu-operator -l app=nvidia-device-plugin-daemonset)"
    )


def test_a_pod_alone_does_not_take_back_that_an_operand_is_ready():
    active = read(raw())
    plan = plan_of(active, active.policy, view())
    live = daemonsets(plan)
    counts = {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberReady": 1}
    live["nvidia-device-plugin-daemonset"]["status"] = counts
    seen = Observed([deployed()], {"g1": gpu_node()}, live)
    before = {"operands": [{"name": "device-plugin", "enabled": True, "state": "ready"}]}
    assert status_of(active, plan, seen, "gpu-operator", NOW)["state"] == "notReady"
    active = replace(active, raw={**active.raw, "status": before})
    assert status_of(active, plan, seen, "gpu-operator", NOW)["state"] == "ready"


def test_of_an_operand_that_has_just_been_made_nobody_says_that_it_was_changed():
    active = read(raw())
    plan = plan_of(active, active.policy, view())
    live = daemonsets(plan)
    plugin = live["nvidia-device-plugin-daemonset"]
    live["nvidia-device-plugin-daemonset"] = {**plugin, "metadata": {**plugin["metadata"], "generation": 1}}
    result = status_of(active, plan, Observed([deployed()], {"g1": gpu_node()}, live), "gpu-operator", NOW)
    row = next(row for row in result["operands"] if row["name"] == "device-plugin")
    assert row["message"] == "nvidia-device-plugin-daemonset has just been made, its pods are about to start"


@pytest.mark.parametrize("reason", ["DriverOutdated", "DriverPodFailing"])
def test_a_driver_that_is_not_the_one_asked_for_is_not_ready_though_its_node_is(reason):
    result = status(deployed(), gpu_nodes=[gpu_node(driver="degraded", reason=reason)])
    row = next(row for row in result["operands"] if row["name"] == "driver")
    assert (row["state"], row["reason"], row["ready"]) == ("notReady", reason, 0)
    assert f"g1: m {reason}" in row["message"]
    assert result["nodes"]["ready"] == 1


def test_a_ready_operand_tells_what_is_degraded_and_where():
    result = status(deployed(), gpu_nodes=[gpu_node(plugin="degraded", reason="ConfigKeyMissing")])
    row = next(row for row in result["operands"] if row["name"] == "device-plugin")
    assert (row["state"], row["reason"]) == ("ready", "ConfigKeyMissing")
    assert "g1: m ConfigKeyMissing" in row["message"]
    assert "g1: m ConfigKeyMissing" in result["conditions"][0]["message"]


def test_an_automatic_upgrade_is_listed_as_not_implemented():
    result = status(
        deployed(), gpu_nodes=[gpu_node()], spec={"driver": {"upgradePolicy": {"autoUpgrade": True}}}
    )
    row = next(row for row in result["operands"] if row["name"] == "driver-upgrade")
    assert row["reason"] == "NotImplemented"
    assert "drain each node" in row["message"]
    assert "delete its driver's pod" in row["message"]
    assert "image" not in row["message"], "there is none that would upgrade drivers"
    assert "driver-upgrade" in result["conditions"][2]["message"]


def test_what_has_no_code_yet_is_listed_and_does_not_hold_up_the_rest():
    result = status(deployed(), gpu_nodes=[gpu_node()], spec={"dcgm": {"enabled": True}})
    assert result["state"] == "ready"
    row = next(row for row in result["operands"] if row["name"] == "dcgm")
    assert row["reason"] == "NotImplemented"
    assert "name an image to run the original's" in row["message"]
    assert result["conditions"][2]["type"] == "NotImplemented"
    assert "dcgm" in result["conditions"][2]["message"]
    assert "not installed by this version: dcgm" in result["conditions"][0]["message"]


@pytest.mark.parametrize("images", ["own", "asNamed"])
def test_the_status_says_whose_images_run(images):
    result = status(deployed(), gpu_nodes=[gpu_node()], spec={"gpuready": {"images": images}})
    flavours = {row["name"]: row["flavour"] for row in result["operands"] if row["desired"]}
    assert flavours == {"driver": "original", "device-plugin": "own"}
