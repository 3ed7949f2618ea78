"""Deletes what lost its owners, and finishes foreground and orphaning deletions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from gpuready_sim.client import NotFound, Object, SimClient
from gpuready_sim.controllers.garbage.graph import (
    FOREGROUND,
    ORPHAN,
    Action,
    Graph,
    Item,
    Owner,
    blocks,
    item_of,
    judge,
)
from gpuready_sim.controllers.garbage.watching import GraphWatcher
from gpuready_sim.controllers.loop import KeyedLoop
from gpuready_sim.discovery import find_resource

UNKNOWN_OWNER_RETRY_S = 10.0


class GarbageCollector:
    def __init__(self, client: SimClient, graph: Graph) -> None:
        self._client = client
        self._graph = graph
        self._watcher = GraphWatcher(client, graph, self._changed)
        self._loop = KeyedLoop("garbage collector", self._sync, workers=8)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watcher.run())
            await self._watcher.synced.wait()
            group.create_task(self._loop.run())

    def _changed(self, old: Item | None, new: Item | None) -> None:
        for item in (old, new):
            if item is None:
                continue
            for owner in item.owners:
                if self._is_finishing(owner["uid"]):
                    self._loop.mark(owner["uid"])  # it may have waited for this one
        if new is None and old is not None:
            for dependent in self._graph.dependents(old.uid):
                self._loop.mark(dependent.uid)
        elif new is not None and (new.owners or new.deleting):
            self._loop.mark(new.uid)

    def _is_finishing(self, uid: str) -> bool:
        owner = self._graph.get(uid)
        return owner is not None and owner.deletes_in_foreground

    async def _sync(self, uid: str) -> float | None:
        item = self._graph.get(uid)
        if item is None:
            return None
        if item.orphans:
            await self._orphan(item)
        elif item.deletes_in_foreground:
            await self._wait_for_dependents(item)
        elif item.owners and not item.deleting:
            return await self._check_owners(item)
        return None

    async def _check_owners(self, known: Item) -> float | None:
        if not any([await self._fate(known, owner) is not Owner.SOLID for owner in known.owners]):
            return None
        live = await self._client.find(known.resource, known.name, known.namespace or None)
        if live is None or live["metadata"]["uid"] != known.uid:
            return None
        item = item_of(known.resource, live)
        fates = [await self._fate(item, owner) for owner in item.owners]
        action = judge(item, fates, has_dependents=bool(self._graph.dependents(item.uid)))
        if action is Action.STRIP:
            gone = {o["uid"] for o, fate in zip(item.owners, fates, strict=True) if fate is not Owner.SOLID}
            await self._strip(live, item, gone)
        elif action in (Action.DELETE, Action.DELETE_FOREGROUND):
            propagation = "Foreground" if action is Action.DELETE_FOREGROUND else "Background"
            namespace = item.namespace or None
            await self._client.delete(
                item.resource, item.name, namespace, propagation=propagation, uid=item.uid
            )
        return UNKNOWN_OWNER_RETRY_S if Owner.UNKNOWN in fates else None

    async def _fate(self, item: Item, reference: Mapping[str, Any]) -> Owner:
        owner = self._graph.get(reference["uid"])
        # Under another name it is not the one that was meant: who is asked for by name then decides.
        if owner is not None and owner.name == reference["name"]:
            if owner.namespace and owner.namespace != item.namespace:
                return Owner.ABSENT if item.namespace else Owner.UNKNOWN
            waiting = owner.deletes_in_foreground and reference.get("blockOwnerDeletion")
            return Owner.WAITING if waiting else Owner.SOLID
        resource = find_resource(self._watcher.resources, reference["apiVersion"], reference["kind"])
        if resource is None or (resource.namespaced and not item.namespace):
            return Owner.UNKNOWN
        namespace = item.namespace if resource.namespaced else None
        live = await self._client.find(resource, reference["name"], namespace)
        return Owner.SOLID if live and live["metadata"]["uid"] == reference["uid"] else Owner.ABSENT

    async def _orphan(self, item: Item) -> None:
        for dependent in self._graph.dependents(item.uid):
            live = await self._client.find(dependent.resource, dependent.name, dependent.namespace or None)
            if live is not None:
                await self._strip(live, dependent, {item.uid})
        await self._drop_finalizer(item, ORPHAN)

    async def _wait_for_dependents(self, item: Item) -> None:
        holding = [d for d in self._graph.dependents(item.uid) if blocks(d, item.uid)]
        for dependent in self._graph.dependents(item.uid):
            if not dependent.deleting:
                self._loop.mark(dependent.uid)
        if not holding:
            await self._drop_finalizer(item, FOREGROUND)

    async def _strip(self, live: Object, item: Item, owner_uids: set[str]) -> None:
        owners = [o for o in live["metadata"].get("ownerReferences") or [] if o["uid"] not in owner_uids]
        await self._patch(item, live, {"ownerReferences": owners or None})

    async def _drop_finalizer(self, item: Item, finalizer: str) -> None:
        live = await self._client.find(item.resource, item.name, item.namespace or None)
        if live is None or live["metadata"]["uid"] != item.uid:
            return
        rest = [f for f in live["metadata"].get("finalizers") or [] if f != finalizer]
        await self._patch(item, live, {"finalizers": rest or None})

    async def _patch(self, item: Item, live: Object, metadata: Object) -> None:
        version = live["metadata"]["resourceVersion"]
        patch = {"metadata": {**metadata, "resourceVersion": version}}
        try:
            await self._client.merge_patch(item.resource, item.name, patch, item.namespace or None)
        except NotFound:
            pass  # gone already
