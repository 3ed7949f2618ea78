"""Operands that a policy asks for and cannot have: each is named, and stops no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.controller.policies import BANANA, NOW, daemonsets, deployed, gpu_node, planned, raw, status

from gpuready.controller.policy.active import read
from gpuready.controller.policy.observed import Observed
from gpuready.controller.policy.pruning import surplus
from gpuready.controller.policy.status import new_problem, status_of
from gpuready.operands import registry


def test_an_env_that_would_end_the_plugin_is_refused_before_it_replaces_what_runs():
    plan = planned(devicePlugin={"env": [{"name": "MIG_STRATEGY", "value": "banana"}]})
    refused = next(each for each in plan.operands if each.operand.name == "device-plugin").refusal
    assert refused.reason == "EnvInvalid"
    assert "banana" in refused.message
    assert "single" in refused.message, "and what is allowed"


def test_a_toolkit_that_would_not_start_with_its_env_is_refused():
    plan = planned(toolkit={"enabled": True, "env": [{"name": "RUNTIME", "value": "podman"}]})

    assert "nvidia-container-toolkit-daemonset" not in daemonsets(plan)
    assert "toolkit" in plan.refused


def test_an_operand_that_cannot_be_built_stops_no_other():
    named = {"repository": "example.org", "image": "driver", "version": "570.86.10"}
    plan = planned(driver={**named, "repoConfig": {"configMapName": "repos"}})
    (refused,) = [each for each in plan.operands if each.refusal]
    assert refused.operand.name == "driver"
    assert "there is no ConfigMap gpu-operator/repos" in refused.refusal.message
    assert "nvidia-device-plugin-daemonset" in daemonsets(plan)
    row = next(row for row in status_of(read(raw()), plan, Observed([], {}), "n", NOW)["operands"][2:3])
    assert (row["name"], row["reason"]) == ("driver", "NotPossible")


def test_a_refused_operand_is_a_reason_of_its_own_and_worth_an_event():
    refused = gpu_node(plugin="broken", reason="EnvInvalid")
    result = status(deployed(), gpu_nodes=[refused], spec={"devicePlugin": BANANA})
    problem = new_problem({}, result)
    assert problem["reason"] == "OperandRefused"
    assert "MIG_STRATEGY=banana" in problem["message"]
    assert (result["nodes"]["ready"], result["nodes"]["brokenBy"]) == (0, {"device-plugin": 1})


def test_an_operand_that_is_refused_is_left_as_it_runs():
    owned = planned().objects
    plan = planned(devicePlugin=BANANA)
    assert plan.refused == {"device-plugin"}
    assert surplus(owned, plan.keys, plan.refused) == []


@pytest.mark.parametrize(
    ("block", "field", "said"),
    [
        ({"repository": "nvcr.io/NVIDIA"}, "spec.toolkit.repository", "capital letters"),
        ({"image": "Toolkit"}, "spec.toolkit.image", "capital letters"),
        ({"version": "v1.0-"}, "", ""),
        ({"version": ".v1"}, "spec.toolkit.version", "[:TAG]"),
        ({"version": "a:b"}, "spec.toolkit.version", "[:TAG]"),
        ({"repository": "nvcr.io//nvidia"}, "spec.toolkit.repository", "PATH"),
        ({"repository": "https://nvcr.io/nvidia"}, "spec.toolkit.repository", "PATH"),
        ({"version": "sha256:abc"}, "spec.toolkit.version", "@DIGEST"),
        ({"version": "sha256:" + "a" * 64}, "", ""),
        ({"repository": "registry.local:5000/nvidia"}, "", ""),
    ],
)
def test_an_image_by_a_name_that_none_can_have_is_named_and_not_rolled_out(block, field, said):
    named = {"enabled": True, "repository": "nvcr.io/nvidia", "image": "toolkit", "version": "v1", **block}
    plan = planned(toolkit=named)
    (toolkit,) = (each for each in plan.operands if each.operand.name == "toolkit")
    if not field:
        assert toolkit.refusal is None
        return
    assert toolkit.objects == ()
    assert toolkit.refusal.reason == "ImageInvalid"
    assert f"({field})" in toolkit.refusal.message
    assert said in toolkit.refusal.message
    assert toolkit.refusal.next_step == f"correct {field}"


def test_a_nonsense_mirror_is_named_too():
    plan = planned(gpuready={"registry": "mirror.example.com/GPU"})
    refused = {each.operand.name: each.refusal.message for each in plan.operands if each.refusal}
    assert "(spec.gpuready.registry): names of images have no capital letters" in refused["driver"]


@pytest.mark.parametrize("part", ["own", "enabled", "check"])
def test_a_mistake_of_ours_in_one_operand_is_told_and_the_others_go_on(part, monkeypatch):
    def wrong(*_: Any) -> Any:
        raise KeyError("gpus")

    monkeypatch.setattr(registry, "OPERANDS", broken_operand("device-plugin", **{part: wrong}))
    plan = planned()
    assert "nvidia-driver-daemonset" in daemonsets(plan)
    assert "device-plugin" in plan.refused, "what runs of it is not pruned"
    result = status_of(read(raw()), plan, Observed([deployed()], {"g1": gpu_node()}), "gpu-operator", NOW)
    row = next(row for row in result["operands"] if row["name"] == "device-plugin")
    assert (row["state"], row["reason"]) == ("notReady", "InternalError")
    assert "internal error: KeyError: 'gpus'; next: report it" in row["message"]
    assert result["conditions"][1]["reason"] == "InternalError"
    assert new_problem({}, result), "worth an Event"


def broken_operand(name: str, **parts: Any) -> tuple[Any, ...]:
    """The registry with one operand whose code is wrong."""
    return tuple(replace(each, **parts) if each.name == name else each for each in registry.OPERANDS)


def test_a_mistake_of_ours_in_what_is_said_of_one_operand_is_told_in_its_row(monkeypatch):
    plan = planned()
    odd = {"nvidia-device-plugin-daemonset": {"spec": {}, "metadata": None}}
    seen = Observed([deployed()], {"g1": gpu_node()}, {**daemonsets(plan), **odd})
    result = status_of(read(raw()), plan, seen, "gpu-operator", NOW)
    rows = {row["name"]: row["reason"] for row in result["operands"]}
    assert rows["device-plugin"] == "InternalError"
    assert rows["driver"] != "InternalError"
