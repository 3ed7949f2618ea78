"""What the cells of every kind's table share: columns by name, ages, labels, containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gpuready_sim.apiserver import ages

Object = Mapping[str, Any]
Cells = Callable[[Object, datetime], list[Any]]

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"


def column(
    name: str, kind: str = "string", *, form: str = "", description: str = "", priority: int = 0
) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "format": form,
        "description": description or name,
        "priority": priority,
    }


NAME: Final = column(
    "Name",
    form="name",
    description="Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically.",
)


@dataclass(frozen=True)
class KindTable:
    """How one kind is shown."""

    columns: tuple[dict[str, Any], ...]
    cells: Cells


def table(columns: str, cells: Cells, wide: str = "", integers: str = "") -> KindTable:
    """Columns by their names, separated by |; `wide` ones come last and show with -o wide."""
    numbers = integers.split("|")
    shown = [(name, 0) for name in columns.split("|")] + [(name, 1) for name in wide.split("|") if name]
    return KindTable(
        tuple(
            NAME
            if name == "Name" and priority == 0
            else column(name, "integer" if name in numbers else "string", priority=priority)
            for name, priority in shown
        ),
        cells,
    )


def name_of(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def age_of(obj: Object, now: datetime) -> str:
    return ages.since(obj["metadata"].get("creationTimestamp"), now)


def spec_of(obj: Object) -> Object:
    return obj.get("spec") or {}


def status_of(obj: Object) -> Object:
    return obj.get("status") or {}


def labels_of(selector: Object | None) -> str:
    """A label selector as text."""
    selector = selector or {}
    plain = (
        selector.get("matchLabels")
        if "matchLabels" in selector or "matchExpressions" in selector
        else selector
    )
    parts = [f"{key}={value}" for key, value in sorted((plain or {}).items())]
    for one in selector.get("matchExpressions") or []:
        parts.append(_requirement(one))
    return ",".join(parts) or NONE


def _requirement(one: Object) -> str:
    key, values = one["key"], ",".join(sorted(one.get("values") or []))
    words = {
        "In": f"{key} in ({values})",
        "NotIn": f"{key} notin ({values})",
        "Exists": key,
        "DoesNotExist": f"!{key}",
    }
    return str(words.get(one["operator"], key))


def containers_of(pod_spec: Object) -> list[str]:
    containers = pod_spec.get("containers") or []
    return [
        ",".join(one.get("name", "") for one in containers),
        ",".join(one.get("image", "") for one in containers),
    ]


def template_of(obj: Object) -> Object:
    return (spec_of(obj).get("template") or {}).get("spec") or {}
