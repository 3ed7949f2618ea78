"""Brings objects into the form of the records, so that two of them can be compared field by field.

Rules 1 to 3 of the recording: what the API server adds is dropped, defaults are dropped where equal, hashes
and scripts are placeholders. See records/README.md.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpuready.yaml_text import parse_yaml, parse_yaml_documents

RECORDS = Path(__file__).parent / "records"
SCRIPT = "<script>"
Object = dict[str, Any]
Key = tuple[str, str]


@functools.cache
def record_objects(record: str) -> dict[Key, Object]:
    """Read once for all tests, which change copies of it only."""
    return by_key(parse_yaml_documents((RECORDS / record / "objects.yaml").read_text()))


def by_key(objects: list[Object]) -> dict[Key, Object]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


def normal(obj: Object) -> Object:
    """Both sides go through this: a record's object is in that form already, save scripts and hashes."""
    result = _without_ours(_copied(obj))
    for path, value in _defaults().get(obj["kind"], {}).items():
        _drop_default(result, path.split("."), value, result)
    _mask(result)
    return result


def differences(ours: Object, theirs: Object) -> dict[str, tuple[Any, Any]]:
    """path -> (ours, theirs); None for what is not there. Lists are compared in order, env by name."""
    return {path: pair for path, pair in _walk(ours, theirs, "") if pair[0] != pair[1]}


# --- ours -----------------------------------------------------------------------------------------------


def _without_ours(obj: Object) -> Object:
    """Marks by which gpuready finds its objects again, in the one domain that is ours."""
    for metadata in (obj["metadata"], obj.get("spec", {}).get("template", {}).get("metadata", {})):
        for name in ("labels", "annotations"):
            if name in metadata:
                kept = {k: v for k, v in metadata[name].items() if not k.startswith("gpuready.dev/")}
                metadata[name] = {k: v for k, v in kept.items() if v != "<hash>"}
                if not metadata[name]:
                    del metadata[name]
    for owner in obj["metadata"].get("ownerReferences", []):
        owner.pop("uid", None)
    return obj


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


# --- defaults -------------------------------------------------------------------------------------------


@functools.cache
def _defaults() -> dict[str, dict[str, Any]]:
    loaded: dict[str, dict[str, Any]] = parse_yaml((RECORDS / "defaults.yaml").read_text())
    return loaded


def _drop_default(node: Any, path: list[str], value: Any, whole: Object) -> None:
    name, rest = path[0].removesuffix("[*]"), path[1:]
    if not isinstance(node, dict) or name not in node:
        return
    if not rest:
        if node[name] == _meant(value, node, whole):
            del node[name]
        return
    for each in node[name] if path[0].endswith("[*]") else [node[name]]:
        _drop_default(each, rest, value, whole)


def _meant(value: Any, node: Object, whole: Object) -> Any:
    if value == "<same as serviceAccountName>":
        return node.get("serviceAccountName")
    if value == "<same as port>":
        return node.get("port")
    if isinstance(value, str) and value.startswith("<same as containerPort>"):
        pod = whole["spec"]["template"]["spec"]
        return node.get("containerPort") if pod.get("hostNetwork") else object()
    return value


# --- placeholders ---------------------------------------------------------------------------------------


def _mask(obj: Object) -> None:
    """Long shell texts and the contents of the operator's ConfigMaps are not stored in the records."""
    if obj["kind"] == "ConfigMap":
        obj["data"] = dict.fromkeys(obj["data"], "<text>")
    pod = obj.get("spec", {}).get("template", {}).get("spec", {}) if obj["kind"] == "DaemonSet" else {}
    for container in [*pod.get("initContainers", []), *pod.get("containers", [])]:
        container["args"] = [_masked(arg) for arg in container.get("args", [])]
        for row in container.get("env", []):
            if row["name"] == "DRIVER_CONFIG_DIGEST":
                row["value"] = "<digest>"


def _masked(text: str) -> str:
    return SCRIPT if len(text) > 60 or text.startswith("<script") else text


# --- walking --------------------------------------------------------------------------------------------


def _walk(ours: Any, theirs: Any, path: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in {**ours, **theirs}:
            yield from _walk(ours.get(key), theirs.get(key), f"{path}.{key}" if path else str(key))
    elif _are_named(ours) and _are_named(theirs):
        names = [[each["name"] for each in rows] for rows in (ours, theirs)]
        if not path.endswith("env") and names[0] != names[1]:
            yield f"{path}[order]", (names[0], names[1])
        yield from _walk(_by_name(ours), _by_name(theirs), path)
    else:
        yield path, (ours, theirs)


def _are_named(rows: Any) -> bool:
    """A list whose entries have names of their own; a volume may be mounted twice, so mounts are not."""
    named = (
        isinstance(rows, list) and bool(rows) and all(isinstance(e, Mapping) and "name" in e for e in rows)
    )
    return named and len({each["name"] for each in rows}) == len(rows)


def _by_name(rows: list[Object]) -> dict[str, Object]:
    return {each["name"]: each for each in rows}
