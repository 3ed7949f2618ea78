"""Facts about the device plugin: its own record of this boot, and what the kubelet shows on the Node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuready.chain.device_plugin import PluginRecord
from gpuready.kube.quantity import find_whole

RECORD = "device-plugin.json"
_PREFIX = "nvidia.com/"


def find_record_row(records: Path, boot_id: str) -> dict[str, Any] | None:
    """The record file as it stands; None when absent, unreadable or of another boot."""
    try:
        row = json.loads((records / RECORD).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(row, dict) or (boot_id and row.get("bootId") != boot_id):
        return None
    return row


def record_of(row: Mapping[str, Any] | None) -> PluginRecord | None:
    """None also for a record that does not read as one."""
    try:
        return PluginRecord.from_json(row) if row else None
    except (KeyError, TypeError, ValueError):
        return None


def gpu_quantities(resources: Mapping[str, Any] | None) -> dict[str, int]:
    """Capacity or allocatable of a Node, reduced to whole numbers of names under nvidia.com/."""
    rows = {name: find_whole(value) for name, value in (resources or {}).items() if name.startswith(_PREFIX)}
    return {name: count for name, count in rows.items() if count is not None}
