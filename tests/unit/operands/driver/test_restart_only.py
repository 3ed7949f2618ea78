"""Restart-only: which fields of the policy install the driver anew, field by field; every one is walked.

`docs/reference/driver-changes.md` is this table for users. A field that is not in it fails here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuready import names
from gpuready.api.crd import all_crds
from gpuready.api.policy import parse_policy
from gpuready.operands.contract import ClusterView, NodeFacts
from gpuready.operands.driver.digest import shown_config
from gpuready.operands.driver.operand import OPERAND
from gpuready.operands.site import fitted

Object = dict[str, Any]
PAGE = Path(__file__).parents[4] / "docs/reference/driver-changes.md"
REINSTALLS, NEXT_POD, NOTHING = "installs the driver anew", "reaches the next pod", "changes no pod"
# Blocks of the policy that the driver's pod is made of.
BLOCKS = ("driver", "gds", "gdrcopy", "hostPaths")
# Everything on, so that each field has something to change.
IMAGE = {"repository": "example.org/nvidia", "image": "driver", "version": "570.86.10"}
BASE: Object = {
    "driver": {
        **IMAGE,
        "manager": {**IMAGE, "image": "manager"},
        "rdma": {"enabled": True},
        "licensingConfig": {"secretName": "licence"},
    },
    "gds": {**IMAGE, "image": "gds", "enabled": True},
    "gdrcopy": {**IMAGE, "image": "gdrcopy", "enabled": True},
}
# What a plain "something else" of the type would not be valid, or change nothing.
OTHERWISE: Mapping[str, Any] = {
    "driver.enabled": None,  # takes the driver away: not a change of it
    "driver.useNvidiaDriverCRD": None,
    "driver.version": "570.124.06",
    "driver.kernelModuleType": "open",
    **{f"{block}.imagePullPolicy": "Always" for block in ("driver", "driver.manager", "gds", "gdrcopy")},
    "driver.upgradePolicy.maxUnavailable": "50%",
    "hostPaths.rootFS": "/other",
    "hostPaths.driverInstallDir": "/other",
    "hostPaths.kubeletRootDir": "/other",
}
# Fields that others forbid, with what must be off for them.
WITHOUT: Mapping[str, tuple[str, ...]] = {
    "driver.usePrecompiled": ("gds", "gdrcopy"),
    "driver.licensingConfig.configMapName": ("driver.licensingConfig",),
}
VIEW = ClusterView(
    "gpu-operator",
    "own:1",
    (
        NodeFacts(
            "g1",
            {
                names.DEPLOY_DRIVER: "true",
                names.OS_ID_LABEL: "ubuntu",
                names.OS_VERSION_LABEL: "22.04",
                names.KERNEL_LABEL: "5.15.0-130-generic",
            },
        ),
    ),
    configs={"other": {"key": "text"}},
)


def fields() -> list[tuple[str, Object]]:
    """(path under spec, its schema) of every leaf of those blocks."""
    policy = next(crd for crd in all_crds() if crd["spec"]["names"]["kind"] == "ClusterPolicy")
    spec = policy["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return [row for block in BLOCKS for row in _leaves(spec[block], block)]


def _leaves(schema: Object, path: str) -> Iterator[tuple[str, Object]]:
    if not schema.get("properties"):
        yield path, schema
    for name, inner in (schema.get("properties") or {}).items():
        yield from _leaves(inner, f"{path}.{name}")


def another_value(path: str, schema: Object) -> Any:
    if path in OTHERWISE:
        return OTHERWISE[path]
    match schema["type"]:
        case "boolean":
            return not value_at(BASE, path)
        case "integer":
            return 7
        case "string":
            return "other"
        case "object":
            return {"cpu": "1"}
        case "array" if schema["items"]["type"] == "object":
            return [{"name": "OTHER", "value": "1"}]
        case _:
            return ["other"]


def value_at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def changed(spec: Object, path: str, value: Any) -> Object:
    found = copy.deepcopy(spec)
    *steps, last = path.split(".")
    inner = found
    for step in steps:
        inner = inner.setdefault(step, {})
    inner[last] = value
    return found


def template_of(spec: Object) -> Object:
    policy = parse_policy({"spec": spec})
    (daemonset,) = [obj for obj in OPERAND.objects(policy, VIEW) if obj["kind"] == "DaemonSet"]
    template: Object = fitted(daemonset, policy)["spec"]["template"]
    return template


def outcome_of(path: str, schema: Object) -> str:
    base = copy.deepcopy(BASE)
    for other in WITHOUT.get(path, ()):
        base = changed(base, other, {})
    value = another_value(path, schema)
    if value is None:
        return "takes the driver away"
    before, after = template_of(base), template_of(changed(base, path, value))
    if before["metadata"]["labels"] != after["metadata"]["labels"]:
        return REINSTALLS
    return NEXT_POD if before != after else NOTHING


@pytest.mark.parametrize(("path", "schema"), fields(), ids=[path for path, _ in fields()])
def test_a_pod_shows_what_installs_a_driver_anew_and_nothing_else(path: str, schema: Object) -> None:
    """The original's pods carry no digest of ours: what they were told stands in their spec.

    A registry may be a mirror that somebody wrote into the pod.
    """
    base = copy.deepcopy(BASE)
    for other in WITHOUT.get(path, ()):
        base = changed(base, other, {})
    value = another_value(path, schema)
    if value is None:
        return
    before, after = (template_of(spec)["spec"] for spec in (base, changed(base, path, value)))
    is_shown = documented()[path] == REINSTALLS and not path.endswith(".repository")
    assert (shown_config(before) != shown_config(after)) == is_shown


def documented() -> dict[str, str]:
    rows = [
        line.strip("| \n").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")
    ]
    return {field.strip("`"): outcome for field, outcome in rows}


@pytest.mark.parametrize(("path", "schema"), fields(), ids=[path for path, _ in fields()])
def test_each_field_does_to_a_driver_what_the_reference_says(path: str, schema: Object) -> None:
    assert documented().get(path) == outcome_of(path, schema)


def test_the_reference_names_no_field_that_is_not_there() -> None:
    assert list(documented()) == [path for path, _ in fields()]


def test_what_is_not_the_drivers_own_never_installs_it_anew() -> None:
    """Of all DaemonSets alike, and of the site: the driver stays loaded whoever changes these."""
    others = {
        "daemonsets": {
            "labels": {"a": "b"},
            "annotations": {"a": "b"},
            "tolerations": [{"operator": "Exists", "key": "team"}],
            "priorityClassName": "other",
        },
        "gpuready": {
            "registry": "mirror.example.com",
            "imagePullSecrets": ["other"],
            "certConfig": {"name": "other"},
            "images": "own",
        },
        "hostPaths": {"rootFS": "/host"},
        "validator": {"version": "v2"},
        "toolkit": {"version": "v2"},
        "mig": {"strategy": "mixed"},
    }
    label = names.DRIVER_CONFIG_LABEL
    bare = {"driver": {**IMAGE, "env": [{"name": "A", "value": "1"}]}}
    before = template_of(bare)
    for block, settings in others.items():
        after = template_of({**bare, block: settings})
        assert after["metadata"]["labels"][label] == before["metadata"]["labels"][label], block
        assert shown_config(after["spec"]) == shown_config(before["spec"]), block
