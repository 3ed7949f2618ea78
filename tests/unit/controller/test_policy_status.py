"""From a plan and what nodes say to the policy's status: whether it is ready, and why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.controller.policies import (
    NAMED,
    NOW,
    daemonsets,
    deployed,
    gpu_node,
    planned,
    raw,
    status,
    view,
)

from gpuready import names
from gpuready.controller.policy.active import read
from gpuready.controller.policy.observed import NodeView, Observed
from gpuready.controller.policy.plan import plan_of
from gpuready.controller.policy.status import headline, new_problem, status_of
from gpuready.operands.contract import Refusal


def test_ready_means_every_operand_on_every_node_it_belongs_to():
    result = status(deployed(), gpu_nodes=[gpu_node()])
    assert result["state"] == "ready"
    assert result["nodes"] == {"gpu": 1, "ready": 1, "brokenBy": {}, "undiscovered": 0}
    assert result["observedGeneration"] == 3
    rows = {row["name"]: (row["ready"], row["desired"]) for row in result["operands"]}
    assert rows["driver"] == rows["device-plugin"] == (1, 1)


def test_a_node_opted_out_of_an_operand_does_not_hold_it_up():
    opted_out = deployed(**{names.DEPLOY_DEVICE_PLUGIN: "false"})
    result = status(opted_out, gpu_nodes=[gpu_node(plugin="waiting")])
    assert result["state"] == "ready"


def test_a_cluster_without_gpus_is_ready_and_says_so():
    result = status(gpu_nodes=[])
    assert (result["state"], result["conditions"][0]["reason"]) == ("ready", "NoGPUNodes")


def test_a_policy_is_not_ready_before_every_node_was_looked_at():
    result = status(NodeView("new", {}, undiscovered=True), gpu_nodes=[])
    assert result["state"] == "notReady"
    assert result["conditions"][1]["reason"] == "Discovering"
    assert "new" in result["conditions"][1]["message"]
    assert result["nodes"]["undiscovered"] == 1


def test_a_node_that_joins_later_does_not_take_ready_back():
    active = read({**raw(), "status": {"state": "ready", "observedGeneration": 3}})
    plan = plan_of(active, active.policy, view())
    seen = Observed(
        [deployed(), NodeView("new", {}, undiscovered=True)], {"g1": gpu_node()}, daemonsets(plan)
    )
    assert status_of(active, plan, seen, "gpu-operator", NOW)["state"] == "ready"


def test_a_node_that_nobody_reports_on_is_not_ready_and_it_is_said_why():
    why = "the node agent's pod agent-1 is not ready: ImagePullBackOff"
    never = NodeView("g1", deployed().labels, silence=why)
    result = status(never, gpu_nodes=[])
    assert result["state"] == "notReady"
    assert why in result["conditions"][1]["message"]

    fell_silent = NodeView("g1", deployed().labels, silence=why, silent=True)
    result = status(fell_silent, gpu_nodes=[gpu_node()])
    assert result["state"] == "notReady"
    assert result["nodes"]["brokenBy"] == {"reporting": 1}
    assert why in result["conditions"][1]["message"]


def test_a_short_silence_takes_nothing_back():
    node = NodeView("g1", deployed().labels, silence="the node agent's pod agent-1 is not ready")
    assert status(node, gpu_nodes=[gpu_node()])["state"] == "ready"


def test_a_broken_driver_is_named_with_its_node_and_link():
    broken = gpu_node(driver="broken", reason="DriverLibraryMismatch", plugin="waiting")
    result = status(deployed(), gpu_nodes=[broken])
    assert result["state"] == "notReady"
    assert result["nodes"]["brokenBy"] == {"driver": 1}
    assert "g1" in result["conditions"][1]["message"]
    assert "DriverLibraryMismatch" in result["conditions"][1]["message"]


def test_a_degraded_link_counts_as_whole():
    assert status(deployed(), gpu_nodes=[gpu_node(driver="degraded")])["state"] == "ready"


def test_without_the_right_to_list_secrets_it_is_said_which_were_not_looked_for():
    """The policy is ready all the same: a missing Secret keeps pods waiting, which is told of those."""
    plugin = {"devicePlugin": {"imagePullSecrets": ["site"]}}
    ready = condition_of(status(deployed(), gpu_nodes=[gpu_node()], spec=plugin), "Ready")
    assert ready["status"] == "True"
    assert "whether these Secrets exist is not known" in ready["message"]
    assert ready["message"].endswith("the operator may not list any: site")


def condition_of(status: dict[str, Any], type_: str) -> dict[str, Any]:
    return next(row for row in status["conditions"] if row["type"] == type_)


def test_one_object_that_cannot_be_written_is_named():
    failures = {"DaemonSet/nvidia-device-plugin-daemonset": "quota exceeded"}
    result = status(deployed(), gpu_nodes=[gpu_node()], failures=failures)
    assert result["conditions"][1]["reason"] == "ReconcileFailed"
    assert "quota exceeded" in result["conditions"][1]["message"]


def test_fields_that_do_nothing_are_named_in_a_condition():
    spec = {"devicePlugin": {"args": ["--fail-on-init-error=false"]}, "psp": {"enabled": True}}
    result = status(deployed(), gpu_nodes=[gpu_node()], spec=spec)
    (condition,) = [row for row in result["conditions"] if row["type"] == "NoEffect"]
    assert condition["status"] == "True"
    assert "spec.devicePlugin.args: flags of NVIDIA's program" in condition["message"]
    assert "spec.psp: deprecated" in condition["message"]
    with_the_image = {"devicePlugin": {**NAMED, **spec["devicePlugin"]}}
    other = status(deployed(), gpu_nodes=[gpu_node()], spec=with_the_image)
    assert "NoEffect" not in {row["type"] for row in other["conditions"]}


def test_counts_and_messages_are_no_headline():
    result = status(deployed(), gpu_nodes=[gpu_node()])
    moved = {
        **result,
        "nodes": {"gpu": 2},
        "operands": [{**row, "message": "x"} for row in result["operands"]],
    }
    assert headline(moved) == headline(result)
    assert headline({**result, "state": "notReady"}) != headline(result)
    assert headline({}) != headline(result)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        pytest.param({}, True, id="first time"),
        pytest.param({"reason": "PolicyInvalid", "message": "b"}, True, id="another problem"),
        pytest.param({"reason": "PolicyInvalid", "message": "a"}, False, id="the same again"),
    ],
)
def test_a_problem_of_the_policy_is_said_once_in_an_event(before, said):
    def with_error(row: dict[str, str]) -> dict[str, Any]:
        return {"conditions": [{"type": "Error", **row}]}

    now = with_error({"reason": "PolicyInvalid", "message": "a"})
    assert (new_problem(with_error(before), now) is not None) == said
    assert new_problem(now, with_error({"reason": "OperandNotReady", "message": "g1"})) is None


def test_conditions_keep_the_time_of_their_last_change():
    active = read(raw())
    first = status(deployed(), gpu_nodes=[gpu_node()])
    again = read({**raw(), "status": first})
    plan = plan_of(active, active.policy, view())
    seen = Observed([deployed()], {"g1": gpu_node()}, daemonsets(plan))
    later = status_of(again, plan, seen, "gpu-operator", "2026-11-30T00:00:00Z")
    assert later == first, "so an unchanged status is not written again"


def test_no_text_of_a_status_is_longer_than_a_condition_may_be():
    plan = planned()
    refusal = Refusal("Some", "x" * 50_000, "do this")
    held_back = replace(plan, operands=tuple(replace(each, refusal=refusal) for each in plan.operands))

    status = status_of(read(raw()), held_back, Observed([], {}), "gpu-operator", NOW)

    texts = [row["message"] for row in (*status["operands"], *status["conditions"])]
    assert max(map(len, texts)) == 1024
    assert all(len(text) < 1024 or text.endswith("…") for text in texts)
