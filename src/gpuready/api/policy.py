"""Read a ClusterPolicy and say everything that is wrong with it; pure.

`find_problems` lists every violation and contradiction, `parse_policy` gives the model or raises with that
list, `without_effect` names the settings that are accepted and do nothing (yet).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gpuready.api.blocks import ImageRef
from gpuready.api.clusterpolicy import ClusterPolicy, ClusterPolicySpec
from gpuready.api.openapi import Schema, schema_of
from gpuready.api.validation import (
    KEY,
    OBJECT_NAME,
    PolicyProblem,
    find_unknown,
    find_violations,
    is_key,
    is_object_name,
    problem,
)
from gpuready.errors import PolicyError


def parse_policy(obj: Mapping[str, Any]) -> ClusterPolicy:
    """The model of a policy as stored or as written in a file; unknown fields are ignored.

    raises PolicyError when a field cannot be understood; contradictions are `find_problems`' business
    """
    violations = list(find_violations(obj.get("spec"), _spec_schema(), "spec"))
    if violations:
        raise PolicyError(
            "; ".join(each.message for each in violations),
            why="the policy does not follow its schema",
            next_step="correct these fields",
        )
    try:
        return msgspec.convert(_without_nulls(obj), ClusterPolicy)
    except msgspec.ValidationError as exc:
        raise PolicyError(f"the ClusterPolicy cannot be read: {exc}") from exc


def find_problems(obj: Mapping[str, Any]) -> list[PolicyProblem]:
    """Everything wrong with a policy: the schema's violations, and contradictions between its fields."""
    violations = list(find_violations(obj.get("spec"), _spec_schema(), "spec"))
    if violations:
        return violations
    return list(_contradictions(parse_policy(obj).spec))


def find_unknown_fields(obj: Mapping[str, Any]) -> list[str]:
    """Fields that nobody knows, such as misspelt ones; the API server drops them silently."""
    return list(find_unknown(obj.get("spec"), _spec_schema(), "spec"))


@functools.cache
def _spec_schema() -> Schema:
    return schema_of(ClusterPolicySpec)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value if each is not None]
    return value


# --- contradictions -------------------------------------------------------------------------------------


def _contradictions(spec: ClusterPolicySpec) -> Iterator[PolicyProblem]:
    yield from _cdi(spec)
    yield from _precompiled(spec)
    yield from _amounts(spec)
    yield from _paths(spec)
    yield from _images(spec, "spec")
    yield from _plugin_config(spec)


def _cdi(spec: ClusterPolicySpec) -> Iterator[PolicyProblem]:
    """Source: state_manager.go:1150 (v26.3.3); v26.7 adds the toolkit."""
    if not spec.cdi.nri_plugin_enabled:
        return
    for enabled, needed in ((spec.cdi.enabled, "cdi"), (spec.toolkit.enabled, "toolkit")):
        if not enabled:
            path = "spec.cdi.nriPluginEnabled"
            allowed = f"false while spec.{needed}.enabled is false"
            yield problem(path, True, allowed, f"{path}: must be {allowed}")


def _precompiled(spec: ClusterPolicySpec) -> Iterator[PolicyProblem]:
    if not (spec.driver.enabled and spec.driver.use_precompiled):
        return
    for enabled, name in ((spec.gds.enabled, "gds"), (spec.gdrcopy.enabled, "gdrcopy")):
        if enabled:
            path = f"spec.{name}.enabled"
            allowed = "false while spec.driver.usePrecompiled is true"
            yield problem(path, True, allowed, f"{path}: must be {allowed}")


# Nine digits: more would not fit into the API server's 32 bits.
_AMOUNT = re.compile(r"[0-9]{1,9}%?")


