"""What a disruption budget allows, from the pods it covers. Pure.

Source: kubernetes, pkg/controller/disruption/disruption.go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

Object = Mapping[str, Any]

# An eviction that was allowed and has not happened by then will not happen (DeletionTimeout).
FORGOTTEN_AFTER = timedelta(minutes=2)
CONDITION = "DisruptionAllowed"
REPLICAS_OF = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")


class NotScalable(Exception):
    """A budget in shares, or of the unavailable, over pods of a kind that has no number of replicas."""


def status_of(budget: Object, pods: Sequence[Object], replicas: Mapping[str, int], now: datetime) -> Object:
    """The whole status.

    pods      those that the budget covers
    replicas  wanted number by "Kind/name" of the owners of these pods
    """
    meta, old = budget["metadata"], budget.get("status") or {}
    disrupted = _pending(old.get("disruptedPods") or {}, pods, now)
    try:
        expected, desired = _numbers(budget.get("spec") or {}, pods, replicas)
    except NotScalable as exc:
        failed = dict(old) | {"disruptionsAllowed": 0, "observedGeneration": meta.get("generation", 0)}
        return failed | {"conditions": [_condition(budget, "False", "SyncFailed", str(exc), now)]}
    healthy = sum(_is_healthy(pod) and pod["metadata"]["name"] not in disrupted for pod in pods)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status: dict[str, Any] = {
        "observedGeneration": meta.get("generation", 0),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": [
            _condition(budget, "True", "SufficientPods", "", now)
            if allowed
            else _condition(budget, "False", "InsufficientPods", "", now)
        ],
    }
    return status | ({"disruptedPods": disrupted} if disrupted else {})


def _numbers(spec: Object, pods: Sequence[Object], replicas: Mapping[str, int]) -> tuple[int, int]:
    """(pods expected, healthy ones desired)"""
    if "maxUnavailable" in spec:
        expected = _expected(pods, replicas)
        return expected, max(0, expected - _share(spec["maxUnavailable"], expected))
    least = spec.get("minAvailable", 0)
    if isinstance(least, int):
        return len(pods), least
    expected = _expected(pods, replicas)
    return expected, _share(least, expected)


def _share(value: int | str, total: int) -> int:
    return value if isinstance(value, int) else math.ceil(int(value.rstrip("%")) * total / 100)


def _expected(pods: Sequence[Object], replicas: Mapping[str, int]) -> int:
    """What the owners of these pods want together; pods without an owner do not count.

    raises  NotScalable
    """
    owners = {owner for pod in pods if (owner := owner_of(pod))}
    for owner in sorted(owners):
        kind, _, name = owner.partition("/")
        if kind not in REPLICAS_OF:
            raise NotScalable(f"{kind.lower()}s.apps does not implement the scale subresource ({name})")
    return sum(replicas.get(owner, 0) for owner in owners)


def owner_of(pod: Object) -> str:
    """Its controller as "Kind/name", empty without one."""
    for one in pod["metadata"].get("ownerReferences") or []:
        if one.get("controller"):
            return f"{one['kind']}/{one['name']}"
    return ""


def _pending(disrupted: Mapping[str, str], pods: Sequence[Object], now: datetime) -> dict[str, str]:
    """Evictions that were allowed and have not reached their pods yet."""
    waiting = {pod["metadata"]["name"] for pod in pods if not pod["metadata"].get("deletionTimestamp")}
    return {
        name: since
        for name, since in disrupted.items()
        if name in waiting and now - datetime.fromisoformat(since) < FORGOTTEN_AFTER
    }


def _is_healthy(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def _condition(budget: Object, value: str, reason: str, message: str, now: datetime) -> Object:
    """Its time is that of the last change of its value."""
    old = (budget.get("status") or {}).get("conditions") or []
    before: Object = next((one for one in old if one.get("type") == CONDITION), {})
    since = before.get("lastTransitionTime") if before.get("status") == value else None
    return {
        "type": CONDITION,
        "status": value,
        "reason": reason,
        "message": message,
        "observedGeneration": budget["metadata"].get("generation", 0),
        "lastTransitionTime": since or now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
