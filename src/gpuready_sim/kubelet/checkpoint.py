"""`kubelet_internal_checkpoint`: what the device manager remembers over a kubelet restart.

The JSON shape is the real one; the checksum is a plain FNV-32a of the data's JSON, since the real one is
computed over a Go-specific dump that nobody else can reproduce (other readers ignore it; a kubelet takes
nothing from a file whose checksum is wrong).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpuready_sim.kubelet.files import write_atomic

FILE_NAME = "kubelet_internal_checkpoint"
NO_NUMA = (-1,)  # how the kubelet writes that a device belongs to no NUMA node


@dataclass(frozen=True)
class Entry:
    """Devices of one resource that one container holds."""

    pod_uid: str
    container: str
    resource: str
    device_ids: tuple[str, ...]
    response: bytes  # a serialised ContainerAllocateResponse
    numa: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # device id -> its NUMA nodes


def write(directory: Path, entries: Iterable[Entry], registered: Mapping[str, Iterable[str]]) -> None:
    data = {
        "PodDeviceEntries": [_entry_to_json(entry) for entry in entries],
        "RegisteredDevices": {resource: sorted(ids) for resource, ids in registered.items()},
    }
    text = json.dumps({"Data": data, "Checksum": _checksum(data)})
    write_atomic(directory / FILE_NAME, text.encode(), mode=0o600)


def read(directory: Path) -> tuple[list[Entry], list[str]]:
    """Entries and the names of registered resources; nothing when the file is absent or unreadable."""
    try:
        found = json.loads((directory / FILE_NAME).read_text())
        data = found["Data"]
        if found["Checksum"] != _checksum(data):
            return [], []
        entries = [_entry_from_json(entry) for entry in data["PodDeviceEntries"] or []]
        return entries, list(data["RegisteredDevices"] or {})
    except (OSError, ValueError, KeyError, TypeError):
        return [], []


def _entry_to_json(entry: Entry) -> dict[str, object]:
    by_numa: dict[str, list[str]] = {}
    for device_id in entry.device_ids:
        for node in entry.numa.get(device_id) or NO_NUMA:
            by_numa.setdefault(str(node), []).append(device_id)
    return {
        "PodUID": entry.pod_uid,
        "ContainerName": entry.container,
        "ResourceName": entry.resource,
        "DeviceIDs": by_numa,
        "AllocResp": base64.b64encode(entry.response).decode(),
    }


def _entry_from_json(raw: Mapping[str, object]) -> Entry:
    by_numa = raw["DeviceIDs"]
    assert isinstance(by_numa, dict)
    numa: dict[str, tuple[int, ...]] = {}
    for node, ids in by_numa.items():
        for device_id in ids:
            numa[device_id] = (*numa.get(device_id, ()), int(node))
    return Entry(
        pod_uid=str(raw["PodUID"]),
        container=str(raw["ContainerName"]),
        resource=str(raw["ResourceName"]),
        device_ids=tuple(numa),
        response=base64.b64decode(str(raw["AllocResp"])),
        numa={device_id: nodes for device_id, nodes in numa.items() if nodes != NO_NUMA},
    )


def _checksum(data: object) -> int:
    return _fnv32a(json.dumps(data).encode())


def _fnv32a(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value