def _amounts(spec: ClusterPolicySpec) -> Iterator[PolicyProblem]:
    amounts = {
        "spec.daemonsets.rollingUpdate.maxUnavailable": spec.daemonsets.rolling_update.max_unavailable,
        "spec.driver.upgradePolicy.maxUnavailable": spec.driver.upgrade_policy.max_unavailable,
        "spec.gpuready.toolkit.maxUnavailable": spec.gpuready.toolkit.max_unavailable,
    }
    for path, value in amounts.items():
        if value != "" and not _AMOUNT.fullmatch(str(value)):
            yield problem(path, value, 'a number or a percentage such as "25%"')
    # The API server refuses such a DaemonSet; the driver's own rule may well be 0.
    asked = spec.daemonsets.rolling_update.max_unavailable
    if _AMOUNT.fullmatch(asked) and not _lets_a_rollout_go_on(asked):
        path = "spec.daemonsets.rollingUpdate.maxUnavailable"
        yield problem(path, asked, 'a number from 1, or a percentage from "1%" to "100%"')


def _lets_a_rollout_go_on(amount: str) -> bool:
    number = int(amount.rstrip("%"))
    return number > 0 and (number <= 100 or not amount.endswith("%"))


def _paths(spec: ClusterPolicySpec) -> Iterator[PolicyProblem]:
    paths = {
        "spec.hostPaths.rootFS": spec.host_paths.root_fs,
        "spec.hostPaths.driverInstallDir": spec.host_paths.driver_install_dir,
        "spec.hostPaths.kubeletRootDir": spec.host_paths.kubelet_root_dir,
        "spec.toolkit.installDir": spec.toolkit.install_dir,
        "spec.devicePlugin.mps.root": spec.device_plugin.mps.root,
    }
    for path, value in paths.items():
        if value and (not value.startswith("/") or not value.isprintable() or ".." in value.split("/")):
            yield problem(path, value, 'an absolute path without ".."')


_OF_A_REFERENCE = re.compile(r"[A-Za-z0-9_.:/@-]*")


def _images(block: msgspec.Struct, path: str) -> Iterator[PolicyProblem]:
    """Parts with which no container runtime could pull anything: a blank, a line end, a quote."""
    if getattr(block, "enabled", True) is False:
        return
    for name, in_the_policy in zip(block.__struct_fields__, block.__struct_encode_fields__, strict=True):
        value, where = getattr(block, name), f"{path}.{in_the_policy}"
        if isinstance(value, msgspec.Struct):
            yield from _images(value, where)
        elif _names_an_image(block, name) and not _OF_A_REFERENCE.fullmatch(value):
            yield problem(where, value, "a part of an image's name")


def _names_an_image(block: msgspec.Struct, field: str) -> bool:
    return isinstance(block, ImageRef) and field in ("repository", "image", "version")


def _plugin_config(spec: ClusterPolicySpec) -> Iterator[PolicyProblem]:
    """No pod of ours mounts it, so nothing else would say that it can never be there."""
    config = spec.device_plugin.config
    if not spec.device_plugin.enabled:
        return
    if config.name and not is_object_name(config.name):
        yield problem("spec.devicePlugin.config.name", config.name, OBJECT_NAME)
    if config.default and not is_key(config.default):
        yield problem("spec.devicePlugin.config.default", config.default, KEY)


# --- accepted and without effect ------------------------------------------------------------------------

_DEPRECATED = "deprecated, ignored as in the original"
_NOT_YET = "not implemented yet"
_OF_THE_CHART = "the chart decides this"
# Whoever's images run; the operands' declarations add what depends on that.
_WITHOUT_EFFECT = {
    "operator.defaultRuntime": _DEPRECATED,
    "operator.initContainer": _DEPRECATED,
    "operator.labels": _OF_THE_CHART,
    "operator.annotations": _OF_THE_CHART,
    "operator.metrics.serviceMonitor.enabled": "made wherever the API server knows the kind",
    "operator.use_ocp_driver_toolkit": _NOT_YET,
    "driver.useOpenKernelModules": f"{_DEPRECATED}; see driver.kernelModuleType",
    "driver.useNvidiaDriverCRD": _NOT_YET,
    "dcgm.hostPort": f"{_DEPRECATED}: the port is 5555",
    "cdi.default": _DEPRECATED,
    "psp": _DEPRECATED,
}


