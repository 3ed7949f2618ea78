"""Which conditions and taints a node should have, and which pods must leave it. Pure.

Source: kubernetes, pkg/controller/nodelifecycle/node_lifecycle_controller.go,
pkg/controller/tainteviction/taint_eviction.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from gpuready_sim.controllers import taints
from gpuready_sim.controllers.taints import NO_EXECUTE, NO_SCHEDULE

Object = Mapping[str, Any]
SILENT_REASON = "NodeStatusUnknown"
SILENT_MESSAGE = "Kubelet stopped posting node status."
NEVER_REASON = "NodeStatusNeverUpdated"
NEVER_MESSAGE = "Kubelet never posted node status."
_KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_PRESSURES = {
    "MemoryPressure": taints.MEMORY_PRESSURE,
    "DiskPressure": taints.DISK_PRESSURE,
    "PIDPressure": taints.PID_PRESSURE,
    "NetworkUnavailable": taints.NETWORK_UNAVAILABLE,
}


def silent_conditions(node: Object, now: str) -> list[dict[str, Any]]:
    """The conditions of the kubelet, all Unknown; empty when they are already."""
    conditions = (node.get("status") or {}).get("conditions") or []
    by_type = {c["type"]: c for c in conditions}
    if all(by_type.get(name, {}).get("status") == "Unknown" for name in _KUBELET_CONDITIONS):
        return []
    return [_unknown(name, by_type.get(name), now) for name in _KUBELET_CONDITIONS]


def _unknown(name: str, known: Object | None, now: str) -> dict[str, Any]:
    heartbeat = known.get("lastHeartbeatTime") if known else None
    return {
        "type": name,
        "status": "Unknown",
        "reason": SILENT_REASON if known else NEVER_REASON,
        "message": SILENT_MESSAGE if known else NEVER_MESSAGE,
        "lastHeartbeatTime": heartbeat or node_time(known, now),
        "lastTransitionTime": now,
    }


def node_time(known: Object | None, now: str) -> str:
    return str((known or {}).get("lastTransitionTime") or now)


def wanted_taints(node: Object, now: str) -> list[dict[str, Any]] | None:
    """The node's taints with those that its conditions ask for; None when they are right already.

    Taints that are not ours stay, in their order; ours keep the time they were added.
    """
    have = list(taints.taints_of(node))
    wanted = _by_conditions(node)
    foreign = [dict(t) for t in have if not _is_ours(t)]
    kept = [dict(t) for t in have if (t["key"], t["effect"]) in wanted]
    known = {(t["key"], t["effect"]) for t in kept}
    added = [{"key": k, "effect": e, "timeAdded": now} for k, e in wanted if (k, e) not in known]
    result = [*foreign, *kept, *added]
    same = len(result) == len(have) and all(t in have for t in result)
    return None if same else result


def _by_conditions(node: Object) -> list[tuple[str, str]]:
    conditions = {c["type"]: c["status"] for c in (node.get("status") or {}).get("conditions") or []}
    ready = conditions.get("Ready", "False")
    wanted: list[tuple[str, str]] = []
    if ready == "False":
        wanted += [(taints.NOT_READY, NO_SCHEDULE), (taints.NOT_READY, NO_EXECUTE)]
    elif ready == "Unknown":
        wanted += [(taints.UNREACHABLE, NO_SCHEDULE), (taints.UNREACHABLE, NO_EXECUTE)]
    wanted += [(key, NO_SCHEDULE) for name, key in _PRESSURES.items() if conditions.get(name) == "True"]
    if (node.get("spec") or {}).get("unschedulable"):
        wanted.append((taints.UNSCHEDULABLE, NO_SCHEDULE))
    return wanted


_OURS = {
    *((key, NO_SCHEDULE) for key in (taints.NOT_READY, taints.UNREACHABLE, taints.UNSCHEDULABLE)),
    *((key, NO_EXECUTE) for key in (taints.NOT_READY, taints.UNREACHABLE)),
    *((key, NO_SCHEDULE) for key in _PRESSURES.values()),
}


def _is_ours(taint: Object) -> bool:
    return (taint["key"], taint["effect"]) in _OURS


def evict_in(pod: Object, node: Object, now: datetime) -> float | None:
    """Seconds until a NoExecute taint drives the pod away: 0 now, None never."""
    waits: list[float] = []
    for taint in taints.taints_of(node):
        if taint["effect"] != NO_EXECUTE:
            continue
        limit = taints.seconds_tolerated(taint, taints.tolerations_of(pod["spec"]))
        if limit is not None:
            waits.append(max(0.0, limit - _age_s(taint, now)))
    return min(waits) if waits else None


def _age_s(taint: Object, now: datetime) -> float:
    if not taint.get("timeAdded"):
        return 0.0
    added = datetime.fromisoformat(str(taint["timeAdded"]).replace("Z", "+00:00"))
    return max(0.0, (now - added).total_seconds())


def pods_to_mark_unready(pods: Sequence[Object]) -> list[Object]:
    """Pods of a silent node that still claim to be Ready."""
    return [
        pod
        for pod in pods
        if any(
            c["type"] == "Ready" and c["status"] == "True"
            for c in (pod.get("status") or {}).get("conditions") or []
        )
    ]
