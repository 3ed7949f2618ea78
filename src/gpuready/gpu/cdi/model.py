"""What was found of a driver, and what holds for any spec made of it. Pure.

All paths are the host's; our own mounts never show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Spec = dict[str, Any]
Edits = Mapping[str, Any]

VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
# Source: container-device-interface 1.1, specs-go/version.go.


@dataclass(frozen=True)
class DeviceNode:
    """path       in the container and, below the device root, on the host
    host_path  where it lies on the host
    numbers    (major, minor); None where it is no character device (a simulated node)
    mode       permission bits
    gid        its group
    is_made    the host has none, and the runtime makes it by its numbers
    """

    path: str
    host_path: str
    numbers: tuple[int, int] | None = None
    mode: int = 0
    gid: int = 0
    is_made: bool = False


@dataclass(frozen=True)
class DriverScan:
    """What of one driver version lies where.

    root        the driver's root on the host: "/" or "/run/nvidia/driver"
    libraries   paths inside the root, ending in the driver's version
    links       (path in the container, real path inside the root): sonames, and links that lead to a library
    files       other read-only files and programs: (path in the container, path inside the root)
    graphics    the same for what workloads may need and management does not: mostly to draw
    sockets     (path in the container, path on the host)
    control     device nodes that every GPU container needs
    nodes       path -> node, of GPUs and their DRM nodes
    management  every node of the driver, for those who manage GPUs
    hook        path of the hook program on the host; "" when there is none
    """

    root: str = "/"
    version: str = ""
    libraries: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    graphics: tuple[tuple[str, str], ...] = ()
    sockets: tuple[tuple[str, str], ...] = ()
    control: tuple[DeviceNode, ...] = ()
    nodes: Mapping[str, DeviceNode] | None = None
    management: tuple[DeviceNode, ...] = ()
    hook: str = ""


def finished(kind: str, devices: Iterable[Spec], common: Edits) -> Spec:
    """A whole spec: devices by name, the oldest version that will do."""
    spec: Spec = {
        "kind": kind,
        "devices": sorted(devices, key=lambda device: str(device["name"])),
        "containerEdits": common,
    }
    if not common:
        del spec["containerEdits"]
    return {"cdiVersion": minimal_version(spec), **spec}


def minimal_version(spec: Mapping[str, Any]) -> str:
    """Readers refuse versions that they do not know, so state the oldest that will do."""
    needed = ["0.3.0", *(version_needed_by(edits) for edits in all_edits(spec))]
    if "." in str(spec.get("kind", "")).partition("/")[2] or _annotated(spec):
        needed.append("0.6.0")
    if any(str(device.get("name", ""))[:1].isdigit() for device in spec.get("devices") or ()):
        needed.append("0.5.0")
    return max(needed, key=VERSIONS.index)


def version_needed_by(edits: Edits) -> str:
    rdt = edits.get("intelRdt") or {}
    if edits.get("netDevices") or rdt.get("schemata") or rdt.get("enableMonitoring"):
        return "1.1.0"
    if rdt or edits.get("additionalGids"):
        return "0.7.0"
    if any(node.get("hostPath") for node in edits.get("deviceNodes") or ()):
        return "0.5.0"
    return "0.4.0" if any(mount.get("type") for mount in edits.get("mounts") or ()) else "0.3.0"


def host_paths(spec: Mapping[str, Any]) -> list[str]:
    """Every path that must exist on the host, or a container with these devices cannot be created."""
    return sorted({path for edits in all_edits(spec) for path in host_paths_of(edits)})


def host_paths_of(edits: Edits) -> list[str]:
    nodes = edits.get("deviceNodes") or ()
    # What is described in full is made by the runtime, if need be.
    found = [
        node.get("hostPath") or node["path"] for node in nodes if not (node.get("type") and node.get("major"))
    ]
    found += [mount["hostPath"] for mount in edits.get("mounts") or ()]
    return found + [hook["path"] for hook in edits.get("hooks") or ()]


def all_edits(spec: Mapping[str, Any]) -> list[Edits]:
    common = spec.get("containerEdits")
    edits = [device.get("containerEdits") or {} for device in spec.get("devices") or ()]
    return [common, *edits] if common else edits


def _annotated(spec: Mapping[str, Any]) -> bool:
    return bool(spec.get("annotations")) or any(
        device.get("annotations") for device in spec.get("devices") or ()
    )
