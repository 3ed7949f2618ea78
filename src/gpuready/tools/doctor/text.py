"""A report as people read it: one fact a line, the fix beside the fault. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpuready.chain.verdict import State, Verdict
from gpuready.tools.doctor.analysis import Report
from gpuready.tools.doctor.finding import Finding, Severity
from gpuready.tools.node_rows import NodeRow

_OF_STATE = {
    State.OK: "ok",
    State.DEGRADED: "warn",
    State.BROKEN: "FAIL",
    State.WAITING: "wait",
    State.NOT_CHECKED: "-",
}
_OF_SEVERITY = {Severity.PROBLEM: "FAIL", Severity.WARNING: "warn", Severity.WAITING: "wait"}
_MOST_EVIDENCE = 8


def node_text(row: NodeRow, report: Report) -> str:
    """One node, every link."""
    lines = [] if row.verdicts else [f"ok    {row.name}  no NVIDIA GPU"]
    for verdict in row.verdicts:
        lines += _verdict_lines(verdict)
    return "\n".join([*lines, counts(report)])


def report_text(report: Report) -> str:
    """The whole cluster: what was found, then what is fine."""
    lines: list[str] = []
    for finding in report.findings:
        lines += _finding_lines(finding)
    fine = [row for row in report.rows if row.has_gpus and not row.reason]
    if fine:
        gpus = sum(row.gpus for row in fine)
        lines.append(f"ok    {_listed([row.name for row in fine])}: {gpus} GPUs, every checked link is whole")
    without = sum(not row.has_gpus and not row.undiscovered for row in report.rows)
    if without:
        lines.append(f"-     {without} node{'s' if without > 1 else ''} without GPUs")
    return "\n".join([*lines, counts(report)])


def counts(report: Report) -> str:
    """ "1 problem, 1 waiting"; "nothing found" for a healthy cluster."""
    words = ((Severity.PROBLEM, "problem"), (Severity.WARNING, "warning"), (Severity.WAITING, "waiting"))
    parts = [_counted(number, word) for severity, word in words if (number := report.count(severity))]
    return ", ".join(parts) or "nothing found"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 or word == "waiting" else f"{number} {word}s"


def _verdict_lines(verdict: Verdict) -> list[str]:
    lines = [f"{_OF_STATE[verdict.state]:<5} {verdict.link:<14} {verdict.message}"]
    if verdict.state in (State.OK, State.NOT_CHECKED):
        return lines
    lines += [f"      {'why':<14} {line}" for line in verdict.evidence[:_MOST_EVIDENCE]]
    if verdict.next_step:
        lines.append(f"      {'next':<14} {verdict.next_step}")
    return lines


def _finding_lines(finding: Finding) -> list[str]:
    about = f"{finding.subject}  {finding.link}" if finding.link else finding.subject
    lines = [f"{_OF_SEVERITY[finding.severity]:<5} {about}  {finding.message}"]
    lines += [f"      why   {line}" for line in finding.evidence[:_MOST_EVIDENCE]]
    if finding.next_step:
        lines.append(f"      next  {finding.next_step}")
    return lines


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
