"""What controllers that own pods share: what wakes them, which pods they see, and what they say of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from gpuready_sim.client import PODS, NotFound, Object, Resource, SimClient, key_of
from gpuready_sim.controllers.caches import Caches
from gpuready_sim.controllers.events import Events
from gpuready_sim.controllers.loop import KeyedLoop
from gpuready_sim.controllers.owned import Expected, controller_of, is_deleting, pod_from, reference_to
from gpuready_sim.informer import Informer


class PodOwner(ABC):
    """The controller of one kind; `sync` brings one living object's pods to what it says.

    name   as it signs its Events: "job-controller"
    """

    def __init__(
        self, client: SimClient, caches: Caches, resource: Resource, owners: Informer, *, name: str
    ) -> None:
        self._client = client
        self._caches = caches
        self._resource = resource
        self._owners = owners
        self._events = Events(client, name)
        self._expected = Expected()
        self._loop = KeyedLoop(name, self._sync)
        owners.add_handler(lambda old, new: self._loop.mark(key_of(new or old or {})))
        caches.pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        await self._loop.run()

    @abstractmethod
    async def sync(self, owner: Object) -> float | None:
        """Seconds until it is to be looked at again whatever happens."""

    def pods_of(self, owner: Object) -> list[Mapping[str, Any]]:
        """Just created and just deleted ones included."""
        return self._expected.of(owner["metadata"]["uid"], self._caches.pods.objects.values())

    async def create_pod(self, owner: Object, labels: Mapping[str, str]) -> None:
        """One more of its template, with these labels too."""
        reference = reference_to(self._resource.api_version, self._resource.kind, owner)
        wanted = pod_from(owner["spec"]["template"], owner, reference, labels)
        pod = await self._client.create(PODS, wanted)
        if key_of(pod) not in self._caches.pods.objects:
            self._expected.created(pod)
        self.say(owner, "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")

    async def delete_pod(self, pod: Mapping[str, Any]) -> None:
        meta = pod["metadata"]
        self._expected.deleted(pod)
        await self._client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"])

    async def report(self, owner: Object, status: Mapping[str, Any]) -> bool:
        """Write what differs; False when nothing did, or the object was deleted meanwhile."""
        have, meta = owner.get("status") or {}, owner["metadata"]
        if all(have.get(name) == value for name, value in status.items()):
            return False
        try:
            await self._client.merge_patch(
                self._resource, meta["name"], {"status": status}, meta["namespace"], subresource="status"
            )
        except NotFound:
            return False
        return True

    def say(self, owner: Object, kind: str, reason: str, message: str) -> None:
        typed = {**owner, "apiVersion": self._resource.api_version, "kind": self._resource.kind}
        self._events.say(typed, kind, reason, message)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        self._expected.seen(old, new)
        pod = new or old or {}
        owner = controller_of(pod)
        if owner and owner["kind"] == self._resource.kind:
            self._loop.mark(f"{pod['metadata']['namespace']}/{owner['name']}")

    async def _sync(self, key: str) -> float | None:
        owner = self._owners.objects.get(key)
        return None if owner is None or is_deleting(owner) else await self.sync(owner)
