"""Facts about the device plugin: its own record of this boot, and what the kubelet shows on the Node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuready.chain.device_plugin import PluginRecord
from gpuready.kube.quantity import find_whole
from gpuready.node.files import find_object
from gpuready.node.records import PLUGIN_RECORD

RECORD = "device-plugin.json"
_PREFIX = "nvidia.com/"


def find_record_row(records: Path, boot_id: str) -> dict[str, Any] | None:
    """The record file as it stands; None when absent, spoiled or of another boot."""
    row = find_object(records / RECORD, PLUGIN_RECORD)
    return None if row is None or (boot_id and row.get("bootId") != boot_id) else row


def record_of(row: Mapping[str, Any] | None) -> PluginRecord | None:
    return PluginRecord.from_json(row) if row else None


def gpu_quantities(resources: Mapping[str, Any] | None) -> dict[str, int]:
    """Capacity or allocatable of a Node, reduced to whole numbers of names under nvidia.com/."""
    rows = {name: find_whole(value) for name, value in (resources or {}).items() if name.startswith(_PREFIX)}
    return {name: count for name, count in rows.items() if count is not None}
