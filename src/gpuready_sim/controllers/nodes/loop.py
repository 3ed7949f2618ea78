"""Watches node leases, writes conditions and taints, evicts, and collects pods of deleted nodes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from gpuready_sim.client import NODES, PODS, ApiStatus, NotFound, Object, SimClient, Unreachable, key_of
from gpuready_sim.controllers.caches import Caches
from gpuready_sim.controllers.events import Events, now_text
from gpuready_sim.controllers.loop import KeyedLoop
from gpuready_sim.controllers.nodes import health

log = logging.getLogger(__name__)
CHECK_S = 1.0
PROMPT_S = 1.0  # an API server that needs longer than this to answer may have kept leases from us
GONE_NODE_QUARANTINE_S = 2.0


class NodeController:
    """`grace_s`: how long a lease may go without renewal before its node counts as silent."""

    def __init__(self, client: SimClient, caches: Caches, *, grace_s: float = 8.0) -> None:
        self._client = client
        self._caches = caches
        self._grace_s = grace_s
        self._events = Events(client, "node-controller")
        self._loop = KeyedLoop("node controller", self._sync)
        self._evictions = KeyedLoop("taint eviction", self._evict)
        self._renewed: dict[str, float] = {}  # node -> when we last saw its lease change
        self._silent: set[str] = set()  # nodes that were so at the last check
        self._missing: dict[str, float] = {}  # node named by pods -> since when it is not there
        caches.nodes.add_handler(self._node_changed)
        caches.leases.add_handler(self._lease_changed)
        caches.pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._loop.run())
            group.create_task(self._evictions.run())
            group.create_task(self._check_regularly())

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new is None:
            self._renewed.pop(name, None)
            self._silent.discard(name)
            return
        if old is None:
            self._renewed[name] = time.monotonic()
        self._loop.mark(name)
        if (old or {}).get("spec", {}).get("taints") != new.get("spec", {}).get("taints"):
            for pod in self._pods_of(name):
                self._evictions.mark(key_of(pod))

    def _lease_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._renewed[new["metadata"]["name"]] = time.monotonic()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        bound = new is not None and new["spec"].get("nodeName")
        if new is not None and bound and (old is None or not old["spec"].get("nodeName")):
            self._evictions.mark(key_of(new))

    async def _check_regularly(self) -> None:
        """Time passes without events: leases that are not renewed, pods whose node is gone."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(CHECK_S)
            sees = await self._sees_leases()
            now = time.monotonic()
            if not sees or now - before > 3 * CHECK_S:
                # Not knowing is not silence: after an outage everyone gets the full grace again.
                self._renewed = dict.fromkeys(self._caches.nodes.objects, now)
            before = now
            self._silent = self._silent_for(self._grace_s, now)
            for name in self._silent:
                self._loop.mark(name)
            await self._collect_pods(now)

    async def _sees_leases(self) -> bool:
        """Whether a renewal would have reached us: the watches are open, and the API server answers.

        A server that hangs keeps its watches open, so it has to be asked.
        """
        asked = time.monotonic()
        try:
            await self._client.raw_bytes("GET", "/readyz")
        except (ApiStatus, Unreachable):
            return False
        connected = self._caches.leases.connected and self._caches.nodes.connected
        return connected and time.monotonic() - asked <= PROMPT_S

    def _silent_for(self, grace_s: float, now: float) -> set[str]:
        return {
            name for name in self._caches.nodes.objects if now - self._renewed.setdefault(name, now) > grace_s
        }

    async def _sync(self, name: str) -> float | None:
        node = self._caches.nodes.get(name)
        if node is None:
            return None
        if name in self._silent:
            await self._mark_silent(node)
        wanted = health.wanted_taints(node, now_text())
        if wanted is not None:
            version = node["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": wanted or None}}
            await self._client.merge_patch(NODES, name, patch)
        return None

    async def _mark_silent(self, node: Object) -> None:
        name = node["metadata"]["name"]
        conditions = health.silent_conditions(node, now_text())
        if conditions:
            self._events.say(
                {**node, "apiVersion": "v1", "kind": "Node"},
                "Normal",
                "NodeNotReady",
                f"Node {name} status is now: NodeNotReady",
            )
            patch = {"status": {"conditions": conditions}}
            await self._client.strategic_patch(NODES, name, patch, subresource="status")
        for pod in health.pods_to_mark_unready(self._pods_of(name)):
            await self._mark_unready(pod)

    async def _mark_unready(self, pod: Mapping[str, Any]) -> None:
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": now_text()}
        meta = pod["metadata"]
        try:
            await self._client.strategic_patch(
                PODS,
                meta["name"],
                {"status": {"conditions": [condition]}},
                meta["namespace"],
                subresource="status",
            )
        except NotFound:
            pass

    async def _evict(self, key: str) -> float | None:
        pod = self._caches.pods.objects.get(key)
        node = self._caches.nodes.get(pod["spec"].get("nodeName", "")) if pod else None
        if pod is None or node is None or pod["metadata"].get("deletionTimestamp"):
            return None
        wait_s = health.evict_in(pod, node, datetime.now(UTC))
        if wait_s:
            return wait_s
        if wait_s == 0:
            message = f"Marking for deletion Pod {key}"
            self._events.say(
                {**pod, "apiVersion": "v1", "kind": "Pod"}, "Normal", "TaintManagerEviction", message
            )
            meta = pod["metadata"]
            await self._client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"])
        return None

    async def _collect_pods(self, now: float) -> None:
        """Delete pods bound to nodes that are gone, and deleting ones that never had a node."""
        named = {
            p["spec"]["nodeName"] for p in self._caches.pods.objects.values() if p["spec"].get("nodeName")
        }
        missing = named - self._caches.nodes.objects.keys()
        self._missing = {name: self._missing.get(name, now) for name in missing}
        over = {name for name, since in self._missing.items() if now - since >= GONE_NODE_QUARANTINE_S}
        await self._force_delete(
            pod for pod in list(self._caches.pods.objects.values()) if _is_lost(pod, over)
        )

    async def _force_delete(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            meta = pod["metadata"]
            try:
                await self._client.delete(PODS, meta["name"], meta["namespace"], grace_s=0, uid=meta["uid"])
            except (ApiStatus, Unreachable) as exc:
                log.info("pod of a deleted node not removed yet: %s", exc)

    def _pods_of(self, name: str) -> list[Object]:
        return [p for p in self._caches.pods.objects.values() if p["spec"].get("nodeName") == name]


def _is_lost(pod: Object, gone_nodes: set[str]) -> bool:
    node_name = pod["spec"].get("nodeName")
    return node_name in gone_nodes if node_name else bool(pod["metadata"].get("deletionTimestamp"))
