"""Keeps the ownership graph true: one informer per served kind, new kinds as CRDs appear."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gpuready_sim.client import CRDS, ApiStatus, Object, Resource, SimClient, Unreachable
from gpuready_sim.controllers.garbage.graph import Graph, Item, item_of
from gpuready_sim.discovery import served_resources
from gpuready_sim.informer import Informer

IGNORED_KINDS = {"Event"}  # they name no owners and are many
NEEDED_VERBS = {"list", "watch", "delete"}
REDISCOVER_S = 30.0
_KEPT = ("uid", "name", "namespace", "resourceVersion", "ownerReferences", "finalizers", "deletionTimestamp")

Changed = Callable[[Item | None, Item | None], None]


class GraphWatcher:
    """Fills a Graph; `changed(old, new)` is called after each difference."""

    def __init__(self, client: SimClient, graph: Graph, changed: Changed) -> None:
        self._client = client
        self._graph = graph
        self._changed = changed
        self._informers: dict[Resource, tuple[Informer, asyncio.Task[None]]] = {}
        self._again = asyncio.Event()
        self.synced = asyncio.Event()

    @property
    def resources(self) -> list[Resource]:
        return list(self._informers)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                self._again.clear()
                try:
                    await self._discover(group)
                except (ApiStatus, Unreachable):
                    await asyncio.sleep(1)
                    continue
                try:
                    await asyncio.wait_for(self._again.wait(), REDISCOVER_S)
                except TimeoutError:
                    pass

    async def _discover(self, group: asyncio.TaskGroup) -> None:
        wanted = {
            one.resource
            for one in await served_resources(self._client)
            if one.verbs >= NEEDED_VERBS and one.resource.kind not in IGNORED_KINDS
        }
        for resource in self._informers.keys() - wanted:
            self._stop(resource)
        for resource in wanted - self._informers.keys():
            self._start(group, resource)
        await asyncio.gather(*(informer.wait_synced() for informer, _ in self._informers.values()))
        self.synced.set()

    def _start(self, group: asyncio.TaskGroup, resource: Resource) -> None:
        informer = Informer(self._client, resource, trim=_trim)
        informer.add_handler(lambda old, new: self._take(resource, old, new))
        self._informers[resource] = (informer, group.create_task(informer.run()))

    def _stop(self, resource: Resource) -> None:
        informer, task = self._informers.pop(resource)
        task.cancel()
        for obj in informer.objects.values():
            self._take(resource, obj, None)

    def _take(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        before = item_of(resource, old) if old else None
        after = item_of(resource, new) if new else None
        if before == after:
            return
        if before and (after is None or after.uid != before.uid):
            self._graph.remove(before.uid)
            self._changed(before, None)
            before = None
        if after:
            self._graph.put(after)
            self._changed(before, after)
        if resource.plural == CRDS.plural:
            # The server needs a moment to serve the new kind.
            asyncio.get_running_loop().call_later(0.2, self._again.set)


def _trim(obj: Object) -> Object:
    meta = obj["metadata"]
    return {"metadata": {key: meta[key] for key in _KEPT if key in meta}}
