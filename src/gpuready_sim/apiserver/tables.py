"""What `kubectl get` shows: columns and rows, as the API server computes them.

Built-in kinds have their own columns (the `_rows` modules), custom kinds those of their CRD, anything else a
name and an age. Cells always cover all columns, also those of -o wide (priority 1). Pure; `now` is handed in.

Source: kubernetes, pkg/printers/internalversion/printers.go; apiextensions-apiserver
pkg/registry/customresource/tableconvertor/tableconvertor.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from itertools import takewhile
from typing import Any, Protocol

from gpuready_sim.apiserver import ages, cluster_rows, core_rows, jsonpath, workload_rows
from gpuready_sim.apiserver.cells import NAME, column

Object = Mapping[str, Any]


class Kind(Protocol):
    """What a table needs to know of a resource."""

    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def kind(self) -> str: ...


TABLES = {**workload_rows.TABLES, **core_rows.TABLES, **cluster_rows.TABLES}
AGE = column(
    "Age",
    description="CreationTimestamp is a timestamp representing the server time when this object was created.",
)


def columns_of(resource: Kind, crd: Object | None = None) -> list[dict[str, Any]]:
    """columnDefinitions of a Table: name, type, format, description, priority."""
    if crd is not None:
        return [NAME, *(_custom_column(raw) for raw in _printer_columns(resource, crd))]
    table = TABLES.get((resource.group, resource.kind))
    return list(table.columns) if table else [NAME, AGE]


def row_of(resource: Kind, obj: Object, crd: Object | None = None, *, now: datetime) -> dict[str, Any]:
    """One row of a Table: `cells` in the order of the columns, `conditions` where kubectl uses them."""
    if crd is not None:
        name = obj["metadata"].get("name", "")
        return {"cells": [name, *(_custom_cell(raw, obj, now) for raw in _printer_columns(resource, crd))]}
    table = TABLES.get((resource.group, resource.kind))
    if table is None:
        metadata = obj["metadata"]
        return {"cells": [metadata.get("name", ""), ages.since(metadata.get("creationTimestamp"), now)]}
    row: dict[str, Any] = {"cells": table.cells(obj, now)}
    conditions = _row_conditions(resource, obj)
    return row | {"conditions": conditions} if conditions else row


def _row_conditions(resource: Kind, obj: Object) -> list[dict[str, str]]:
    """Pods that ended are marked, so that kubectl can leave them out."""
    phase = (obj.get("status") or {}).get("phase")
    if (resource.group, resource.kind) != ("", "Pod") or phase not in ("Succeeded", "Failed"):
        return []
    message = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


AGE_COLUMN = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": AGE["description"],
}


def _printer_columns(resource: Kind, crd: Object) -> list[dict[str, Any]]:
    for version in crd["spec"].get("versions", ()):
        if version.get("name") == resource.version:
            columns = version.get("additionalPrinterColumns") or [AGE_COLUMN]
            # Where one cannot be read, those after it are not shown either.
            return list(takewhile(lambda one: jsonpath.is_readable(one.get("jsonPath", "")), columns))
    return [AGE_COLUMN]


def _custom_column(raw: Object) -> dict[str, Any]:
    description = raw.get("description") or (
        f"Custom resource definition column (in JSONPath format): {raw.get('jsonPath', '')}"
    )
    return column(
        raw.get("name", ""),
        raw.get("type", "string"),
        form=raw.get("format", ""),
        description=description,
        priority=raw.get("priority", 0),
    )


def _custom_cell(raw: Object, obj: Object, now: datetime) -> Any:
    found = jsonpath.find(obj, raw.get("jsonPath", ""))
    return _typed(raw.get("type", "string"), found[0], now) if found else None


def _typed(kind: str, value: Any, now: datetime) -> Any:
    if value is None:
        return None
    if kind == "string":
        return _text(value)
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if kind == "date":
        return _date(value, now) if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if kind == "integer" else value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))


def _date(value: str, now: datetime) -> str:
    try:
        return ages.since(value, now)
    except ValueError:
        return "<invalid>"
