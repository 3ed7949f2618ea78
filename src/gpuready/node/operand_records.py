"""What daemons say of themselves that no link of the chain speaks for: one record for each, by its name.

They come and go without the chain noticing; people read about them in GPUNode.status.operands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuready.chain.verdict import State
from gpuready.node.files import find_object
from gpuready.node.records import OPERAND_RECORD

EXPORTER = "dcgm-exporter"
OPERANDS = (EXPORTER,)

_SHOWN = ("state", "reason", "message", "details", "nextStep")
_MOST_TEXT, _MOST_DETAILS = 1024, 20
_STATES = (State.OK, State.DEGRADED, State.BROKEN, State.WAITING)


def path_of(records: Path, operand: str) -> Path:
    return records / f"{operand}.json"


def find_rows(records: Path, boot_id: str) -> tuple[dict[str, Any], ...]:
    """A row for GPUNode.status.operands for each record of this boot, in the order of their names."""
    rows = [_find_row(records, operand, boot_id) for operand in sorted(OPERANDS)]
    return tuple(row for row in rows if row is not None)


def _find_row(records: Path, operand: str, boot_id: str) -> dict[str, Any] | None:
    found = find_object(path_of(records, operand), OPERAND_RECORD)
    if found is None or found["state"] not in _STATES or (boot_id and found.get("bootId") != boot_id):
        return None
    shown = {key: _short(found[key]) for key in _SHOWN if found.get(key)}
    return {"name": operand, **shown}


def _short(value: str | list[str]) -> str | list[str]:
    """It ends in an object of the API server, which is kept small."""
    if isinstance(value, list):
        return [text[:_MOST_TEXT] for text in value[:_MOST_DETAILS]]
    return value[:_MOST_TEXT]
