"""What the policy's status says of its operands, where no node says it better. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuready import names
from gpuready.operands.contract import PODS_NOT_READY, REFUSALS
from gpuready.tools import operand_pods
from gpuready.tools.doctor.finding import Finding, Severity
from gpuready.tools.node_rows import NodeRow
from gpuready.tools.placement import Object, labels_of
from gpuready.tools.snapshot import Snapshot

Row = Mapping[str, Any]
# Reasons that end by themselves, as far as anybody knows.
_PASSES = ("RollingOut", "NotReported", "DaemonSetMissing", "Paused", "Collecting")
# Of an operand that is a link of the chain each node says the rest.
_NO_NODE_KNOWS = ("ApplyFailed", "DaemonSetMissing")
_NOTHING_TO_SAY = ("", "Ready", "LeftAsItIs")
_OWN_ADVICE = "gpuready doctor"
_PODS_NAMED = 3


def findings_of(
    subject: str, operands: Sequence[Row], snapshot: Snapshot, rows: Sequence[NodeRow]
) -> list[Finding]:
    """Every operand that is not ready, and every ready one with a remark.

    operands  of the policy's status; rows: whatever a node's chain says is said there
    """
    told = _reasons_of(rows)
    mine = [row for row in operands if _is_worth_a_line(row, told)]
    return folded([(str(row.get("name")), _finding_of(subject, row, snapshot.pods)) for row in mine])


def refused(subject: str, operands: Iterable[Row]) -> list[Finding]:
    """Those whose pods cannot be made as the policy asks."""
    mine = [row for row in operands if row.get("reason") in REFUSALS]
    return folded([(str(row.get("name")), finding_from(subject, Severity.PROBLEM, row)) for row in mine])


def folded(named: Sequence[tuple[str, Finding]]) -> list[Finding]:
    """One fault that several operands meet is one finding, with their names."""
    groups: dict[Finding, list[str]] = {}
    for name, finding in named:
        groups.setdefault(finding, []).append(name)
    return [
        replace(finding, evidence=(*finding.evidence, f"operands: {', '.join(operands)}"))
        if len(operands) > 1
        else finding
        for finding, operands in groups.items()
    ]


def finding_from(subject: str, severity: Severity, row: Row, reason: str = "") -> Finding:
    """A condition or an operand's row. Who reads doctor needs no advice to run it."""
    message, _, step = str(row.get("message") or "its status gives no reason").partition("; next: ")
    for joint in (", or ", ": "):
        step = step.removesuffix(f"{joint}{_OWN_ADVICE}")
    if row.get("reason") == "PolicyInvalid":
        step = step or "correct the policy"
    step = "" if step == _OWN_ADVICE else step
    return Finding(subject, severity, str(row.get("reason") or reason), message, next_step=step)


def _is_worth_a_line(row: Row, told: Collection[str]) -> bool:
    if row.get("reason") in told or row.get("reason") in REFUSALS:
        return False
    if row.get("name") in operand_pods.OPERAND_OF.values() and row.get("reason") not in _NO_NODE_KNOWS:
        return False
    if row.get("state") == "ready":
        return row.get("reason") not in _NOTHING_TO_SAY and bool(row.get("message"))
    return row.get("state") == "notReady"


def _reasons_of(rows: Sequence[NodeRow]) -> set[str]:
    return {verdict.reason for row in rows for verdict in row.verdicts}


def _finding_of(subject: str, row: Row, pods: Sequence[Object]) -> Finding:
    name = str(row.get("name"))
    finding = finding_from(subject, _severity_of(row), row, PODS_NOT_READY)
    lines = operand_pods.lines_of((pod for pod in pods if _is_of(pod, name)), _PODS_NAMED)
    about = "" if name in finding.message else f"{name}: "
    return replace(finding, message=f"{about}{finding.message}", evidence=tuple(lines))


def _is_of(pod: Object, operand: str) -> bool:
    return bool(labels_of(pod).get(names.OPERAND_LABEL) == operand)


def _severity_of(row: Row) -> Severity:
    if row.get("state") == "ready":
        return Severity.WARNING
    reason = str(row.get("reason") or "")
    return Severity.WAITING if reason in _PASSES or reason.startswith("WaitingFor") else Severity.PROBLEM
