"""What a runtime would refuse in a CDI spec, told in full. Pure.

A runtime says only that a device is unresolvable; this says which line of which file makes it so.

Source: container-device-interface 1.1, pkg/cdi/container-edits.go, internal/validation; the loader is strict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuready.gpu.cdi.model import VERSIONS, minimal_version
from gpuready.gpu.cdi.qualified import is_device, is_kind

_HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_TEXT, _NUMBER, _TEXTS = "a text", "a whole number", "a list of texts"
_FIELDS: dict[str, dict[str, str]] = {
    "deviceNodes": {
        "path": _TEXT,
        "hostPath": _TEXT,
        "type": _TEXT,
        "major": _NUMBER,
        "minor": _NUMBER,
        "fileMode": _NUMBER,
        "permissions": _TEXT,
        "uid": _NUMBER,
        "gid": _NUMBER,
    },
    "mounts": {"hostPath": _TEXT, "containerPath": _TEXT, "options": _TEXTS, "type": _TEXT},
    "hooks": {"hookName": _TEXT, "path": _TEXT, "args": _TEXTS, "env": _TEXTS, "timeout": _NUMBER},
    "netDevices": {"hostInterfaceName": _TEXT, "name": _TEXT},
}
_NEEDED = {
    "deviceNodes": ("path",),
    "mounts": ("hostPath", "containerPath"),
    "hooks": ("hookName", "path"),
    "netDevices": ("hostInterfaceName", "name"),
}
_RDT = {
    "closID": _TEXT,
    "l3CacheSchema": _TEXT,
    "memBwSchema": _TEXT,
    "schemata": _TEXTS,
    "enableMonitoring": "true or false",
}


def problems_in(spec: Any) -> list[str]:
    """One sentence for each thing that is wrong; [] for a spec that every runtime takes."""
    if not isinstance(spec, Mapping):
        return ["it is not an object"]
    found = list(_top(spec))
    # The version is judged only of what could be read: one wrong type is one problem.
    return found or list(_version(spec))


def _top(spec: Mapping[str, Any]) -> Iterator[str]:
    yield from _unknown(spec, ("cdiVersion", "kind", "annotations", "devices", "containerEdits"), "")
    kind = spec.get("kind")
    if not isinstance(kind, str) or not is_kind(kind):
        yield f"kind {kind!r} is not vendor/class"
    yield from _annotations(spec, "")
    yield from _edits(spec.get("containerEdits") or {}, "containerEdits")
    devices = spec.get("devices")
    if not isinstance(devices, list) or not devices:
        yield "devices: there must be at least one"
        return
    yield from _devices(devices)


def _devices(devices: list[Any]) -> Iterator[str]:
    seen: set[str] = set()
    for number, device in enumerate(devices):
        where = f"devices[{number}]"
        if not isinstance(device, Mapping):
            yield f"{where} is not an object"
            continue
        yield from _unknown(device, ("name", "annotations", "containerEdits"), where)
        name = device.get("name")
        if not isinstance(name, str) or not is_device(name):
            yield f"{where}: name {name!r} is no device name"
        elif name in seen:
            yield f"{where}: the name {name} stands here for the second time"
        else:
            seen.add(name)
        yield from _annotations(device, where)
        edits = device.get("containerEdits")
        if not edits or not (isinstance(edits, Mapping) and any(edits.values())):
            yield f"{where}: a device without containerEdits does nothing"
        else:
            yield from _edits(edits, f"{where}.containerEdits")


def _edits(edits: Any, where: str) -> Iterator[str]:
    if not isinstance(edits, Mapping):
        yield f"{where} is not an object"
        return
    yield from _unknown(edits, ("env", *_FIELDS, "intelRdt", "additionalGids"), where)
    yield from _env(edits.get("env"), where)
    for field, types in _FIELDS.items():
        rows = edits.get(field) or []
        if not isinstance(rows, list):
            yield f"{where}.{field} must be a list"
            continue
        for number, row in enumerate(rows):
            yield from _row(row, types, _NEEDED[field], f"{where}.{field}[{number}]")
            if isinstance(row, Mapping):
                yield from _rules(field, row, f"{where}.{field}[{number}]")
    gids = edits.get("additionalGids") or []
    if not isinstance(gids, list) or not all(_is(_NUMBER, gid) and 0 <= gid < 2**32 for gid in gids):
        yield f"{where}.additionalGids must be a list of group numbers"
    if edits.get("intelRdt") is not None:
        yield from _row(edits["intelRdt"], _RDT, (), f"{where}.intelRdt")


def _row(row: Any, types: Mapping[str, str], needed: tuple[str, ...], where: str) -> Iterator[str]:
    if not isinstance(row, Mapping):
        yield f"{where} is not an object"
        return
    yield from _unknown(row, tuple(types), where)
    for field, wanted in types.items():
        value = row.get(field)
        if value is None or value == "":
            if field in needed:
                yield f"{where}.{field} is missing"
        elif not _is(wanted, value):
            yield f"{where}.{field} must be {wanted}"


def _rules(field: str, row: Mapping[str, Any], where: str) -> Iterator[str]:
    match field:
        case "deviceNodes":
            if row.get("type") not in (None, "", "b", "c", "u", "p"):
                yield f"{where}.type must be b, c, u or p"
            permissions = row.get("permissions") or ""
            if permissions != "none" and isinstance(permissions, str) and set(permissions) - set("rwm"):
                yield f"{where}.permissions may hold r, w and m"
        case "hooks":
            if row.get("hookName") and row["hookName"] not in _HOOKS:
                yield f"{where}.hookName must be one of {', '.join(_HOOKS)}"
            yield from _env(row.get("env"), where)


def _env(entries: Any, where: str) -> Iterator[str]:
    if entries is None:
        return
    if not _is(_TEXTS, entries):
        yield f"{where}.env must be {_TEXTS}"
        return
    for entry in entries:
        if "=" not in entry[1:]:
            yield f"{where}.env: {entry!r} is not NAME=value"


def _annotations(row: Mapping[str, Any], where: str) -> Iterator[str]:
    found = row.get("annotations")
    if found is None:
        return
    if not isinstance(found, Mapping) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in found.items()
    ):
        yield f"{where}.annotations must be texts by name".lstrip(".")


def _version(spec: Mapping[str, Any]) -> Iterator[str]:
    stated = spec.get("cdiVersion")
    version = stated.removeprefix("v") if isinstance(stated, str) else ""
    if version not in VERSIONS:
        yield f"cdiVersion {stated!r} is none of {', '.join(VERSIONS)}"
        return
    needed = minimal_version(spec)
    if VERSIONS.index(version) < VERSIONS.index(needed):
        yield f"cdiVersion {version} cannot express it: it needs {needed}"


def _unknown(row: Mapping[str, Any], known: tuple[str, ...], where: str) -> Iterator[str]:
    for key in row:
        if key not in known:
            yield f"{where}.{key}: CDI knows no such field".lstrip(".")


def _is(wanted: str, value: Any) -> bool:
    match wanted:
        case "a text":
            return isinstance(value, str)
        case "a whole number":
            return isinstance(value, int) and not isinstance(value, bool)
        case "a list of texts":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case _:
            return isinstance(value, bool)
