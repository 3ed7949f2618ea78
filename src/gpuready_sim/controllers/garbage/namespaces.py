"""Namespaces: empties and finalizes those being deleted, gives each a default ServiceAccount."""

from __future__ import annotations

import asyncio
from typing import Any

from gpuready_sim.client import (
    EVENTS,
    SERVICE_ACCOUNTS,
    AlreadyExists,
    ApiStatus,
    NotFound,
    Object,
    SimClient,
)
from gpuready_sim.controllers.caches import Caches
from gpuready_sim.controllers.garbage.graph import Graph, Item
from gpuready_sim.controllers.loop import KeyedLoop

STILL_FULL_S = 0.3


class NamespaceController:
    def __init__(self, client: SimClient, caches: Caches, graph: Graph) -> None:
        self._client = client
        self._caches = caches
        self._graph = graph
        self._loop = KeyedLoop("namespace controller", self._sync, workers=2)
        caches.namespaces.add_handler(self._changed)

    async def run(self) -> None:
        await self._loop.run()

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or _is_deleting(new)):
            self._loop.mark(new["metadata"]["name"])

    async def _sync(self, name: str) -> float | None:
        namespace = self._caches.namespaces.get(name)
        if namespace is None:
            return None
        if not _is_deleting(namespace):
            await self._default_account(name)
            return None
        left = self._graph.in_namespace(name)
        await asyncio.gather(*(self._delete(item) for item in left if not item.deleting))
        if left:
            return STILL_FULL_S
        await self._delete_events(name)
        await self._finalize(namespace)
        return STILL_FULL_S

    async def _delete(self, item: Item) -> None:
        await self._client.delete(
            item.resource, item.name, item.namespace, propagation="Background", uid=item.uid
        )

    async def _delete_events(self, namespace: str) -> None:
        try:
            await self._client.raw("DELETE", EVENTS.path(namespace))
        except ApiStatus:
            for event in (await self._client.list(EVENTS, namespace))[0]:
                await self._client.delete(EVENTS, event["metadata"]["name"], namespace)

    async def _finalize(self, namespace: Object) -> None:
        name = namespace["metadata"]["name"]
        body: dict[str, Any] = {**namespace, "apiVersion": "v1", "kind": "Namespace"}
        body["spec"] = {**(namespace.get("spec") or {}), "finalizers": []}
        try:
            await self._client.raw("PUT", f"/api/v1/namespaces/{name}/finalize", body=body)
        except NotFound:
            pass

    async def _default_account(self, namespace: str) -> None:
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": namespace},
        }
        try:
            await self._client.create(SERVICE_ACCOUNTS, account)
        except AlreadyExists:
            pass


def _is_deleting(namespace: Object) -> bool:
    return bool(namespace["metadata"].get("deletionTimestamp"))
