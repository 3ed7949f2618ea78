"""Whether a pod may be evicted: what its disruption budget says, and what it says afterwards. Pure.

Source: kubernetes, pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from gpuready_sim.apiserver.failures import Failure, Obj, too_many_requests

VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
ALLOWED = "DisruptionAllowed"


def needs_no_budget(pod: Obj) -> bool:
    """A pod that does no work, or is on its way out anyhow."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def is_spared(pod: Obj, budget: Obj) -> bool:
    """A pod that is not ready may go without being counted, while enough others are healthy."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def check(budget: Obj) -> None:
    """
    raises  Failure 429 when the budget has no disruption left, or nobody has looked at it yet
    """
    meta, status = budget["metadata"], budget.get("status") or {}
    name = meta["name"]
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise _refusal(why, retry_after_s=10)
    if status.get("disruptionsAllowed", 0) > 0:
        return
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    if reason := _failed_sync(status):
        why = (
            f"The disruption budget {name} does not allow evicting pods currently because it failed sync: "
            f"{reason}"
        )
    elif current <= desired:
        why = f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    else:
        why = f"The disruption budget {name} does not allow evicting pods currently"
    raise _refusal(why)


def _failed_sync(status: Obj) -> str:
    for one in status.get("conditions") or []:
        if one.get("type") == ALLOWED and one.get("reason") == "SyncFailed":
            return str(one.get("message", ""))
    return ""


def _refusal(why: str, *, retry_after_s: int = 0) -> Failure:
    cause = {"reason": "DisruptionBudget", "message": why}
    return too_many_requests(VIOLATES, causes=[cause], retry_after_s=retry_after_s)


def counted(budget: Obj, pod: str, now: str) -> Obj:
    """The budget after one more disruption."""
    status = dict(budget.get("status") or {})
    status["disruptionsAllowed"] = status["disruptionsAllowed"] - 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: now}
    if status["disruptionsAllowed"] == 0:
        status["conditions"] = _exhausted(status.get("conditions") or [], budget, now)
    return budget | {"status": status}


def _exhausted(conditions: list[Obj], budget: Obj, now: str) -> list[Obj]:
    """With the condition that no more disruptions are allowed; its time is that of the change."""
    before = next((one for one in conditions if one.get("type") == ALLOWED), {})
    since = before["lastTransitionTime"] if before.get("status") == "False" else now
    told = {
        "type": ALLOWED,
        "status": "False",
        "observedGeneration": budget["metadata"].get("generation", 0),
        "lastTransitionTime": since,
        "reason": "InsufficientPods",
        "message": "",
    }
    return [*(one for one in conditions if one.get("type") != ALLOWED), told]
