"""Keeps as many pods as a ReplicaSet says, and counts them in its status.

Source: kubernetes, pkg/controller/replicaset/replica_set.go; of its order of deletion only the first rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gpuready_sim.client import REPLICA_SETS, Object, SimClient
from gpuready_sim.controllers.caches import Caches
from gpuready_sim.controllers.daemonset.rollout import is_available, is_ready
from gpuready_sim.controllers.owned import is_deleting
from gpuready_sim.controllers.pod_owner import PodOwner


class ReplicaSetController(PodOwner):
    def __init__(self, client: SimClient, caches: Caches) -> None:
        super().__init__(client, caches, REPLICA_SETS, caches.replica_sets, name="replicaset-controller")

    async def sync(self, owner: Object) -> float | None:
        active = self._active(owner)
        wanted = int(owner["spec"].get("replicas", 1))
        for _ in range(wanted - len(active)):
            await self.create_pod(owner, {})
        for pod in sorted(active, key=worth)[: max(0, len(active) - wanted)]:
            await self.delete_pod(pod)
            self.say(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
        return await self._report(owner)

    def _active(self, replica_set: Object) -> list[Mapping[str, Any]]:
        return [pod for pod in self.pods_of(replica_set) if is_active(pod)]

    async def _report(self, replica_set: Object) -> float | None:
        """Seconds after which a ready pod becomes an available one."""
        min_ready_s = float(replica_set["spec"].get("minReadySeconds") or 0)
        status = status_of(replica_set, self._active(replica_set), min_ready_s)
        await self.report(replica_set, status)
        waits = (status["readyReplicas"] or 0) > (status["availableReplicas"] or 0)
        return min_ready_s if waits else None


def is_active(pod: Mapping[str, Any]) -> bool:
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not ended and not is_deleting(pod)


def worth(pod: Mapping[str, Any]) -> tuple[bool, bool, str]:
    """What is deleted first: without a node, then not ready, then the youngest."""
    age = str(pod["metadata"].get("creationTimestamp", ""))
    inverted = "".join(chr(0x10FFFF - ord(char)) for char in age)
    return bool(pod["spec"].get("nodeName")), is_ready(pod), inverted


def status_of(
    replica_set: Mapping[str, Any], active: Sequence[Mapping[str, Any]], min_ready_s: float
) -> dict[str, Any]:
    """As a merge patch: all but `replicas` are absent when they are zero."""
    now = datetime.now(UTC)
    return {
        "replicas": len(active),
        "fullyLabeledReplicas": len(active) or None,
        "readyReplicas": sum(is_ready(pod) for pod in active) or None,
        "availableReplicas": sum(is_available(pod, min_ready_s, now) for pod in active) or None,
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }
