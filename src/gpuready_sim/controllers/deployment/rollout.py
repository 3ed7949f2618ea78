"""How many replicas each ReplicaSet of a Deployment should have, and what the status says. Pure.

Source: kubernetes, pkg/controller/deployment/{rolling.go,recreate.go,util/deployment_util.go}. Not done:
paused Deployments, proportional scaling of several old ReplicaSets, progress deadlines.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]
HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True)
class View:
    """One Deployment, its ReplicaSets and the pods of those."""

    deployment: Object
    replica_sets: Sequence[Object]
    pods: int  # of all its ReplicaSets, those on their way out included

    @property
    def wanted(self) -> int:
        return int(self.deployment["spec"].get("replicas", 1))

    @property
    def new(self) -> Object | None:
        """The ReplicaSet of the current template."""
        word = template_hash(self.deployment)
        return next((each for each in self.replica_sets if hash_of(each) == word), None)

    @property
    def old(self) -> list[Object]:
        word = template_hash(self.deployment)
        return sorted((each for each in self.replica_sets if hash_of(each) != word), key=revision_of)


def scaled(view: View) -> dict[str, int]:
    """Replicas by name of the ReplicaSets that should have another number than now."""
    if view.new is None:
        return {}
    if _strategy(view).get("type", "RollingUpdate") == "Recreate":
        wanted = _recreated(view, view.new)
    else:
        wanted = _rolled(view, view.new)
    known = {name_of(each): replicas_of(each) for each in view.replica_sets}
    return {name: count for name, count in wanted.items() if known[name] != count}


def _recreated(view: View, new: Object) -> dict[str, int]:
    """The old ones first, and nothing new before the last old pod is gone."""
    wanted = {name_of(each): 0 for each in view.old}
    own = int((new.get("status") or {}).get("replicas", 0))
    if not any(replicas_of(each) for each in view.old) and view.pods <= own:
        wanted[name_of(new)] = view.wanted
    return wanted


def _rolled(view: View, new: Object) -> dict[str, int]:
    """Up to maxSurge more at once, never fewer than maxUnavailable below the wanted number."""
    surge, unavailable = limits(view)
    total = sum(replicas_of(each) for each in view.replica_sets)
    more = max(0, view.wanted + surge - total)
    up = min(view.wanted, replicas_of(new) + more)
    wanted = {name_of(new): up}
    available = sum(int((each.get("status") or {}).get("availableReplicas", 0)) for each in view.replica_sets)
    spare = available - (view.wanted - unavailable)
    for each in view.old:
        have = replicas_of(each)
        sick = have - int((each.get("status") or {}).get("availableReplicas", 0))
        gone = min(have, max(0, sick) + max(0, spare))
        spare -= max(0, gone - max(0, sick))
        wanted[name_of(each)] = have - gone
    return wanted


def limits(view: View) -> tuple[int, int]:
    """(maxSurge, maxUnavailable): percentages round up and down; never both 0."""
    rolling = _strategy(view).get("rollingUpdate") or {}
    surge = _amount(rolling.get("maxSurge", "25%"), view.wanted, math.ceil)
    unavailable = _amount(rolling.get("maxUnavailable", "25%"), view.wanted, math.floor)
    return surge, unavailable if surge or unavailable else 1


def new_replica_set(view: View, revision: int) -> dict[str, Any]:
    """For the current template, with no replicas yet."""
    deployment, word = view.deployment, template_hash(view.deployment)
    meta, spec = deployment["metadata"], deployment["spec"]
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: word}
    selector = spec["selector"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta['name']}-{word}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": {REVISION: str(revision)},
        },
        "spec": {
            "replicas": 0,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: word},
            },
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }


def surplus(view: View) -> list[Object]:
    """Old ReplicaSets beyond the history limit that have no pods."""
    idle = [
        each for each in view.old if not replicas_of(each) and not (each.get("status") or {}).get("replicas")
    ]
    limit = int(view.deployment["spec"].get("revisionHistoryLimit", 10))
    return idle[: max(0, len(idle) - limit)]


def status_of(view: View, now: str) -> dict[str, Any]:
    """As a merge patch: counters that are zero are absent."""
    total = sum(_count(each, "replicas") for each in view.replica_sets)
    ready = sum(_count(each, "readyReplicas") for each in view.replica_sets)
    available = sum(_count(each, "availableReplicas") for each in view.replica_sets)
    updated = _count(view.new, "replicas") if view.new else 0
    _, unavailable = limits(view)
    is_available = available >= view.wanted - unavailable
    is_done = updated == view.wanted == total == available
    conditions = [
        _condition("Available", is_available, "MinimumReplicasAvailable", "MinimumReplicasUnavailable"),
        _condition("Progressing", True, "NewReplicaSetAvailable" if is_done else "ReplicaSetUpdated", ""),
    ]
    return {
        "observedGeneration": view.deployment["metadata"].get("generation", 0),
        "replicas": total or None,
        "updatedReplicas": updated or None,
        "readyReplicas": ready or None,
        "availableReplicas": available or None,
        "unavailableReplicas": max(0, max(total, view.wanted) - available) or None,
        "conditions": _dated(conditions, (view.deployment.get("status") or {}).get("conditions") or [], now),
    }


def next_revision(view: View) -> int:
    return max((revision_of(each) for each in view.replica_sets), default=0) + 1


def revision_of(replica_set: Object) -> int:
    return int((replica_set["metadata"].get("annotations") or {}).get(REVISION, 0))


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def replicas_of(replica_set: Object) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def hash_of(replica_set: Object) -> str:
    return str((replica_set["metadata"].get("labels") or {}).get(HASH_LABEL, ""))


def template_hash(deployment: Object) -> str:
    """A short word that changes when the pod template changes."""
    text = json.dumps(deployment["spec"]["template"], sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_SAFE_ALPHABET[byte % len(_SAFE_ALPHABET)] for byte in digest[:10])


def _strategy(view: View) -> Mapping[str, Any]:
    return view.deployment["spec"].get("strategy") or {}


def _amount(value: Any, of: int, rounded: Any) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return int(rounded(of * int(value[:-1]) / 100))
    return int(value)


def _count(replica_set: Object, name: str) -> int:
    return int((replica_set.get("status") or {}).get(name, 0))


def _condition(kind: str, holds: bool, yes: str, no: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": yes if holds else no,
        "message": "",
    }


def _dated(wanted: list[dict[str, Any]], have: Sequence[Object], now: str) -> list[dict[str, Any]]:
    """With the times of those that have not changed."""
    before = {each["type"]: each for each in have}
    dated = []
    for each in wanted:
        old = before.get(each["type"]) or {}
        same = {key: old.get(key) for key in each} == each
        changed = str(old.get("lastTransitionTime")) if old.get("status") == each["status"] else now
        dated.append(
            {
                **each,
                "lastUpdateTime": old.get("lastUpdateTime") if same else now,
                "lastTransitionTime": changed,
            }
        )
    return dated
