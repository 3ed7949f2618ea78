"""Facts about the container toolkit: its record of this boot, and the gate of NVIDIA's validator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuready import names
from gpuready.chain.toolkit import ToolkitRecord
from gpuready.node.files import find_object
from gpuready.node.records import TOOLKIT_RECORD

RECORD = "toolkit.json"


def find_record_row(records: Path, boot_id: str) -> dict[str, Any] | None:
    """The record file as it stands; None when absent, spoiled or of another boot."""
    row = find_object(records / RECORD, TOOLKIT_RECORD)
    return None if row is None or (boot_id and row.get("bootId") != boot_id) else row


def record_of(row: Mapping[str, Any] | None) -> ToolkitRecord | None:
    return ToolkitRecord.from_json(row) if row else None


def has_gate(gates: Path) -> bool:
    return (gates / names.TOOLKIT_READY).exists()
