from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.operands.original.recorded import plan_of_record, policy_of, view_of

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.controller.policy.active import read
from gpuready.controller.policy.left_behind import left_behind
from gpuready.controller.policy.plan import Plan, plan_of
from gpuready.operands.contract import Refusal

UID = "a-uid"
OF_THE_ORIGINAL = {"manager": "gpu-operator", "operation": "Update"}


def made_by_the_original() -> list[dict[str, Any]]:
    """The metadata of everything in record P01."""
    return [
        {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "metadata": {
                **{key: obj["metadata"][key] for key in ("name", "namespace") if key in obj["metadata"]},
                "uid": f"{obj['kind']}/{obj['metadata']['name']}",
                "ownerReferences": [{"kind": "ClusterPolicy", "uid": UID, "controller": True}],
                "managedFields": [OF_THE_ORIGINAL],
            },
        }
        for operand in plan_of_record("P01").operands
        for obj in operand.objects
    ]


def planned(**spec: Any) -> tuple[ClusterPolicy, Plan]:
    raw = policy_of("P01")
    for block, fields in spec.items():
        raw["spec"][block] = {**raw["spec"].get(block, {}), **fields}
    active = read(raw)
    assert active.policy is not None
    return active.policy, plan_of(active, active.policy, view_of("P01"))


def gone(there: list[dict[str, Any]], policy: ClusterPolicy, plan: Plan) -> list[str]:
    return [obj["metadata"]["uid"] for _, obj in left_behind(there, {UID}, policy, view_of("P01"), plan)]


def test_of_what_is_wanted_nothing_goes() -> None:
    assert gone(made_by_the_original(), *planned()) == []


def test_an_operand_that_is_switched_off_goes_the_daemonset_first() -> None:
    found = gone(made_by_the_original(), *planned(migManager={"enabled": False}))

    assert found[0] == "DaemonSet/nvidia-mig-manager"
    assert "ConfigMap/default-mig-parted-config" in found
    assert {name.split("/")[1].removeprefix("nvidia-").split("-")[0] for name in found} == {"mig", "default"}


def test_what_runs_as_ours_now_needs_no_pods_of_the_originals() -> None:
    found = gone(made_by_the_original(), *planned(gpuready={"images": "own"}))

    assert "DaemonSet/gpu-feature-discovery" in found
    assert "DaemonSet/nvidia-driver-daemonset" not in found


def test_a_driver_whose_nodes_are_not_known_yet_goes_on() -> None:
    policy, plan = planned()
    view = replace(view_of("P01"), gpu_nodes=())
    active = read(policy_of("P01"))
    assert active.policy is not None
    early = plan_of(active, active.policy, view)

    assert left_behind(made_by_the_original(), {UID}, policy, view, early) == []
    assert plan.keys > early.keys


def test_an_operand_that_cannot_run_as_asked_leaves_what_runs() -> None:
    policy, plan = planned(migManager={"enabled": False})
    refused = tuple(
        replace(each, refusal=Refusal("NotPossible", "no", "yes"))
        if each.operand.name == "mig-manager"
        else each
        for each in plan.operands
    )

    assert gone(made_by_the_original(), policy, replace(plan, operands=refused)) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"managedFields": [{"manager": "kubectl"}]}, id="written by a user"),
        pytest.param({"ownerReferences": []}, id="owned by nobody"),
        pytest.param(
            {"ownerReferences": [{"kind": "ClusterPolicy", "uid": UID}]}, id="owned, but not controlled"
        ),
        pytest.param(
            {"ownerReferences": [{"kind": "NVIDIADriver", "uid": UID, "controller": True}]},
            id="of an NVIDIADriver",
        ),
        pytest.param({"labels": {names.OPERAND_LABEL: "mig-manager"}}, id="ours already"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, id="going already"),
    ],
)
def test_what_is_not_certainly_the_originals_stays(change: dict[str, Any]) -> None:
    there = made_by_the_original()
    for obj in there:
        obj["metadata"].update(change)

    assert gone(there, *planned(migManager={"enabled": False})) == []
