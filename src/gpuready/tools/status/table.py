"""Nodes x links as text: the columns of `kubectl get gpunodes`, and the policy's state above. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuready import names
from gpuready.tools.node_rows import NodeRow, unseen_lines
from gpuready.tools.placement import Object, name_of
from gpuready.tools.policies import nodes_waiting, not_installed, state_of
from gpuready.tools.terminal import joined, printable

# GPUS and HEALTHY are cards; OFFERED is what pods may ask for: more where a card is shared.
HEAD = ("NODE", "DRIVER", "RUNTIME", "PLUGIN", "CUDA", "GPUS", "HEALTHY", "OFFERED", "REASON")
_GAP = "   "
# What a narrow screen does without, first to last; the reason names the link that is broken.
_FORGONE = ("GPUS", "HEALTHY", "OFFERED", "CUDA", "RUNTIME", "PLUGIN", "DRIVER")


def heads_within(rows: Sequence[NodeRow], columns: int, gap: int) -> tuple[str, ...]:
    """The columns that a screen of this width has room for, each as wide as its longest word."""
    cells = [HEAD, *map(cells_of, rows)]
    widths = {
        head: max(len(word) for line in cells for word in _unbreakable(head, line[place]))
        for place, head in enumerate(HEAD)
    }
    kept = list(HEAD)
    for head in _FORGONE:
        if sum(widths[each] for each in kept) + gap * (len(kept) - 1) <= columns:
            break
        kept.remove(head)
    return tuple(kept)


def _unbreakable(head: str, cell: str) -> list[str]:
    """A reason may go on in a second line, between its words."""
    return cell.split() or [""] if head == "REASON" else [cell]


def cells_of(row: NodeRow) -> tuple[str, ...]:
    """As they are shown: escaped here, so that the columns are as wide as what is printed."""
    return tuple(printable(cell) for cell in _cells(row))


def _cells(row: NodeRow) -> tuple[str, ...]:
    columns = row.columns
    if row.undiscovered:
        return (row.name, "-", "-", "-", "-", "?", "?", "?", row.reason)
    counts = (str(row.gpus), str(row.healthy), offered_text(row.offered))
    return (
        row.name,
        *(columns[name] for name in ("driver", "runtime", "plugin", "cuda")),
        *counts,
        row.reason,
    )


def offered_text(offered: Mapping[str, int]) -> str:
    """ "8"; "5 gpu.shared" for another name than nvidia.com/gpu."""
    plain = [f"{count}" for name, count in offered.items() if name == names.GPU_RESOURCE]
    named = [
        f"{count} {name.partition('/')[2]}"
        for name, count in sorted(offered.items())
        if name != names.GPU_RESOURCE
    ]
    return ", ".join([*plain, *named]) or "0"


def shown(rows: Sequence[NodeRow]) -> list[NodeRow]:
    """Nodes with GPUs and nodes that nobody was able to look at."""
    return [row for row in rows if row.has_gpus or row.undiscovered]


def policy_line(policies: Sequence[Object]) -> str:
    """The policy in force; the ones that wait after it."""
    if not policies:
        return "no ClusterPolicy"
    ordered = sorted(policies, key=lambda policy: state_of(policy) == "ignored")
    return printable("; ".join(_one_policy(policy) for policy in ordered))


def notes(policies: Sequence[Object]) -> list[str]:
    """What a policy's state does not tell, a line each."""
    found = [(policy, row) for policy in policies for row in nodes_waiting(policy)]
    return [f"policy {name_of(policy)}: {row.get('message') or row.get('reason')}" for policy, row in found]


def _one_policy(policy: Object) -> str:
    row = _ready_condition(policy)
    state, missing = state_of(policy), not_installed(policy)
    told = row.get("message") or row.get("reason") if state not in ("ready", "ignored") else ""
    line = f"policy {name_of(policy)}: {state or 'not answered yet'}"
    line = f"{line} ({told})" if told else line
    return f"{line}; {missing}" if missing and state != "ignored" else line


def plain(rows: Sequence[NodeRow], policies: Sequence[Object]) -> str:
    """The whole table as lines."""
    if not shown(rows):
        return joined([policy_line(policies), *notes(policies), *(unseen_lines(rows) or ["no node"])])
    cells = [HEAD, *(cells_of(row) for row in shown(rows))]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    lines = [
        _GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    return joined([policy_line(policies), *notes(policies), *lines, *unseen_lines(rows)])


def changes(before: Sequence[NodeRow], after: Sequence[NodeRow]) -> list[str]:
    """One line per node that differs, for those who cannot see a table change in place."""
    was = {row.name: cells_of(row) for row in shown(before)}
    lines = []
    for row in shown(after):
        cells = cells_of(row)
        if was.get(row.name) != cells:
            pairs = zip(HEAD[1:-1], cells[1:-1], strict=True)
            told = "  ".join(f"{head.lower()}={cell}" for head, cell in pairs)
            lines.append(f"{cells[0]}  {told}  {cells[-1]}".rstrip())
    gone = sorted(was.keys() - {row.name for row in shown(after)})
    return [*lines, *(f"{printable(name)}  no longer a GPU node" for name in gone)]


def to_json(rows: Sequence[NodeRow], policies: Sequence[Object]) -> dict[str, Any]:
    return {
        "policies": [
            {
                "name": name_of(policy),
                "state": state_of(policy),
                "reason": _ready_condition(policy).get("reason", ""),
            }
            for policy in policies
        ],
        "nodes": [row.to_json() for row in shown(rows)],
        "nodesWithoutGpus": sum(not row.unseen for row in rows) - len(shown(rows)),
        "nodesNotLookedAt": sum(bool(row.unseen) for row in rows),
    }


def _ready_condition(policy: Object) -> Mapping[str, Any]:
    rows = (policy.get("status") or {}).get("conditions") or ()
    return next((row for row in rows if row.get("type") == "Ready"), {})
