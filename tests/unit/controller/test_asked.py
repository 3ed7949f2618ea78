"""What a node is told to wait for when the policy's operand is held back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gpuready import names
from gpuready.api.policy import parse_policy
from gpuready.controller.nodes.asked import Asked
from gpuready.controller.nodes.spec import SpecInputs, spec_of
from gpuready.kube.trimmed import Metadata, Node, NodeSpec, Pod, Taint
from gpuready.operands.contract import REFERENCE_MISSING, Refusal

MISSING = Refusal(REFERENCE_MISSING, "there is no Secret gpu-operator/site", "create the Secret site")
SETS = {"device-plugin": "nvidia-device-plugin-daemonset", "toolkit": "nvidia-container-toolkit-daemonset"}


def told(
    held_back: dict[str, Refusal], *, runs: str = "", taints: Sequence[Taint] = (), driver_pods: Any = ()
) -> dict[str, Any]:
    """GPUNode.spec of a GPU node. runs: first word of the command in the pods that are there, "" = none."""
    policy = parse_policy({"metadata": {"name": "p"}, "spec": {}})
    labels = {names.NFD_PCI_LABELS[0]: "true", names.GPU_PRESENT: "true"}
    container = {"command": [runs, "role"]}
    daemonset = {"spec": {"template": {"spec": {"containers": [container]}}}} if runs else None
    return spec_of(
        Node(metadata=Metadata(name="g1", labels=labels), spec=NodeSpec(taints=list(taints))),
        Asked.of(policy, held_back),
        None,
        SpecInputs(
            source=None,
            driver_pods=driver_pods,
            find_daemonset=lambda name: daemonset if name in SETS.values() else None,
            driver_sets=[driver_set("other", "else"), driver_set("mine", "true")],
        ),
    )


def driver_set(name: str, selects: str) -> dict[str, Any]:
    spec = {"template": {"spec": {"nodeSelector": {names.GPU_PRESENT: selects}}}}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("operand", SETS)
def test_a_node_does_not_wait_for_pods_that_are_held_back(operand):
    block = {"device-plugin": "devicePlugin", "toolkit": "toolkit"}[operand]
    assert told({})[block]["enabled"] is True
    assert not told({operand: MISSING}).get(block, {}).get("enabled")


def test_the_node_is_told_why_its_device_plugin_does_not_come():
    plugin = told({"device-plugin": MISSING})["devicePlugin"]
    assert plugin["refused"]["message"] == "there is no Secret gpu-operator/site"
    assert plugin["refused"]["nextStep"] == "create the Secret site"


@pytest.mark.parametrize("operand", SETS)
def test_pods_that_run_while_their_successors_are_held_back_are_heard(operand):
    block = {"device-plugin": "devicePlugin", "toolkit": "toolkit"}[operand]
    assert told({operand: MISSING}, runs="gpuready")[block]["enabled"] is True


def test_pods_of_the_original_are_not_taken_for_ours():
    """They have the same names, and write no record that the node agent could wait for."""
    assert told({"device-plugin": MISSING}, runs="/bin/sh")["devicePlugin"]["enabled"] is False


@pytest.mark.parametrize("operand", SETS)
def test_a_node_is_told_which_taint_keeps_an_operand_away(operand):
    """It sees only that no pod comes; with this its GPUNode says the same as doctor."""
    block = {"device-plugin": "devicePlugin", "toolkit": "toolkit"}[operand]

    kept = told({}, runs="gpuready", taints=[Taint(key="team", value="ml", effect="NoSchedule")])[block]

    assert kept["enabled"] is True
    assert kept["keptAway"]["reason"] == "OperandKeptAway"
    assert f"DaemonSet {SETS[operand]} does not tolerate team=ml:NoSchedule" in kept["keptAway"]["message"]
    assert "spec.daemonsets.tolerations" in kept["keptAway"]["nextStep"]
    assert "keptAway" not in told({}, runs="gpuready")[block]


def test_a_node_is_told_which_taint_keeps_its_driver_away():
    taints = [Taint(key="team", value="ml", effect="NoSchedule")]

    kept = told({}, taints=taints)["driver"]["keptAway"]

    assert kept["reason"] == "OperandKeptAway"
    assert (
        "the driver cannot run here: DaemonSet mine does not tolerate team=ml:NoSchedule" in kept["message"]
    )
    assert "spec.daemonsets.tolerations" in kept["nextStep"]
    assert "keptAway" not in told({})["driver"]
    there = [Pod(metadata=Metadata(name="driver-1"))]
    assert "keptAway" not in told({}, taints=taints, driver_pods=there)["driver"], "a pod that is there stays"
