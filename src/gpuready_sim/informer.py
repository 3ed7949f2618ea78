"""A dict of all objects of one resource, kept true by list and watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from gpuready_sim.client import ApiStatus, Gone, Object, Resource, SimClient, Unreachable, key_of

Handler = Callable[[Object | None, Object | None], None]
RETRY_S = (0.2, 0.5, 1.0, 2.0)


class Informer:
    """A dict of all objects of one resource, kept true by list and watch.

    Keys are `namespace/name`, or `name` for cluster-scoped kinds. Handlers get (old, new); None means
    "not there". They run in the event loop and must not block. After a lost connection the watch resumes
    where it was; after 410 everything is listed again and the difference told to the handlers.
    `trim` keeps less of each object than came; metadata's name, namespace and resourceVersion must stay.
    `connected` is false from a failed request to the next one that succeeds.
    """

    def __init__(
        self,
        client: SimClient,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        trim: Callable[[Object], Object] | None = None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._trim = trim
        self._handlers: list[Handler] = []
        self._synced = asyncio.Event()
        self.objects: dict[str, Object] = {}
        self.connected = False
        self._failures = 0

    def add_handler(self, handler: Handler) -> None:
        self._handlers.append(handler)

    def get(self, name: str, namespace: str | None = None) -> Object | None:
        return self.objects.get(f"{namespace}/{name}" if namespace else name)

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def run(self) -> None:
        """Until cancelled."""
        version = ""
        while True:
            try:
                if not version:
                    version = await self._relist()
                async for kind, obj in self._watch_from(version):
                    version = obj["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        self._take(None if kind == "DELETED" else obj, key_of(obj))
                await asyncio.sleep(RETRY_S[0])
            except Gone:
                version = ""
            except (Unreachable, ApiStatus):
                self.connected = False
                await asyncio.sleep(RETRY_S[min(self._failures, len(RETRY_S) - 1)])
                self._failures += 1

    async def _relist(self) -> str:
        items, version = await self._client.list(
            self._resource,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        fresh = {key_of(item): item for item in items}
        for key in self.objects.keys() - fresh.keys():
            self._take(None, key)
        for key, item in fresh.items():
            self._take(item, key)
        self._synced.set()
        return version

    def _opened(self) -> None:
        self.connected = True
        self._failures = 0

    def _watch_from(self, version: str) -> AsyncIterator[tuple[str, Object]]:
        return self._client.watch(
            self._resource,
            version,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            on_open=self._opened,
        )

    def _take(self, new: Object | None, key: str) -> None:
        old = self.objects.pop(key, None)
        if new is not None:
            new = self._trim(new) if self._trim else new
            self.objects[key] = new
        if _version_of(old) != _version_of(new):
            for handler in self._handlers:
                handler(old, new)


def _version_of(obj: Object | None) -> str | None:
    return None if obj is None else obj["metadata"].get("resourceVersion")
