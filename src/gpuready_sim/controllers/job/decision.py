"""What a Job does next, and what its status says. Pure.

Source: kubernetes, pkg/controller/job/job_controller.go, backoff_utils.go. Not done: indexed completion, pod
failure policies, suspension, back-off between the pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """create: how many new pods. status: as a merge patch. again_s: look again after so long."""

    create: int
    delete: tuple[Object, ...]
    status: dict[str, Any]
    again_s: float | None = None


def is_finished(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(row["type"] in ("Complete", "Failed") and row["status"] == "True" for row in conditions)


def decide(job: Object, pods: Sequence[Object], now: datetime) -> Plan:
    """`pods` are all of the Job that still exist."""
    spec = job["spec"]
    completions, parallelism = int(spec.get("completions", 1)), int(spec.get("parallelism", 1))
    succeeded = sum(_phase(pod) == "Succeeded" for pod in pods)
    failed = sum(_phase(pod) == "Failed" for pod in pods)
    active = [pod for pod in pods if _phase(pod) not in ("Succeeded", "Failed") and not _is_deleting(pod)]
    started = str((job.get("status") or {}).get("startTime") or _text(now))
    status: dict[str, Any] = {"startTime": started, "succeeded": succeeded or None, "failed": failed or None}
    left_s = _left_s(spec, started, now)
    if succeeded >= completions:
        conditions = _conditions(("SuccessCriteriaMet", "Complete"), "CompletionsReached", "", now)
        status |= {"conditions": conditions, "completionTime": _text(now), "active": None, "ready": 0}
        return Plan(0, tuple(active), status)
    if failed > int(spec.get("backoffLimit", 6)):
        return _over(
            status, active, "BackoffLimitExceeded", "Job has reached the specified backoff limit", now
        )
    if left_s is not None and left_s <= 0:
        return _over(status, active, "DeadlineExceeded", "Job was active longer than specified deadline", now)
    create = max(0, min(parallelism, completions - succeeded) - len(active))
    ready = sum(_is_ready(pod) for pod in active)
    status |= {"active": len(active) + create, "ready": ready}
    return Plan(create, (), status, left_s)


def _over(status: dict[str, Any], active: Sequence[Object], reason: str, message: str, now: datetime) -> Plan:
    conditions = _conditions(("FailureTarget", "Failed"), reason, message, now)
    return Plan(0, tuple(active), {**status, "conditions": conditions, "active": None, "ready": 0})


def _left_s(spec: Object, started: str, now: datetime) -> float | None:
    limit = spec.get("activeDeadlineSeconds")
    if limit is None:
        return None
    return float(limit) - (now - datetime.fromisoformat(started.replace("Z", "+00:00"))).total_seconds()


def _conditions(kinds: Sequence[str], reason: str, message: str, now: datetime) -> list[dict[str, Any]]:
    times = {"lastProbeTime": _text(now), "lastTransitionTime": _text(now)}
    words = {"status": "True", "reason": reason, "message": message}
    return [{"type": kind, **words, **times} for kind in kinds]


def _text(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _is_deleting(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _is_ready(pod: Object) -> bool:
    rows = (pod.get("status") or {}).get("conditions") or ()
    return any(row["type"] == "Ready" and row["status"] == "True" for row in rows)