def without_effect(policy: ClusterPolicy, more: Mapping[str, str] | None = None) -> list[str]:
    """ "spec.cdi.default: deprecated, …" for each setting that differs from its default and does nothing.

    more   further paths below spec, with why each does nothing
    """
    given = msgspec.to_builtins(policy.spec)
    rows = {**_WITHOUT_EFFECT, **_overruled(policy.spec), **(more or {})}
    return [f"spec.{path}: {why}" for path, why in rows.items() if _is_given(given, path)]


def _overruled(spec: ClusterPolicySpec) -> dict[str, str]:
    """What another field of the same operand switches off, where its writer may not see that."""
    driver, exporter = spec.driver, spec.dcgm_exporter
    installs_packages = "a precompiled driver installs no packages (spec.driver.usePrecompiled)"
    rules = [
        (driver.use_precompiled, "driver.repoConfig", installs_packages),
        (driver.use_precompiled, "driver.certConfig", installs_packages),
        (driver.use_precompiled, "driver.secretEnv", installs_packages),
        (not driver.rdma.enabled, "driver.rdma.useHostMofed", _off("driver.rdma.enabled")),
        (
            bool(driver.licensing_config.secret_name),
            "driver.licensingConfig.configMapName",
            "spec.driver.licensingConfig.secretName wins",
        ),
        (
            spec.daemonsets.update_strategy == "OnDelete",
            "daemonsets.rollingUpdate.maxUnavailable",
            "spec.daemonsets.updateStrategy is OnDelete",
        ),
        (
            not spec.device_plugin.config.name,
            "devicePlugin.config.default",
            "a key of no ConfigMap: spec.devicePlugin.config.name is empty",
        ),
        (
            not exporter.enable_pod_labels,
            "dcgmExporter.podLabelAllowlistRegex",
            _off("dcgmExporter.enablePodLabels"),
        ),
        (
            not exporter.hpc_job_mapping.enabled,
            "dcgmExporter.hpcJobMapping.directory",
            _off("dcgmExporter.hpcJobMapping.enabled"),
        ),
        (
            not exporter.service_monitor.enabled,
            "dcgmExporter.serviceMonitor",
            _off("dcgmExporter.serviceMonitor.enabled"),
        ),
        (
            not spec.sandbox_workloads.enabled,
            "sandboxWorkloads",
            _off("sandboxWorkloads.enabled"),
        ),
    ]
    return {path: why for holds, path, why in rules if holds}


def _off(path: str) -> str:
    return f"spec.{path} is false"


def _is_given(given: Any, path: str) -> bool:
    for name in path.split("."):
        given = given.get(name) if isinstance(given, Mapping) else None
    return _is_set(path, given)


# What a chart writes although it means the same as nothing.
_AS_IF_ABSENT = {
    "imagePullPolicy": "IfNotPresent",
    "devicePlugin.mps.root": "/run/nvidia/mps",
    "daemonsets.rollingUpdate.maxUnavailable": "1",
    "dcgmExporter.hpcJobMapping.directory": "/var/lib/dcgm-exporter/job-mapping",
    "dcgmExporter.serviceMonitor.interval": "15s",
    "sandboxWorkloads.defaultWorkload": "container",
    "sandboxWorkloads.mode": "kubevirt",
}


def _is_set(path: str, value: Any) -> bool:
    """Defaults are left out when a model is written, but empty blocks stay."""
    if isinstance(value, Mapping):
        return any(_is_set(f"{path}.{name}", inner) for name, inner in value.items())
    means_nothing = (_AS_IF_ABSENT.get(key) for key in (path, path.rpartition(".")[2]))
    return value is not None and value != [] and value not in means_nothing
