"""CDI specs of a node: strict loading, precedence and conflicts, and the resolving of device names.

Source: CNCF CDI specification 1.1.0 and its Go library (pkg/cdi/cache.go, internal/validation).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

DIRECTORIES = ("etc/cdi", "var/run/cdi")  # static, dynamic: the later one wins
ANNOTATION_PREFIX = "cdi.k8s.io/"
VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
HOOKS = frozenset({"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"})

Json = Mapping[str, Any]

_EDITS = {
    "env",
    "deviceNodes",
    "mounts",
    "hooks",
    "intelRdt",
    "additionalGids",
    "netDevices",
}
_FIELDS = {
    "deviceNodes": {
        "path",
        "hostPath",
        "type",
        "major",
        "minor",
        "fileMode",
        "permissions",
        "uid",
        "gid",
    },
    "mounts": {"hostPath", "containerPath", "options", "type"},
    "hooks": {"hookName", "path", "args", "env", "timeout"},
    "netDevices": {"hostInterfaceName", "name"},
}
_REQUIRED = {
    "deviceNodes": ("path",),
    "mounts": ("hostPath", "containerPath"),
    "hooks": ("hookName", "path"),
    "netDevices": ("hostInterfaceName", "name"),
}
_VENDOR = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")


class CdiError(Exception):
    """A spec, an annotation or a device name that cannot be used."""


@dataclass(frozen=True)
class Spec:
    path: Path
    kind: str
    priority: int
    edits: Json
    devices: Mapping[str, Json]  # name -> its edits


@dataclass(frozen=True)
class Cache:
    """All specs of a node at one moment. `errors`: by file, why it (or a device of it) does not count."""

    devices: Mapping[str, tuple[Spec, str]]
    errors: Mapping[Path, list[str]] = field(default_factory=dict)

    def edits_of(self, names: Sequence[str]) -> list[Json]:
        """Edits in the order they apply; raises CdiError that lists all names nobody defines."""
        unknown = [name for name in names if name not in self.devices]
        if unknown:
            raise CdiError(f"unresolvable CDI devices {', '.join(unknown)}")
        edits: list[Json] = []
        used: set[Path] = set()
        for name in names:
            spec, device = self.devices[name]
            if spec.path not in used:
                used.add(spec.path)
                edits.append(spec.edits)
            edits.append(spec.devices[device])
        return edits


def load(node_root: Path) -> Cache:
    """Read both directories; a file that does not load is skipped and its error kept."""
    found: dict[str, tuple[Spec, str]] = {}
    errors: dict[Path, list[str]] = {}
    conflicts: set[str] = set()
    for spec in _specs(node_root, errors):
        for device in spec.devices:
            name = f"{spec.kind}={device}"
            other = found.get(name)
            if other is not None and other[0].priority == spec.priority:
                conflicts.add(name)
                text = f"conflicting device {name} (specs {other[0].path}, {spec.path})"
                errors.setdefault(other[0].path, []).append(text)
                errors.setdefault(spec.path, []).append(text)
            found[name] = (spec, device)
    return Cache({name: value for name, value in found.items() if name not in conflicts}, errors)


def names_in_annotations(annotations: Mapping[str, str]) -> list[str]:
    """Device names in annotations `cdi.k8s.io/...`; raises CdiError when any is not qualified."""
    names: list[str] = []
    for key, value in sorted(annotations.items()):
        if not key.startswith(ANNOTATION_PREFIX):
            continue
        for name in value.split(","):
            if not is_qualified(name):
                raise CdiError(f"invalid CDI device name {name!r} in annotation {key}")
            names.append(name)
    return names


def unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def is_qualified(name: str) -> bool:
    """vendor/class=name: first `=`, first `/`; what starts with `/` never is."""
    kind, equals, device = name.partition("=")
    vendor, slash, class_ = kind.partition("/")
    return bool(
        equals
        and slash
        and _VENDOR.fullmatch(vendor)
        and _VENDOR.fullmatch(class_)
        and _DEVICE.fullmatch(device)
    )


def parse(text: str, path: Path, priority: int) -> Spec:
    """One spec file; raises CdiError for anything that the CDI library refuses."""
    try:
        raw = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as exc:
        raise CdiError(f"failed to unmarshal CDI Spec: {exc}") from exc
    if not isinstance(raw, dict):
        raise CdiError("failed to unmarshal CDI Spec: not an object")
    _only(raw, {"cdiVersion", "kind", "annotations", "devices", "containerEdits"}, "spec")
    kind = str(raw.get("kind", ""))
    vendor, slash, class_ = kind.partition("/")
    if not (slash and _VENDOR.fullmatch(vendor) and _VENDOR.fullmatch(class_)):
        raise CdiError(f"invalid kind {kind!r}")
    devices = _devices_of(raw)
    edits = raw.get("containerEdits") or {}
    _check_edits(edits, "spec")
    _check_version(raw, class_, devices, edits)
    return Spec(path, kind, priority, edits, devices)


def _specs(node_root: Path, errors: dict[Path, list[str]]) -> list[Spec]:
    specs: list[Spec] = []
    for priority, directory in enumerate(DIRECTORIES):
        folder = node_root / directory
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            if path.suffix not in (".json", ".yaml") or not path.is_file():
                continue
            try:
                specs.append(parse(path.read_text(), path, priority))
            except (CdiError, OSError, UnicodeDecodeError) as exc:
                errors.setdefault(path, []).append(str(exc))
    return specs


def _devices_of(raw: Json) -> dict[str, Json]:
    listed = raw.get("devices")
    if not isinstance(listed, list) or not listed:
        raise CdiError("invalid spec, no devices")
    devices: dict[str, Json] = {}
    for device in listed:
        _only(device, {"name", "annotations", "containerEdits"}, "device")
        name, edits = str(device.get("name", "")), device.get("containerEdits") or {}
        if not _DEVICE.fullmatch(name):
            raise CdiError(f"invalid device name {name!r}")
        if name in devices:
            raise CdiError(f"invalid spec, multiple device {name!r}")
        _check_edits(edits, name)
        if not any(edits.values()):
            raise CdiError(f"invalid device, empty device edits: {name!r}")
        devices[name] = edits
    return devices


def _check_edits(edits: Json, where: str) -> None:
    _only(edits, _EDITS, f"containerEdits of {where}")
    for entry in edits.get("env") or []:
        if "=" not in entry[1:] if entry else True:
            raise CdiError(f"invalid environment variable {entry!r}")
    for name, allowed in _FIELDS.items():
        for entry in edits.get(name) or []:
            _only(entry, allowed, f"{name} of {where}")
            for required in _REQUIRED[name]:
                if not entry.get(required):
                    raise CdiError(f"invalid {name} of {where}, empty {required}")
    for node in edits.get("deviceNodes") or []:
        if node.get("type", "") not in ("", "b", "c", "u", "p"):
            raise CdiError(f"device {node['path']!r}: invalid type {node['type']!r}")
        permissions = node.get("permissions", "")
        if permissions != "none" and set(permissions) - set("rwm"):
            raise CdiError(f"device {node['path']!r}: invalid permissions {permissions!r}")
    for hook in edits.get("hooks") or []:
        if hook["hookName"] not in HOOKS:
            raise CdiError(f"invalid hook name {hook['hookName']!r}")


def _check_version(raw: Json, class_: str, devices: Mapping[str, Json], edits: Json) -> None:
    version = str(raw.get("cdiVersion", "")).removeprefix("v")
    if version not in VERSIONS:
        raise CdiError(f"invalid version {raw.get('cdiVersion')!r}")
    annotated = raw.get("annotations") or any(d.get("annotations") for d in raw["devices"])
    needed = minimum_version([edits, *devices.values()], devices, "." in class_ or bool(annotated))
    if VERSIONS.index(version) < VERSIONS.index(needed):
        raise CdiError(f"the spec version must be at least v{needed}")


def minimum_version(all_edits: Iterable[Json], devices: Iterable[str], needs_0_6: bool) -> str:
    """The lowest cdiVersion that knows every field used."""
    versions = ["0.3.0"]
    if needs_0_6:
        versions.append("0.6.0")
    if any(name[0].isdigit() for name in devices):
        versions.append("0.5.0")
    for edits in all_edits:
        rdt = edits.get("intelRdt") or {}
        if edits.get("netDevices") or rdt.get("schemata") or rdt.get("enableMonitoring"):
            versions.append("1.1.0")
        if rdt or edits.get("additionalGids"):
            versions.append("0.7.0")
        if any(node.get("hostPath") for node in edits.get("deviceNodes") or []):
            versions.append("0.5.0")
        if any(mount.get("type") for mount in edits.get("mounts") or []):
            versions.append("0.4.0")
    return max(versions, key=VERSIONS.index)


def _only(raw: object, allowed: set[str], where: str) -> None:
    if not isinstance(raw, dict):
        raise CdiError(f"{where} is not an object")
    for key in raw:
        if key not in allowed:
            raise CdiError(f'failed to unmarshal CDI Spec: unknown field "{key}" in {where}')
