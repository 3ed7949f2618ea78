"""Nodes x links as text: the columns of `kubectl get gpunodes`, and the policy's state above. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuready.tools.node_rows import NodeRow
from gpuready.tools.placement import Object, name_of

HEAD = ("NODE", "DRIVER", "RUNTIME", "PLUGIN", "CUDA", "GPUS", "HEALTHY", "REASON")
_GAP = "   "


def cells_of(row: NodeRow) -> tuple[str, ...]:
    columns = row.columns
    if row.undiscovered:
        return (row.name, "-", "-", "-", "-", "?", "?", row.reason)
    counts = (str(row.gpus), str(row.healthy))
    return (
        row.name,
        *(columns[name] for name in ("driver", "runtime", "plugin", "cuda")),
        *counts,
        row.reason,
    )


def shown(rows: Sequence[NodeRow]) -> list[NodeRow]:
    """Nodes with GPUs and nodes that nobody was able to look at."""
    return [row for row in rows if row.has_gpus or row.undiscovered]


def policy_line(policies: Sequence[Object]) -> str:
    """The policy in force; the ones that wait after it."""
    if not policies:
        return "no ClusterPolicy"
    ordered = sorted(policies, key=lambda policy: _state(policy) == "ignored")
    return "; ".join(_one_policy(policy) for policy in ordered)


def _one_policy(policy: Object) -> str:
    row = _ready_condition(policy)
    told = row.get("message") or row.get("reason") if _state(policy) not in ("ready", "ignored") else ""
    line = f"policy {name_of(policy)}: {_state(policy) or 'not answered yet'}"
    return f"{line} ({told})" if told else line


def plain(rows: Sequence[NodeRow], policies: Sequence[Object]) -> str:
    """The whole table as lines."""
    cells = [HEAD, *(cells_of(row) for row in shown(rows))]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    lines = [
        _GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    return "\n".join([policy_line(policies), *lines, *_rest(rows)])


def changes(before: Sequence[NodeRow], after: Sequence[NodeRow]) -> list[str]:
    """One line per node that differs, for those who cannot see a table change in place."""
    was = {row.name: cells_of(row) for row in shown(before)}
    lines = []
    for row in shown(after):
        cells = cells_of(row)
        if was.get(row.name) != cells:
            pairs = zip(HEAD[1:-1], cells[1:-1], strict=True)
            told = "  ".join(f"{head.lower()}={cell}" for head, cell in pairs)
            lines.append(f"{row.name}  {told}  {row.reason}".rstrip())
    gone = sorted(was.keys() - {row.name for row in shown(after)})
    return [*lines, *(f"{name}  no longer a GPU node" for name in gone)]


def to_json(rows: Sequence[NodeRow], policies: Sequence[Object]) -> dict[str, Any]:
    return {
        "policies": [
            {
                "name": name_of(policy),
                "state": _state(policy),
                "reason": _ready_condition(policy).get("reason", ""),
            }
            for policy in policies
        ],
        "nodes": [row.to_json() for row in shown(rows)],
        "nodesWithoutGpus": len(rows) - len(shown(rows)),
    }


def _rest(rows: Sequence[NodeRow]) -> list[str]:
    without = len(rows) - len(shown(rows))
    return [f"{without} node{'s' if without > 1 else ''} without GPUs"] if without else []


def _state(policy: Object) -> str:
    return str((policy.get("status") or {}).get("state") or "")


def _ready_condition(policy: Object) -> Mapping[str, Any]:
    rows = (policy.get("status") or {}).get("conditions") or ()
    return next((row for row in rows if row.get("type") == "Ready"), {})
