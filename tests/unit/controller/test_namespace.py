"""That privileged pods may run in the operator's namespace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.controller.fake_api import FakeApi
from tests.unit.controller.test_faults import blind_controller, passes
from tests.unit.controller.test_loops import policy

from gpuready import names
from gpuready.api.policy import parse_policy
from gpuready.controller.policy.namespace import given_back, labelled
from gpuready.kube.errors import error_of

ENFORCE, AUDIT, WARN = (f"pod-security.kubernetes.io/{mode}" for mode in ("enforce", "audit", "warn"))
ALL = dict.fromkeys((ENFORCE, AUDIT, WARN), "privileged")
NOTE = names.NAMESPACE_LABELS_ANNOTATION


def asked(enabled: bool) -> Any:
    return parse_policy({"spec": {"psa": {"enabled": enabled}}})


def merged(metadata: Mapping[str, Any], patch: Mapping[str, Any] | None) -> dict[str, Any]:
    """As the API server does it."""
    found = {}
    for part in ("labels", "annotations"):
        row = {**metadata.get(part, {}), **(patch or {}).get(part, {})}
        found[part] = {key: value for key, value in row.items() if value is not None}
    return found


@pytest.mark.parametrize(
    ("enabled", "labels", "expected"),
    [
        pytest.param(False, {}, None, id="not asked for"),
        pytest.param(True, {"team": "ml"}, ALL, id="all three are missing"),
        pytest.param(True, ALL, None, id="all are there"),
        pytest.param(True, {**ALL, ENFORCE: "restricted"}, {ENFORCE: "privileged"}, id="one says otherwise"),
        pytest.param(False, ALL, None, id="taken back: what was set stays, as in the original"),
    ],
)
def test_the_namespace_gets_the_labels_that_it_lacks(
    enabled: bool, labels: dict[str, str], expected: dict[str, str] | None
) -> None:
    patch = labelled(asked(enabled), {"labels": labels})
    assert (patch or {}).get("labels") == expected


@pytest.mark.parametrize(
    "before",
    [
        pytest.param({}, id="none was there"),
        pytest.param({ENFORCE: "baseline", WARN: "restricted", "team": "ml"}, id="other levels"),
        pytest.param({ENFORCE: "privileged", AUDIT: "baseline"}, id="one is as we would write it"),
        pytest.param(ALL, id="all are"),
    ],
)
def test_what_was_written_is_given_back_for_what_was_there_before(before: dict[str, str]) -> None:
    metadata = {"labels": before, "annotations": {"mine": "x"}}

    written = merged(metadata, labelled(asked(True), metadata))
    assert labelled(asked(True), written) is None
    assert merged(written, given_back(written)) == metadata


def test_a_label_that_somebody_has_changed_since_is_his() -> None:
    written = merged({}, labelled(asked(True), {}))
    written["labels"] = {**written["labels"], ENFORCE: "baseline"}

    assert merged(written, given_back(written)) == {"labels": {ENFORCE: "baseline"}, "annotations": {}}


@pytest.mark.parametrize("note", ["", "[]", "{", '{"kubernetes.io/metadata.name": null}', "[" * 5000])
def test_a_note_that_was_spoiled_takes_nothing_away_but_itself(note: str) -> None:
    assert given_back({"labels": ALL, "annotations": {NOTE: note}}) == {"annotations": {NOTE: None}}
    assert given_back({"labels": ALL}) is None


@pytest.mark.parametrize("value", ["not a label!", "x" * 64, "-a", "a\n"])
def test_what_can_be_no_label_keeps_the_others_from_nothing(value: str) -> None:
    """The API server would refuse the whole patch, at every attempt."""
    note = json.dumps({ENFORCE: value, AUDIT: "baseline", WARN: ""})

    found = given_back({"labels": ALL, "annotations": {NOTE: note}})

    assert found == {"labels": {AUDIT: "baseline", WARN: ""}, "annotations": {NOTE: None}}


def namespace(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "gpu-operator", "uid": "n", **metadata}}


async def test_the_labels_are_written_before_the_pods_that_need_them_and_go_when_no_policy_is_left() -> None:
    wanted = policy()
    wanted["spec"]["psa"] = {"enabled": True}
    api = FakeApi(clusterpolicies=[wanted], namespaces=[namespace()])
    async with blind_controller(api) as made:
        await passes(made)
    assert api.sent[0] == "patch namespaces gpu-operator"

    api = FakeApi(namespaces=[namespace(labels=ALL, annotations={NOTE: f'{{"{ENFORCE}":null}}'})])
    async with blind_controller(api) as made:
        await passes(made)
    assert api.sent == ["patch namespaces gpu-operator"]


async def test_a_namespace_that_cannot_be_labelled_is_told_in_the_status() -> None:
    wanted = policy()
    wanted["spec"]["psa"] = {"enabled": True}
    api = FakeApi(clusterpolicies=[wanted], namespaces=[namespace()])
    api.refuse["gpu-operator"] = error_of(403, {"message": "namespaces is forbidden"})

    async with blind_controller(api) as made:
        await passes(made)

    said = next(row for row in api.written["conditions"] if row["type"] == "Error")
    assert said["reason"] == "ReconcileFailed"
    assert "Namespace/gpu-operator: namespaces is forbidden" in said["message"]
