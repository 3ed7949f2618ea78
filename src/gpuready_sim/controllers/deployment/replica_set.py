"""Keeps as many pods as a ReplicaSet says, and counts them in its status.

Source: kubernetes, pkg/controller/replicaset/replica_set.go; of its order of deletion only the first rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gpuready_sim.client import PODS, REPLICA_SETS, NotFound, Object, SimClient, key_of
from gpuready_sim.controllers.caches import Caches
from gpuready_sim.controllers.daemonset.rollout import is_available, is_ready
from gpuready_sim.controllers.events import Events
from gpuready_sim.controllers.loop import KeyedLoop
from gpuready_sim.controllers.owned import Expected, controller_of, is_deleting, pod_from, reference_to


class ReplicaSetController:
    def __init__(self, client: SimClient, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._events = Events(client, "replicaset-controller")
        self._expected = Expected()
        self._loop = KeyedLoop("replica set controller", self._sync)
        caches.replica_sets.add_handler(lambda old, new: self._loop.mark(key_of(new or old or {})))
        caches.pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        await self._loop.run()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        self._expected.seen(old, new)
        pod = new or old or {}
        owner = controller_of(pod)
        if owner and owner["kind"] == "ReplicaSet":
            self._loop.mark(f"{pod['metadata']['namespace']}/{owner['name']}")

    async def _sync(self, key: str) -> float | None:
        replica_set = self._caches.replica_sets.objects.get(key)
        if replica_set is None or is_deleting(replica_set):
            return None
        active = self._active(replica_set)
        wanted = int(replica_set["spec"].get("replicas", 1))
        for _ in range(wanted - len(active)):
            await self._create(replica_set)
        for pod in sorted(active, key=worth)[: max(0, len(active) - wanted)]:
            await self._delete(replica_set, pod)
        return await self._report(replica_set)

    def _active(self, replica_set: Object) -> list[Mapping[str, Any]]:
        pods = self._expected.of(replica_set["metadata"]["uid"], self._caches.pods.objects.values())
        return [pod for pod in pods if is_active(pod)]

    async def _create(self, replica_set: Object) -> None:
        reference = reference_to("apps/v1", "ReplicaSet", replica_set)
        pod = await self._client.create(
            PODS, pod_from(replica_set["spec"]["template"], replica_set, reference, {})
        )
        if key_of(pod) not in self._caches.pods.objects:
            self._expected.created(pod)
        self._say(replica_set, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")

    async def _delete(self, replica_set: Object, pod: Mapping[str, Any]) -> None:
        meta = pod["metadata"]
        self._expected.deleted(pod)
        await self._client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"])
        self._say(replica_set, "SuccessfulDelete", f"Deleted pod: {meta['name']}")

    def _say(self, replica_set: Object, reason: str, message: str) -> None:
        about = {**replica_set, "apiVersion": "apps/v1", "kind": "ReplicaSet"}
        self._events.say(about, "Normal", reason, message)

    async def _report(self, replica_set: Object) -> float | None:
        """Seconds after which a ready pod becomes an available one."""
        min_ready_s = float(replica_set["spec"].get("minReadySeconds") or 0)
        status = status_of(replica_set, self._active(replica_set), min_ready_s)
        have, meta = replica_set.get("status") or {}, replica_set["metadata"]
        if any(have.get(name) != value for name, value in status.items()):
            try:
                await self._client.merge_patch(
                    REPLICA_SETS, meta["name"], {"status": status}, meta["namespace"], subresource="status"
                )
            except NotFound:
                return None  # deleted meanwhile
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
