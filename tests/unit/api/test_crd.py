"""The CRDs as an API server must be able to take them: structural, complete, up to date."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuready.api import crd, reference
from gpuready.api.clusterpolicy import ClusterPolicySpec
from gpuready.api.openapi import schema_of
from gpuready.api.policy_status import PolicyStatus
from gpuready.api.validation import find_violations


def nested(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nested(inner, f"{path}.{name}")
    for member in ("items", "additionalProperties"):
        if isinstance(schema.get(member), dict):
            yield from nested(schema[member], f"{path}.{member}")


SCHEMAS = {
    each["metadata"]["name"]: each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for each in crd.all_crds()
}


def test_every_schema_is_structural() -> None:
    for name, root in SCHEMAS.items():
        for path, schema in nested(root):
            where = f"{name}{path}"
            assert not {"$ref", "anyOf", "title", "const"} & schema.keys(), where
            assert ("type" in schema) != bool(schema.get("x-kubernetes-int-or-string")), where
            assert not ("properties" in schema and "additionalProperties" in schema), where
            assert ("x-kubernetes-list-type" in schema) == (schema.get("type") == "array"), where
            keys = schema.get("x-kubernetes-list-map-keys", [])
            assert set(keys) <= set(schema.get("items", {}).get("required", ())), where


def test_every_field_is_described() -> None:
    for root in SCHEMAS.values():
        for path, schema in nested({"properties": {"spec": root["properties"]["spec"]}}):
            if path and not path.endswith((".items", ".additionalProperties")):
                assert schema.get("description"), path


def test_every_default_fits_its_own_schema() -> None:
    for root in SCHEMAS.values():
        for path, schema in nested(root):
            if "default" in schema:
                assert list(find_violations(schema["default"], schema, path)) == []


def test_an_absent_field_means_to_us_what_the_schema_writes_into_it() -> None:
    empty = msgspec.convert({}, ClusterPolicySpec)
    full = msgspec.convert(with_defaults({}, schema_of(ClusterPolicySpec)), ClusterPolicySpec)

    assert full == empty


def with_defaults(value: Any, schema: dict[str, Any]) -> Any:
    """What the API server stores for `value`."""
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if name not in value and "default" in inner:
                value[name] = inner["default"]
            if name in value:
                value[name] = with_defaults(value[name], inner)
    return value


def test_the_committed_files_are_what_the_models_say() -> None:
    there = {file.name: file.read_text() for file in crd.FOLDER.glob("*.yaml")}

    assert there == crd.files(), "run: python -m gpuready.api.crd"


def test_the_reference_page_is_what_the_models_say() -> None:
    committed = Path(__file__).parents[3] / "docs/reference/clusterpolicy.md"

    assert committed.read_text() == reference.page(), "run: python -m gpuready.api.reference"


def test_kubectl_shows_the_chain_of_each_node() -> None:
    columns = crd.gpu_node_crd()["spec"]["versions"][0]["additionalPrinterColumns"]

    assert [each["name"].upper() for each in columns] == [
        "DRIVER", "RUNTIME", "PLUGIN", "CUDA", "GPUS", "HEALTHY", "REASON", "AGE",
    ]  # fmt: skip


def test_blocks_that_the_original_requires_are_filled_in() -> None:
    spec = schema_of(ClusterPolicySpec)["properties"]

    required = [
        "operator",
        "daemonsets",
        "driver",
        "toolkit",
        "devicePlugin",
        "dcgmExporter",
        "dcgm",
        "nodeStatusExporter",
        "gfd",
    ]
    assert {name for name in spec if spec[name].get("default") == {}} == set(required)


@pytest.mark.parametrize(
    "path",
    [
        "operator.runtimeClass",
        "operator.use_ocp_driver_toolkit",
        "operator.metrics.serviceMonitor.scrapeTimeout",
        "daemonsets.rollingUpdate.maxUnavailable",
        "daemonsets.podSecurityContext",
        "daemonsets.tolerations",
        "driver.useNvidiaDriverCRD",
        "driver.usePrecompiled",
        "driver.kernelModuleType",
        "driver.startupProbe.failureThreshold",
        "driver.rdma.useHostMofed",
        "driver.upgradePolicy.drain.deleteEmptyDir",
        "driver.manager.env",
        "driver.secretEnv",
        "driver.repoConfig.configMapName",
        "driver.certConfig.name",
        "driver.licensingConfig.nlsEnabled",
        "driver.virtualTopology.config",
        "driver.kernelModuleConfig.name",
        "driver.hostNetwork",
        "toolkit.installDir",
        "devicePlugin.config.default",
        "devicePlugin.mps.root",
        "dcgm.hostPort",
        "dcgmExporter.hostPID",
        "dcgmExporter.serviceMonitor.relabelings",
        "dcgmExporter.hpcJobMapping.directory",
        "dcgmExporter.enablePodUID",
        "dcgmExporter.podLabelAllowlistRegex",
        "mig.strategy",
        "migManager.gpuClientsConfig.name",
        "vgpuManager.driverManager.version",
        "vgpuDeviceManager.config.default",
        "vfioManager.driverManager.image",
        "kataManager.config.runtimeClasses",
        "ccManager.defaultMode",
        "gds.args",
        "gdrcopy.env",
        "validator.vfioPCI.env",
        "sandboxWorkloads.defaultWorkload",
        "cdi.nriPluginEnabled",
        "hostPaths.rootFS",
        "hostPaths.kubeletRootDir",
        "psa.enabled",
        "psp.enabled",
        "gpuready.images",
        "kataSandboxDevicePlugin.resources",
    ],
)
def test_the_originals_field_is_there_under_its_name(path: str) -> None:
    schema = schema_of(ClusterPolicySpec)
    for name in path.split("."):
        schema = schema["properties"][name]

    assert schema


def test_the_status_of_the_original_is_still_accepted() -> None:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Reconciled",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"state": "ready", "namespace": "gpu-operator", "conditions": [condition]}

    assert list(find_violations(status, schema_of(PolicyStatus))) == []
