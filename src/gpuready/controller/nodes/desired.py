"""What the control plane wants of one node: GPUNode.spec from policy, ConfigMap and node label.

Pure. A configuration that is missing or wrong never replaces a good one: the last good stays in the spec,
beside an error that lists what was asked for and what there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.api.plugin_config import parse_plugin_config
from gpuready.chain.wording import bounded, nearest
from gpuready.errors import PolicyError
from gpuready.kube.compare import digest
from gpuready.operands.contract import Refusal

Spec = dict[str, Any]
_MOST_KEYS = 10  # of a ConfigMap, that are named to a node which asks for another


@dataclass(frozen=True)
class ConfigSource:
    """The ConfigMap that the policy names for the device plugin.

    data         key -> text; None when the ConfigMap does not exist
    unreadable   why nobody can say whether it does, in the server's words
    """

    name: str
    data: Mapping[str, str] | None
    namespace: str = names.OPERATOR_NAMESPACE
    unreadable: str = ""
    _read: dict[str, Spec] = field(default_factory=dict, init=False, repr=False, compare=False)
    _nearest: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    def read(self, key: str) -> Spec:
        """The accepted configuration under this key, or {"error": …}; many nodes ask, it is read once."""
        if key not in self._read:
            self._read[key] = self._parsed(key)
        return self._read[key]

    def nearest_to(self, key: str) -> list[str]:
        """A ConfigMap may have thousands of keys; what a node is told of must fit into its GPUNode."""
        if key not in self._nearest:
            self._nearest[key] = nearest(key, self.data or {}, _MOST_KEYS)
        return self._nearest[key]

    def _parsed(self, key: str) -> Spec:
        try:
            config = parse_plugin_config((self.data or {})[key])
        except PolicyError as exc:
            why = f" ({exc.why})" if exc.why else ""
            text = f"ConfigMap {self.full_name}, key {key!r}: {exc.what}{why}"
            return {"error": _error("ConfigInvalid", text, exc.next_step or "correct the text")}
        return _accepted(key, config.to_json())


def desired_spec(
    policy: ClusterPolicy,
    node_labels: Mapping[str, str],
    source: ConfigSource | None,
    current: Mapping[str, Any],
    *,
    runs_plugin: bool,
    runs_original_plugin: bool = False,
    writes_gates: bool = True,
    proves_cuda: bool = True,
    driver_trouble: Spec | None = None,
    plugin_refusal: Refusal | None = None,
    toolkit: Spec | None = None,
    writes_feature_labels: bool,
) -> Spec:
    """The whole GPUNode.spec.

    source    None when the policy names no ConfigMap
    current   the spec as it is now: the last good configuration is taken from here
    driver_trouble   what keeps the driver there from being the one that the policy asks for
    runs_plugin, runs_original_plugin   ours, or NVIDIA's, of which the node sees only what it achieves
    writes_gates     False where NVIDIA's validator does
    proves_cuda      False where the policy lets no program be run on GPUs
    toolkit          what is wanted of the container toolkit; None = it is not ours to say
    plugin_refusal   why the device plugin that the policy asks for is not run; the node says so
    """
    return {
        "driver": {
            "enabled": policy.spec.driver.enabled,
            "version": policy.spec.driver.version,
            **({"trouble": driver_trouble} if driver_trouble else {}),
        },
        "devicePlugin": {
            "enabled": runs_plugin,
            **({"original": True} if runs_original_plugin else {}),
            **({"refused": plugin_refusal.to_json()} if plugin_refusal else {}),
            **_plugin_config(policy, node_labels, source, current.get("devicePlugin") or {}),
        },
        **({"toolkit": toolkit} if toolkit else {}),
        "featureLabels": {"enabled": writes_feature_labels},
        **({} if writes_gates else {"gates": {"enabled": False}}),
        **({} if proves_cuda else {"cuda": {"enabled": False}}),
        "uninstall": False,
    }


def _plugin_config(
    policy: ClusterPolicy,
    node_labels: Mapping[str, str],
    source: ConfigSource | None,
    last: Mapping[str, Any],
) -> Spec:
    asked = node_labels.get(names.PLUGIN_CONFIG_LABEL, "")
    if source is None:
        if asked:
            error = _error(
                "ConfigNotNamed",
                f"the node asks for the sharing configuration {asked!r}, but the policy names no ConfigMap",
                "set spec.devicePlugin.config.name, or remove the node label " + names.PLUGIN_CONFIG_LABEL,
            )
            return _kept(last, error, asked, [])
        return _accepted("", {"version": "v1"})
    key = (
        asked or (policy.spec.device_plugin.config.default if policy.spec.device_plugin.config else "") or ""
    )
    if source.unreadable:
        error = _error(
            "ConfigMapUnreadable",
            f"the ConfigMap {source.full_name} cannot be read: {source.unreadable}",
            "give the operator back its rules: gpuready rbac | kubectl apply --server-side -f -",
        )
        return _kept(last, error, key, [])
    available = source.nearest_to(key)
    if source.data is None:
        error = _error(
            "ConfigMapMissing",
            f"there is no ConfigMap {source.full_name}, which spec.devicePlugin.config names"
            + (f"; its key {key!r} is asked for" if key else ""),
            f"kubectl create configmap -n {source.namespace} {source.name} "
            f"--from-file={key or 'KEY'}=FILE, or correct spec.devicePlugin.config.name",
        )
        return _kept(last, error, key, available)
    if not key:
        return _accepted("", {"version": "v1"})
    if key not in source.data:
        error = _error(
            "ConfigKeyMissing",
            f"the ConfigMap {source.full_name} has no key {key!r}; it has "
            + _listed(available, len(source.data)),
            f"correct the node label {names.PLUGIN_CONFIG_LABEL}"
            if asked
            else "correct spec.devicePlugin.config.default",
        )
        return _kept(last, error, key, available)
    read = source.read(key)
    return read if "error" not in read else _kept(last, read["error"], key, available)


def _accepted(key: str, config: Spec) -> Spec:
    return {"config": config, "configName": key, "configDigest": digest(config), "requested": key}


def _kept(last: Mapping[str, Any], error: Spec, asked: str, available: list[str]) -> Spec:
    """The last good configuration, with the reason why it is not the one asked for."""
    good = {name: last[name] for name in ("config", "configName", "configDigest") if last.get(name)}
    return {**good, "error": error, "requested": asked, "available": available}


def _error(reason: str, message: str, next_step: str) -> Spec:
    return {"reason": reason, "message": bounded(message), "nextStep": bounded(next_step)}


def _listed(keys: list[str], of: int) -> str:
    if not keys:
        return "no keys at all"
    more = of - len(keys)
    return ", ".join(repr(key) for key in keys) + (f" and {more} more" if more > 0 else "")
