"""Allocate: the original's recorded answers, and our texts for users."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuready.errors import AllocationError
from gpuready.gpu.topology.preferred import Topology
from gpuready.node.kubelet.model import ContainerAnswer
from gpuready.operands.device_plugin.allocation import Rules, Target, allocate
from gpuready.operands.device_plugin.config import effective_of
from gpuready.operands.device_plugin.desired import parse_text
from gpuready.operands.device_plugin.offers import offers_of
from gpuready.operands.device_plugin.resources import Card, Resource, resources_of
from gpuready.operands.device_plugin.settings import Settings

RECORDED = Path(__file__).parents[3] / "fixtures/originals/plugin"
SHARED = {f"{uuid}::{n}": Target(uuid, index, index) for index, uuid in enumerate("AB") for n in range(4)}


def recorded(*, listed: bool = False) -> list[Any]:
    """(inputs, case) of what we do too; listed: only those with a list of their own."""
    found = []
    for name in ("a100", "h100", "t4"):
        data = json.loads((RECORDED / f"{name}.json").read_text())
        for key, case in data["cases"].items():
            whole = not key.startswith(("mixed", "single")) and "mps" not in key
            if whole and (isinstance(case["listAndWatchSorted"], list) or not listed):
                found.append(pytest.param(data["inputs"], case, id=f"{name}-{key}"))
    return found


def settings_of(args: list[str]) -> Settings:
    words = dict(arg.removeprefix("--").partition("=")[::2] for arg in args)
    return Settings(
        device_list_strategy=tuple(words.get("device-list-strategy", "envvar").split(",")),
        device_id_strategy=words.get("device-id-strategy"),
        pass_device_specs=True if "pass-device-specs" in words else None,
    )


def resource_of(inputs: Mapping[str, Any], case: Mapping[str, Any]) -> tuple[Resource, Any]:
    effective = effective_of(settings_of(case["args"]), parse_text(case["config"] or "{}"))
    cards = [
        Card(
            gpu["uuid"],
            gpu["index"],
            gpu["minor"],
            gpu["name"],
            0,
            numa_node=inputs["numaNodes"][gpu["busId"][4:].lower()],
        )
        for gpu in inputs["gpus"]
    ]
    [resource] = resources_of(cards, {}, effective)
    return resource, effective


@pytest.mark.parametrize(("inputs", "case"), recorded())
def test_we_answer_as_the_original(inputs: dict[str, Any], case: dict[str, Any]) -> None:
    resource, effective = resource_of(inputs, case)
    prefix = "/run/nvidia/driver" if "--driver-root=/run/nvidia/driver" in case["args"] else ""
    nodes = {path: prefix + path for path in inputs["deviceNodes"]}
    if prefix:  # the original looks for control nodes in the wrong place: it names only the GPUs
        nodes = {path: host for path, host in nodes.items() if path[len("/dev/nvidia") :].isdigit()}
    offer = offers_of([resource], effective, Topology([], []), nodes)[resource.name]

    assert resource.name == case["register"][0]["resource_name"]
    for row in case.get("allocate", []):
        if "response" not in row:
            continue
        expected = row["response"]
        if "error" in expected:
            with pytest.raises(AllocationError) as caught:
                offer.allocate(row["containers"][0])
            assert expected["error"]["message"].split("invalid request: ")[1].split(":")[0] in str(
                caught.value
            )
            continue
        answers = [_as_json(offer.allocate(ids)) for ids in row["containers"]]
        assert answers == [_without_random_key(one) for one in expected["container_responses"]]


@pytest.mark.parametrize(("inputs", "case"), recorded(listed=True))
def test_we_list_the_devices_of_the_original_in_one_order(
    inputs: dict[str, Any], case: dict[str, Any]
) -> None:
    resource, _ = resource_of(inputs, case)

    ours = [[d.id, "Healthy", None if d.numa_node is None else [d.numa_node]] for d in resource.devices]
    assert ours == case["listAndWatchSorted"]


def _as_json(answer: ContainerAnswer) -> dict[str, Any]:
    row: dict[str, Any] = {
        "envs": dict(answer.envs),
        "mounts": [{"container_path": m.container_path, "host_path": m.host_path} for m in answer.mounts],
        "devices": [
            {"container_path": d.container_path, "host_path": d.host_path, "permissions": d.permissions}
            for d in answer.devices
        ],
        "annotations": {_key(key): value for key, value in answer.annotations.items()},
        "cdi_devices": [{"name": name} for name in answer.cdi_devices],
    }
    return {key: value for key, value in row.items() if value}


def _without_random_key(row: dict[str, Any]) -> dict[str, Any]:
    return (
        {**row, "annotations": {_key(k): v for k, v in row["annotations"].items()}}
        if "annotations" in row
        else row
    )


def _key(key: str) -> str:
    return key.rpartition("_")[0]


# --- our own ----------------------------------------------------------------------------------------------
def test_the_same_devices_get_the_same_annotation_key_and_a_valid_one() -> None:
    rules = Rules(strategies=("cdi-annotations",))
    answers = [allocate(["A::0"], "nvidia.com/gpu", SHARED, rules).annotations for _ in range(2)]
    [key] = answers[0]

    assert answers[0] == answers[1]
    assert len(key.partition("/")[2]) <= 63


def test_c17_ii_two_shares_of_one_card_list_it_once() -> None:
    answer = allocate(["A::2", "A::3"], "nvidia.com/gpu", SHARED, Rules())
    assert answer.envs == {"NVIDIA_VISIBLE_DEVICES": "A"}


@pytest.mark.parametrize("asked", [["A::2", "A::3"], ["A::0", "B::0"]])
def test_c17_iii_more_than_one_share_is_refused_with_a_way_out(asked: list[str]) -> None:
    with pytest.raises(AllocationError) as caught:
        allocate(asked, "nvidia.com/gpu", SHARED, Rules(one_each=True))
    text = str(caught.value)
    assert "maximum request size for shared resources is 1; found 2" in text
    assert "failRequestsGreaterThanOne" in text


@pytest.mark.parametrize("one_each", [True, False])
def test_c17_t2_two_containers_may_have_one_share_each(one_each: bool) -> None:
    rules = Rules(one_each=one_each)
    for asked in (["A::0"], ["A::1"]):
        assert allocate(asked, "nvidia.com/gpu", SHARED, rules).envs == {"NVIDIA_VISIBLE_DEVICES": "A"}


def test_an_unknown_device_names_itself_and_the_likely_cause() -> None:
    with pytest.raises(
        AllocationError, match=r"unknown device C::0 for nvidia\.com/gpu.*sharing was changed"
    ):
        allocate(["C::0"], "nvidia.com/gpu", SHARED, Rules())


def test_ids_are_cut_and_counted_in_what_is_said_of_them() -> None:
    with pytest.raises(AllocationError) as refused:
        allocate(["x" * 3_000_000] * 1000, "nvidia.com/gpu", SHARED, Rules())
    assert f"{'x' * 63}…, " in str(refused.value)
    assert "… and 996 more for nvidia.com/gpu" in str(refused.value)
    assert len(str(refused.value)) < 1000
