"""A report as people read it: one fact a line, the fix beside the fault. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuready.chain.verdict import Link, State, Verdict
from gpuready.chain.wording import counted
from gpuready.tools.doctor.analysis import Report
from gpuready.tools.doctor.finding import Finding, Severity
from gpuready.tools.node_rows import NodeRow, unseen_lines
from gpuready.tools.terminal import folded, joined

_OF_STATE: Mapping[str, str] = {
    State.OK: "ok",
    State.DEGRADED: "warn",
    State.BROKEN: "FAIL",
    State.WAITING: "wait",
    State.NOT_CHECKED: "-",
}
_OF_SEVERITY = {Severity.PROBLEM: "FAIL", Severity.WARNING: "warn", Severity.WAITING: "wait"}
_MOST_EVIDENCE = 8
_MESSAGE_COLUMN = 21  # of one node's links, see `_verdict_lines`


def node_text(row: NodeRow, report: Report, columns: int | None = None) -> str:
    """One node, every link. columns: of the terminal, None where lines may be as long as they are."""
    lines = [] if row.verdicts else [_without_verdicts(row)]
    for verdict in row.verdicts:
        is_news = row.is_heard or verdict.link is Link.REPORTING
        lines += _verdict_lines(verdict) if is_news else [_last_known(verdict)]
    return folded(joined([*lines, counts(report)]), columns, hang=_MESSAGE_COLUMN)


def report_text(report: Report, columns: int | None = None) -> str:
    """The whole cluster: what was found, then what is fine."""
    lines: list[str] = []
    for finding, subjects in _grouped(report.findings):
        lines += _finding_lines(finding, subjects)
    lines += [f"ok    {remark}" for remark in report.remarks]
    fine = [row for row in report.rows if row.has_gpus and not row.reason]
    if fine:
        lines.append(f"ok    {_gpus_of(fine)}, every checked link is whole")
    lines += _withheld_lines([row for row in report.rows if row.withheld])
    cordoned = [row.name for row in report.rows if row.cordoned]
    if cordoned:
        lines.append(f"-     {_listed(cordoned)}: cordoned, no new pod goes there")
    lines += [f"-     {line}" for line in (*report.unseen, *unseen_lines(report.rows))]
    return folded(joined([*lines, counts(report)]), columns)


def _without_verdicts(row: NodeRow) -> str:
    if row.unseen:
        return f"-     {row.name}  nobody has looked for GPUs here yet: {row.unseen}"
    return f"ok    {row.name}  no NVIDIA GPU"


def _withheld_lines(rows: Sequence[NodeRow]) -> list[str]:
    """GPUs that work and that nobody offers, by the reason why."""
    by_reason: dict[str, list[NodeRow]] = {}
    for row in rows:
        if row.withheld:
            by_reason.setdefault(row.withheld.message, []).append(row)
    return [f"-     {_gpus_of(those)}, not offered: {why}" for why, those in by_reason.items()]


def _gpus_of(rows: Sequence[NodeRow]) -> str:
    return f"{_listed([row.name for row in rows])}: {counted(sum(row.gpus for row in rows), 'GPU')}"


def _grouped(findings: Sequence[Finding]) -> list[tuple[Finding, list[str]]]:
    """The same words about many nodes are said once."""
    groups: dict[Finding, list[str]] = {}
    for finding in findings:
        groups.setdefault(replace(finding, subject=""), []).append(finding.subject)
    return list(groups.items())


def counts(report: Report) -> str:
    """ "1 problem, 1 waiting"; "nothing found" for a healthy cluster."""
    words = ((Severity.PROBLEM, "problem"), (Severity.WARNING, "warning"), (Severity.WAITING, "waiting"))
    parts = [
        f"{number} {word}" if severity is Severity.WAITING else counted(number, word)
        for severity, word in words
        if (number := report.count(severity))
    ]
    return ", ".join(parts) or "nothing found"


def _verdict_lines(verdict: Verdict) -> list[str]:
    lines = [f"{_OF_STATE.get(verdict.state, verdict.state):<5} {verdict.link:<14} {verdict.message}"]
    if verdict.state in (State.OK, State.NOT_CHECKED):
        return lines
    lines += [f"      {'why':<14} {line}" for line in verdict.evidence[:_MOST_EVIDENCE]]
    if verdict.next_step:
        lines.append(f"      {'next':<14} {verdict.next_step}")
    return lines


def _last_known(verdict: Verdict) -> str:
    """Of a node that nobody speaks for."""
    return f"{'-':<5} {verdict.link:<14} last known: {verdict.message}"


def _finding_lines(finding: Finding, subjects: Sequence[str]) -> list[str]:
    whom = _listed(subjects)
    about = f"{whom}  {finding.link}" if finding.link else whom
    lines = [f"{_OF_SEVERITY[finding.severity]:<5} {about}  {finding.message}"]
    lines += [f"      why   {line}" for line in finding.evidence[:_MOST_EVIDENCE]]
    if finding.next_step:
        lines.append(f"      next  {finding.next_step}")
    return lines


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
