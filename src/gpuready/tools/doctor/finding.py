"""What doctor found: something that is wrong, something that waits, or a fact that explains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuready.chain.verdict import State, Verdict


class Severity(StrEnum):
    PROBLEM = "problem"
    WARNING = "warning"  # it works, and somebody should know
    WAITING = "waiting"


_OF_STATE: Mapping[str, Severity] = {
    State.BROKEN: Severity.PROBLEM,
    State.WAITING: Severity.WAITING,
    State.DEGRADED: Severity.WARNING,
}


@dataclass(frozen=True)
class Finding:
    """subject is "node/x", "pod/ns/x", "policy/x" or "cluster"; link only where a link says it."""

    subject: str
    severity: Severity
    reason: str
    message: str
    evidence: tuple[str, ...] = ()
    next_step: str = ""
    link: str = ""

    def to_json(self) -> dict[str, Any]:
        row = {
            "subject": self.subject,
            "severity": str(self.severity),
            "link": self.link,
            "reason": self.reason,
            "message": self.message,
            "evidence": list(self.evidence),
            "nextStep": self.next_step,
        }
        return {key: value for key, value in row.items() if value}


def finding_of(subject: str, verdict: Verdict) -> Finding | None:
    """None for a link that is whole or was not checked."""
    if not verdict.is_understood:
        return _not_understood(subject, verdict)
    severity = _OF_STATE.get(verdict.state)
    if severity is None:
        return None
    return Finding(
        subject=subject,
        severity=severity,
        reason=verdict.reason,
        message=verdict.message,
        evidence=verdict.evidence,
        next_step=verdict.next_step,
        link=str(verdict.link),
    )


def _not_understood(subject: str, verdict: Verdict) -> Finding:
    said = f"{verdict.state}: {verdict.message}" if verdict.message else str(verdict.state)
    return Finding(
        subject=subject,
        severity=Severity.WARNING,
        reason=verdict.reason or str(verdict.state),
        message=f"this gpuready does not know the state that its node agent reports: {said}",
        evidence=verdict.evidence,
        next_step="use a gpuready of the operator's version",
        link=str(verdict.link),
    )
