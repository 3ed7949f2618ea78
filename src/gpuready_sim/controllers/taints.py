"""Taints and tolerations. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
DISK_PRESSURE = "node.kubernetes.io/disk-pressure"
MEMORY_PRESSURE = "node.kubernetes.io/memory-pressure"
PID_PRESSURE = "node.kubernetes.io/pid-pressure"
NETWORK_UNAVAILABLE = "node.kubernetes.io/network-unavailable"

Taint = Mapping[str, Any]
Toleration = Mapping[str, Any]


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def first_untolerated(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    effects: tuple[str, ...] = (NO_SCHEDULE, NO_EXECUTE),
) -> Taint | None:
    """The first taint with one of the effects that no toleration covers."""
    known = list(tolerations)
    return next(
        (t for t in taints if t["effect"] in effects and not any(tolerates(tol, t) for tol in known)), None
    )


def taints_of(node: Mapping[str, Any]) -> list[Taint]:
    return (node.get("spec") or {}).get("taints") or []


def tolerations_of(pod_spec: Mapping[str, Any]) -> list[Toleration]:
    return pod_spec.get("tolerations") or []


def seconds_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> float | None:
    """How long a NoExecute taint may be borne: 0 not at all, None for ever, else the shortest limit."""
    matching = [t for t in tolerations if tolerates(t, taint)]
    if not matching:
        return 0.0
    limits = [
        max(0.0, float(t["tolerationSeconds"])) for t in matching if t.get("tolerationSeconds") is not None
    ]
    return min(limits) if limits else None
