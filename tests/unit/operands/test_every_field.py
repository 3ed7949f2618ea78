"""No field of a policy is silently ignored: it changes an object, or somebody says that it does nothing.

Walks the whole schema. Each policy has everything switched on, so that no field is without
effect for a switch that is off.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicySpec
from gpuready.api.openapi import Schema, schema_of
from gpuready.controller.policy.active import read
from gpuready.controller.policy.plan import Plan, plan_of
from gpuready.operands.contract import ClusterView, NodeFacts
from gpuready.operands.registry import NOT_IMPLEMENTED, OPERANDS

SCHEMA = schema_of(ClusterPolicySpec)
CONFIGS = {name: {"file.conf": "x", "other": "y"} for name in ("files", "other")}
NODE = NodeFacts(
    "g1",
    {
        names.DEPLOY_DRIVER: "true",
        names.OS_ID_LABEL: "ubuntu",
        names.OS_VERSION_LABEL: "22.04",
        names.KERNEL_LABEL: "5.15.0-116-generic",
    },
    runtime="containerd://1.7.24",
)
VIEW = ClusterView("gpu-operator", "own:1", (NODE,), configs=CONFIGS, service_monitors=True)

# What the controller itself does with a field, beside the objects.
BY_THE_CONTROLLER = {
    "migManager.config.default": "labels nodes",
    "psa.enabled": "labels the operator's namespace",
    "devicePlugin.config.name": "resolved for each node, in GPUNode.spec",
    "devicePlugin.config.default": "resolved for each node, in GPUNode.spec",
    "gfd.enabled": "tells the node agent, in GPUNode.spec",
    "gpuready.toolkit.maxUnavailable": "decides whose turn it is, in GPUNode.spec",
}
# Where another field of these policies decides.
BY_ANOTHER_FIELD = {
    "gpuready.images": "in a policy that names no image there is nothing to choose",
}
IMAGE = {"repository": "nvcr.io/nvidia", "image": "an-image", "version": "v1"}
NAMED = ("driver", "toolkit", "devicePlugin", "dcgm", "dcgmExporter", "nodeStatusExporter", "gfd")
NAMED += ("migManager", "validator", "gds", "gdrcopy")


def everything() -> dict[str, Any]:
    """Every switch on that another field waits for."""
    return {
        "driver": {
            "rdma": {"enabled": True},
            "licensingConfig": {"secretName": "licence"},
            "manager": {"imagePullPolicy": "Always"},
        },
        "operator": {"metrics": {"serviceMonitor": {"enabled": True}}},
        "gds": {"enabled": True},
        "gdrcopy": {"enabled": True},
        "dcgm": {"enabled": True},
        "nodeStatusExporter": {"enabled": True},
        "dcgmExporter": {
            "serviceMonitor": {"enabled": True},
            "hpcJobMapping": {"enabled": True},
            "enablePodLabels": True,
        },
        "gpuready": {},
    }


def original_policy() -> dict[str, Any]:
    spec = everything()
    for block in NAMED:
        spec[block] = {**IMAGE, **spec.get(block, {})}
    spec["driver"]["manager"] = {**IMAGE, **spec["driver"]["manager"]}
    return spec


def own_where_there_is_one() -> dict[str, Any]:
    return {**original_policy(), "gpuready": {"images": "own"}}


POLICIES = {
    "no image is named": everything,
    "all images are named": original_policy,
    "ours where there is one": own_where_there_is_one,
}


def leaves(schema: Schema, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Schema]]:
    properties = schema.get("properties")
    if not properties:
        yield ".".join(path), schema
        return
    for name, inner in properties.items():
        yield from leaves(inner, (*path, name))


def value_at(spec: dict[str, Any], path: str) -> Any:
    for name in path.split("."):
        spec = spec.get(name, {}) if isinstance(spec, dict) else {}
    return None if spec == {} else spec


def changed(spec: dict[str, Any], path: str, schema: Schema) -> dict[str, Any]:
    result = copy.deepcopy(spec)
    inner = result
    *parents, last = path.split(".")
    for name in parents:
        inner = inner.setdefault(name, {})
    inner[last] = another(schema, value_at(spec, path), last)
    return result


def another(schema: Schema, now: Any, name: str) -> Any:
    """A valid value that is not the present one, nor what absence means."""
    if "enum" in schema:
        present = schema.get("default") if now is None else now
        return max(value for value in schema["enum"] if value != present)
    if schema.get("x-kubernetes-int-or-string") or name == "maxUnavailable":
        return "33%"
    kind = schema.get("type", "object")
    if kind == "boolean":
        present = now if now is not None else schema.get("default", "absent means true" in _doc(schema))
        return not present
    if kind == "array":
        item = schema["items"]
        return ["other"] if item.get("type") == "string" else [_item(item)]
    if kind == "object":
        return _map(schema, name)
    if kind == "integer":
        return 7
    return _text(schema, name)


def _map(schema: Schema, name: str) -> dict[str, Any]:
    if name in ("limits", "requests"):
        return {"memory": "1Gi"}
    values = schema.get("additionalProperties")
    return {"other": "x"} if isinstance(values, dict) else {"runAsUser": 7}


def _doc(schema: Schema) -> str:
    return str(schema.get("description", ""))


def _text(schema: Schema, name: str) -> str:
    if "ms" in schema.get("pattern", "x"):
        return "44s"
    if name == "imagePullPolicy":
        return "Never"
    return (
        "/other"
        if name in ("rootFS", "driverInstallDir", "kubeletRootDir", "installDir", "root")
        else "other"
    )


def _item(schema: Schema) -> dict[str, Any]:
    return {name: "OTHER" for name, inner in schema["properties"].items() if inner.get("type") == "string"}


def is_said_to_do_nothing(path: str, *plans: Plan) -> bool:
    """Before the change or after it: one of the two values may be as if nothing were said."""
    rows = [each for plan in plans for each in plan.without_effect]
    said = [each.removeprefix("spec.").partition(":")[0] for each in rows]
    return any(path == prefix or path.startswith(f"{prefix}.") for prefix in said)


def belongs_to_what_is_not_implemented(path: str, *plans: Plan) -> bool:
    fields = [field for planned in NOT_IMPLEMENTED for field in planned.fields]
    missing = {name for plan in plans for name in plan.not_implemented}
    fields += [each.component for each in OPERANDS if each.name in missing]
    return any(path == field or path.startswith(f"{field}.") for field in fields)


@pytest.mark.parametrize("which", POLICIES)
def test_every_field_changes_an_object_or_is_said_to_do_nothing(which: str) -> None:
    """And none is said to do nothing that does something."""
    spec = POLICIES[which]()
    before = planned(spec)
    silent, wrong = [], []
    for path, schema in leaves(SCHEMA):
        if belongs_to_what_is_not_implemented(path, before):
            continue  # which the status says
        after = find_plan(changed(spec, path, schema))
        if after is None:
            continue  # a contradiction, which is said
        is_said = is_said_to_do_nothing(path, before, after)
        if after.objects != before.objects:
            wrong += [path] if is_said else []
        elif not (
            is_said
            or path in BY_THE_CONTROLLER
            or path in BY_ANOTHER_FIELD
            or belongs_to_what_is_not_implemented(path, before, after)
        ):
            silent.append(path)
    assert silent == []
    # It takes the driver away; what should come in its place is not there yet.
    assert set(wrong) <= {"driver.useNvidiaDriverCRD"}


def find_plan(spec: dict[str, Any]) -> Plan | None:
    active = read({"metadata": {"name": "p", "uid": "u"}, "spec": spec})
    return plan_of(active, active.policy, VIEW) if active.policy else None


def planned(spec: dict[str, Any]) -> Plan:
    found = find_plan(spec)
    assert found is not None
    return found


OVERRULED = {
    "driver.repoConfig": ({"driver": {"usePrecompiled": True, "repoConfig": {"configMapName": "files"}}}),
    "driver.certConfig": {"driver": {"usePrecompiled": True, "certConfig": {"name": "files"}}},
    "driver.secretEnv": {"driver": {"usePrecompiled": True, "secretEnv": "s"}},
    "driver.licensingConfig.configMapName": {
        "driver": {"licensingConfig": {"secretName": "s", "configMapName": "files"}}
    },
    "daemonsets.rollingUpdate.maxUnavailable": {
        "daemonsets": {"updateStrategy": "OnDelete", "rollingUpdate": {"maxUnavailable": "3"}}
    },
    "devicePlugin.config.default": {"devicePlugin": {"config": {"default": "key"}}},
    "dcgmExporter.podLabelAllowlistRegex": {"dcgmExporter": {"podLabelAllowlistRegex": ["^app$"]}},
    "dcgmExporter.hpcJobMapping.directory": {"dcgmExporter": {"hpcJobMapping": {"directory": "/jobs"}}},
    "dcgmExporter.serviceMonitor": {
        "dcgmExporter": {"serviceMonitor": {"additionalLabels": {"release": "prometheus"}}}
    },
    "driver.rdma.useHostMofed": {"driver": {**IMAGE, "rdma": {"useHostMofed": True}}},
    "sandboxWorkloads": {"sandboxWorkloads": {"defaultWorkload": "vm-vgpu"}},
}


@pytest.mark.parametrize("field", OVERRULED)
def test_a_field_that_another_switches_off_is_named_with_that_one(field: str) -> None:
    (row,) = planned(OVERRULED[field]).without_effect
    assert row.startswith(f"spec.{field}: ")
    assert "spec." in row.partition(": ")[2]


def test_a_service_monitor_that_the_api_server_does_not_know_is_named() -> None:
    spec = {"dcgmExporter": {"serviceMonitor": {"enabled": True}}}
    active = read({"metadata": {"name": "p", "uid": "u"}, "spec": spec})
    assert active.policy is not None
    (row,) = plan_of(active, active.policy, replace(VIEW, service_monitors=False)).without_effect
    assert row == (
        "spec.dcgmExporter.serviceMonitor: the API server knows no ServiceMonitor "
        "(monitoring.coreos.com/v1) yet; install Prometheus' CRDs to have it"
    )
    assert planned(spec).without_effect == ()


def test_a_policy_that_says_nothing_has_no_field_without_effect() -> None:
    assert planned({}).without_effect == ()
