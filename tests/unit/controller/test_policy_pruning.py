"""What goes when a policy no longer asks for it, and what stays until hosts have back what they had."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.controller.policies import daemonsets, planned, raw, view

from gpuready import names
from gpuready.controller.nodes.summary import decode_gpunode
from gpuready.controller.policy.active import read
from gpuready.controller.policy.observed import Observed
from gpuready.controller.policy.operand_rows import operand_row
from gpuready.controller.policy.plan import plan_of
from gpuready.controller.policy.pruning import leaving, leftovers, surplus


def test_a_disabled_operand_is_pruned_and_the_agent_never_is():
    owned = planned().objects
    keys = planned(devicePlugin={"enabled": False}).keys
    gone = {obj["metadata"]["name"] for obj in surplus(owned, keys)}
    assert gone == {"nvidia-device-plugin-daemonset", "nvidia-device-plugin"}


def test_everything_goes_in_reverse_order_and_the_agent_last():
    operands = [
        obj["metadata"]["labels"][names.OPERAND_LABEL]
        for obj in leftovers(planned().objects, keep_agent=False)
    ]
    assert list(dict.fromkeys(operands)) == [
        "device-plugin",
        "driver",
        "operator-metrics",
        "runtime-classes",
        "node-agent",
    ]
    kept = leftovers(planned().objects, keep_agent=True)
    assert all(obj["metadata"]["labels"][names.OPERAND_LABEL] != "node-agent" for obj in kept)


def test_what_undoes_its_work_on_hosts_is_no_garbage_of_the_policy():
    plan = planned(toolkit={"enabled": True})
    made = [obj for obj in plan.objects if obj["metadata"]["labels"][names.OPERAND_LABEL] == "toolkit"]
    assert {obj["kind"] for obj in made} >= {"DaemonSet", "ServiceAccount"}
    assert [obj["metadata"].get("ownerReferences") for obj in made] == [None] * len(made)
    assert made == [obj for obj in made if obj not in leftovers(plan.objects, keep_agent=True)]
    assert len(leftovers(plan.objects, keep_agent=False)) == len(plan.objects)


@pytest.mark.parametrize(
    ("state", "reason", "stays"),
    [
        pytest.param("ok", "HandlersKnown", True, id="the node has not heard of it"),
        pytest.param("not-checked", "Leaving", True, id="it is being undone"),
        pytest.param("not-checked", "Disabled", False, id="nothing of it is left"),
    ],
)
def test_a_toolkit_that_is_switched_off_stays_until_every_node_has_back_what_it_had(
    state: str, reason: str, stays: bool
):
    rows = [(b"done", b"not-checked", b"Disabled"), (b"other", state.encode(), reason.encode())]
    link = b'{"link": "toolkit", "state": "%s", "reason": "%s"}'
    text = b'{"metadata": {"name": "%s"}, "status": {"chain": [' + link + b"]}}"
    active = read(raw(toolkit={"enabled": False}))
    seen = leaving(decode_gpunode(text % row) for row in rows)

    plan = plan_of(active, active.policy, replace(view(), leaving=seen))

    assert ("nvidia-container-toolkit-daemonset" in daemonsets(plan)) is stays
    assert operand_row_of(plan)["state"] == "disabled"


def operand_row_of(plan: Any, name: str = "toolkit") -> Any:
    (found,) = (each for each in plan.operands if each.operand.name == name)
    return operand_row(found, Observed([], {}))
