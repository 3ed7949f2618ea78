"""A container's environment as the kubelet composes it. Pure.

Order and overriding: service variables, then envFrom, then env; `$(NAME)` in a value names an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpuready_sim.runtime.errors import ConfigError

Object = Mapping[str, Any]
Data = Callable[[str, str], Mapping[str, str] | None]  # (kind, name) -> texts by key; None = absent

_REFERENCE = re.compile(r"\$(\$|\(([A-Za-z_.-][A-Za-z0-9_.-]*)\))")
_LABEL = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def compose(container: Object, pod: Object, services: Mapping[str, str], data: Data) -> dict[str, str]:
    """The environment; raises ConfigError for a missing ConfigMap, Secret, key or field."""
    env = dict(services)
    for source in container.get("envFrom") or []:
        env |= _from_source(source, pod, data)
    for entry in container.get("env") or []:
        value = _value_of(entry, container, pod, env, data)
        if value is not None:
            env[entry["name"]] = value
    return env


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value; unknown names stay, `$$` is a dollar sign."""

    def replacement(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return env.get(match[2], match[0])

    return _REFERENCE.sub(replacement, text)


def references(containers: Iterable[Object]) -> set[tuple[str, str]]:
    """(kind, name) of every ConfigMap and Secret that the environments of these containers need."""
    found: set[tuple[str, str]] = set()
    for container in containers:
        for source in container.get("envFrom") or []:
            for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                if field in source:
                    found.add((kind, source[field]["name"]))
        for entry in container.get("env") or []:
            for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
                reference = (entry.get("valueFrom") or {}).get(field)
                if reference:
                    found.add((kind, reference["name"]))
    return found


def field_of(pod: Object, path: str) -> str:
    """A field of the downward API as text; raises ConfigError for one that does not exist."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    labelled = _LABEL.fullmatch(path)
    if labelled:
        return str((meta.get(labelled[1]) or {}).get(labelled[2], ""))
    values: dict[str, Any] = {
        "metadata.name": meta.get("name"),
        "metadata.namespace": meta.get("namespace"),
        "metadata.uid": meta.get("uid"),
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.hostIP": status.get("hostIP"),
        "status.hostIPs": status.get("hostIP"),
        "status.podIP": status.get("podIP"),
        "status.podIPs": status.get("podIP"),
    }
    if path not in values:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return str(values[path] or "")


def _from_source(source: Object, pod: Object, data: Data) -> dict[str, str]:
    prefix = source.get("prefix", "")
    for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        reference = source.get(field)
        if reference is None:
            continue
        texts = data(kind, reference["name"])
        if texts is None and not reference.get("optional"):
            raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
        return {prefix + key: value for key, value in (texts or {}).items()}
    return {}


def _value_of(
    entry: Object, container: Object, pod: Object, env: Mapping[str, str], data: Data
) -> str | None:
    source = entry.get("valueFrom")
    if not source:
        return expand(entry.get("value") or "", env)
    if "fieldRef" in source:
        return field_of(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return _resource_of(container, source["resourceFieldRef"]["resource"])
    for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if field in source:
            return _key_of(kind, source[field], pod, data)
    raise ConfigError(f"valueFrom of {entry['name']} names no source that is supported")


def _key_of(kind: str, reference: Object, pod: Object, data: Data) -> str | None:
    texts = data(kind, reference["name"])
    optional = reference.get("optional", False)
    if texts is None and not optional:
        raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
    if reference["key"] in (texts or {}):
        return (texts or {})[reference["key"]]
    if optional:
        return None
    where = f"{pod['metadata']['namespace']}/{reference['name']}"
    raise ConfigError(f"couldn't find key {reference['key']} in {kind} {where}")


def _resource_of(container: Object, resource: str) -> str:
    group, _, name = resource.partition(".")
    return str(((container.get("resources") or {}).get(group) or {}).get(name, "0"))
