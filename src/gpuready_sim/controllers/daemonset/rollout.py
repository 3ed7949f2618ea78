"""Which daemon pods to create and delete, and what the status says. Pure.

Source: kubernetes, pkg/controller/daemon/{daemon_controller.go,update.go}. maxSurge is not done.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gpuready_sim.controllers.daemonset.placement import HASH_LABEL, fit
from gpuready_sim.controllers.selectors import pinned_node

Object = Mapping[str, Any]


@dataclass(frozen=True)
class View:
    """One DaemonSet and everything that decides about it."""

    daemon_set: Object
    nodes: Sequence[Object]
    pods: Sequence[Object]  # those that it controls
    revision_hash: str
    now: datetime


@dataclass(frozen=True)
class Plan:
    """`finished` pods are deleted too; they are named apart because an event tells of each."""

    create: tuple[str, ...] = ()  # node names
    delete: tuple[Object, ...] = ()
    finished: tuple[Object, ...] = ()


def manage(view: View) -> Plan:
    """Start missing pods, remove those that do not belong, that ended, or that are one too many."""
    create: list[str] = []
    delete: list[Object] = []
    finished: list[Object] = []
    by_node = pods_by_node(view.pods)
    for node in sorted(view.nodes, key=lambda n: str(n["metadata"]["name"])):
        name = node["metadata"]["name"]
        decision = fit(view.daemon_set, node)
        pods = by_node.pop(name, [])
        if decision.run and not pods:
            create.append(name)
        elif decision.keep:
            ended = [p for p in pods if _ended(p) and not is_deleting(p)]
            finished += ended
            delete += _surplus([p for p in pods if not _ended(p) and not is_deleting(p)])
        else:
            delete += [p for p in pods if not is_deleting(p)]
    for orphaned in by_node.values():
        # Pods pinned to a node that is gone and not bound yet; bound ones belong to the pod collector.
        delete += [p for p in orphaned if not p["spec"].get("nodeName") and not is_deleting(p)]
    return Plan(tuple(create), tuple(delete), tuple(finished))


def roll(view: View) -> Plan:
    """RollingUpdate: delete outdated pods, as many as maxUnavailable allows; unavailable ones at once.

    A pod that stays although a taint has come since is outdated like any other, and none replaces it.
    """
    strategy = view.daemon_set["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return Plan()
    unavailable = 0
    at_once: list[Object] = []
    candidates: list[Object] = []
    budget = max_unavailable(view)
    by_node = pods_by_node(view.pods)
    wanted = set(_wanted_nodes(view))
    for name in sorted(wanted | by_node.keys()):
        pods = [p for p in by_node.get(name, []) if not is_deleting(p)]
        if len(pods) != 1:
            unavailable += name in wanted  # missing, leaving, or doubled: manage() comes first
        elif is_available(pods[0], _min_ready_s(view.daemon_set), view.now):
            if _is_outdated(pods[0], view):
                candidates.append(pods[0])
        else:
            unavailable += 1
            if _is_outdated(pods[0], view):
                at_once.append(pods[0])
    free = max(0, budget - unavailable)
    return Plan(delete=(*at_once, *candidates[:free]))


def max_unavailable(view: View) -> int:
    """At least 1; percentages round up over the nodes that should run a pod."""
    rolling = (view.daemon_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    value = rolling.get("maxUnavailable", 1)
    desired = len(_wanted_nodes(view))
    if isinstance(value, str) and value.endswith("%"):
        return max(1, math.ceil(desired * int(value[:-1]) / 100))
    return max(1, int(value))


@dataclass(frozen=True)
class Status:
    """The numbers of DaemonSet.status."""

    desired: int = 0
    current: int = 0
    misscheduled: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0
    generation: int = 0
    next_check_s: float | None = field(default=None, compare=False)  # a pod becomes available by waiting

    def to_json(self) -> dict[str, int | None]:
        """As a merge patch: counters that are zero are absent, as the real controller leaves them."""
        return {
            "desiredNumberScheduled": self.desired,
            "currentNumberScheduled": self.current,
            "numberMisscheduled": self.misscheduled,
            "numberReady": self.ready,
            "updatedNumberScheduled": self.updated or None,
            "numberAvailable": self.available or None,
            "numberUnavailable": (self.desired - self.available) or None,
            "observedGeneration": self.generation,
        }


def status_of(view: View) -> Status:
    desired = current = misscheduled = ready = updated = available = 0
    waits: list[float] = []
    by_node = pods_by_node(view.pods)
    min_ready_s = _min_ready_s(view.daemon_set)
    for node in view.nodes:
        should_run = fit(view.daemon_set, node).run
        pods = by_node.get(node["metadata"]["name"], [])
        if not should_run:
            misscheduled += bool(pods)
            continue
        desired += 1
        if not pods:
            continue
        current += 1
        pod = min(pods, key=_age_key)
        updated += not _is_outdated(pod, view)
        if is_ready(pod):
            ready += 1
            if is_available(pod, min_ready_s, view.now):
                available += 1
            else:
                waits.append(min_ready_s)
    generation = view.daemon_set["metadata"].get("generation", 0)
    soon = min(waits) if waits else None
    return Status(desired, current, misscheduled, ready, updated, available, generation, soon)


def pods_by_node(pods: Iterable[Object]) -> dict[str, list[Object]]:
    """By the node a pod is bound to or, before that, pinned to."""
    grouped: dict[str, list[Object]] = {}
    for pod in pods:
        name = pod["spec"].get("nodeName") or pinned_node(pod["spec"])
        if name:
            grouped.setdefault(name, []).append(pod)
    return grouped


def is_deleting(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_ready(pod: Object) -> bool:
    return _ready_since(pod) is not None


def is_available(pod: Object, min_ready_s: float, now: datetime) -> bool:
    since = _ready_since(pod)
    return since is not None and (not min_ready_s or (now - since).total_seconds() >= min_ready_s)


def _ready_since(pod: Object) -> datetime | None:
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == "Ready" and condition["status"] == "True":
            return parse_time(condition.get("lastTransitionTime") or pod["metadata"]["creationTimestamp"])
    return None


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _wanted_nodes(view: View) -> list[str]:
    return [str(n["metadata"]["name"]) for n in view.nodes if fit(view.daemon_set, n).run]


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def _surplus(pods: Sequence[Object]) -> list[Object]:
    return sorted(pods, key=_age_key)[1:]


def _age_key(pod: Object) -> tuple[bool, str, str]:
    """Bound ones first, then the oldest."""
    meta = pod["metadata"]
    return not pod["spec"].get("nodeName"), meta.get("creationTimestamp", ""), meta["name"]


def _is_outdated(pod: Object, view: View) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get(HASH_LABEL) != view.revision_hash)


def _min_ready_s(daemon_set: Object) -> float:
    return float(daemon_set["spec"].get("minReadySeconds") or 0)
