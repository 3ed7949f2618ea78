"""The cluster's objects of one kind, kept true by list and watch.

The cache never forgets what it knows because the server is away: `values()` stays, `connected` says so and
`last_contact` since when. After a gap the list replaces the store, and what vanished in between is reported
as deleted. `decode` decides what is kept of each object (kube/trimmed.py). Where it finds no way, `trouble`
says why; a watch that is forbidden falls back to a list at each try.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Any, Generic, TypeVar, cast

import msgspec

from gpuready.errors import GPUReadyError
from gpuready.kube import wire
from gpuready.kube.backoff import Backoff
from gpuready.kube.client import METADATA_LIST, METADATA_ONLY, WATCH_IDLE_S, KubeClient
from gpuready.kube.contact import Contact
from gpuready.kube.errors import Away, Forbidden, Gone, Unreachable
from gpuready.kube.resources import Resource
from gpuready.kube.wire import Decode, WatchEvent, key_of, version_of
from gpuready.log import get_logger

T = TypeVar("T")
Handler = Callable[[T | None, T | None], None]
Index = Callable[[T], Iterable[str]]

# A server that ends every watch at once must not make us spin.
MIN_WATCH_S = 1.0

log = get_logger("kube.cache")


class WatchCache(Generic[T]):
    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        decode: Decode[T] | None = None,
        backoff: Backoff | None = None,
        contact: Contact | None = None,
        idle_s: float = WATCH_IDLE_S,
        metadata_only: bool = False,
    ) -> None:
        """`contact` is told what `trouble` says; `idle_s` as for `KubeClient.watch`.

        metadata_only   the server leaves out the rest: of Secrets, nobody needs to know what is in them
        """
        self.resource = resource
        self.connected = False
        self.last_contact = float("-inf")  # time.monotonic() of the last word from the server
        self.restarts: Counter[str] = Counter()  # by reason: expired, unreachable, refused
        self.trouble: GPUReadyError | None = None  # None also while a first failure may be just a moment
        self._client = client
        self._contact = contact
        self._name = "|".join((namespace or "", label_selector, field_selector))  # beside its resource
        self._idle_s = idle_s
        self._failures = 0  # in a row
        self._unreachable = False  # at the last of them
        self._scope: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
        }
        self._list_accepts: dict[str, Any] = {"accept": METADATA_LIST} if metadata_only else {}
        self._watch_accepts: dict[str, Any] = {"accept": METADATA_ONLY} if metadata_only else {}
        self._decode: Decode[T] = decode or cast("Decode[T]", _dict_decoder(resource))
        self._backoff = backoff or Backoff()
        self._objects: dict[str, T] = {}
        self._handlers: list[Handler[T]] = []
        self._indexers: dict[str, Index[T]] = {}
        self._indices: dict[str, dict[str, tuple[str, ...]]] = {}  # value -> keys
        self._version = ""
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()

    # --- what is known -----------------------------------------------------------------------------------

    def get(self, key: str) -> T | None:
        """By "namespace/name", or "name" where there is no namespace."""
        return self._objects.get(key)

    def values(self) -> list[T]:
        return list(self._objects.values())

    def keys(self) -> list[str]:
        return list(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def by_index(self, index: str, value: str) -> list[T]:
        return [self._objects[key] for key in self._indices[index].get(value, ())]

    @property
    def synced(self) -> bool:
        """The whole list was seen at least once."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def wait_answered(self) -> None:
        """Until the list was seen, or the server has said for good that we may not see it."""
        await self._answered.wait()

    # --- who is told -------------------------------------------------------------------------------------

    def add_handler(self, handler: Handler[T]) -> None:
        """Call `handler(old, new)` at each change, None for "not there"; known objects come at once."""
        self._handlers.append(handler)
        for obj in self.values():
            self._tell([handler], None, obj)

    def add_index(self, name: str, index: Index[T]) -> None:
        """Make `by_index(name, value)` answer with the few objects for which `index` yields that value."""
        self._indexers[name] = index
        self._indices[name] = {}
        for key, obj in self._objects.items():
            self._enter(name, key, obj)

    # --- how it stays true -------------------------------------------------------------------------------

    async def run(self) -> None:
        """List, then watch, until cancelled."""
        while True:
            started = time.monotonic()
            try:
                await self._follow()
            except Gone as exc:
                self.restarts["expired"] += 1
                self._version = ""
                self._failed(exc)
                if time.monotonic() - started < MIN_WATCH_S:  # not again and again at once
                    await self._pause(exc, started)
            except GPUReadyError as exc:
                self.restarts["unreachable" if isinstance(exc, Unreachable) else "refused"] += 1
                self._failed(exc)
                await self._pause(exc, started)
            finally:
                self.connected = False

    async def _follow(self) -> None:
        """One list if we have no version to go on from, then one watch until the server ends it."""
        if not self._version:
            await self._relist()
        started = time.monotonic()
        heard = await self._watch()
        if not heard and (spent := time.monotonic() - started) < MIN_WATCH_S:
            await asyncio.sleep(MIN_WATCH_S - spent)

    async def _relist(self) -> None:
        objects, version = await self._client.list_decoded(
            self.resource, self._decode, **self._scope, **self._list_accepts
        )
        self._heard()
        self._replace({key_of(obj): obj for obj in objects})
        self._version = version
        self._failures = 0
        self._synced.set()
        self._answered.set()

    async def _watch(self) -> bool:
        heard = False
        events = self._client.watch(
            self.resource,
            resource_version=self._version,
            decode=self._decode,
            idle_s=self._idle_s,
            opened=self._opened,
            **self._scope,
            **self._watch_accepts,
        )
        async with aclosing(events):
            async for event in events:
                heard = True
                self._heard()
                self._take(event)
        return heard

    def _take(self, event: WatchEvent[T]) -> None:
        if event.object is not None:
            if event.type == "DELETED":
                self._drop(key_of(event.object))
            else:
                self._put(key_of(event.object), event.object)
        if event.resource_version:
            self._version = event.resource_version

    async def _pause(self, exc: GPUReadyError, started: float) -> None:
        healthy_s = self.last_contact - started if self.last_contact > started else 0.0
        wait = self._backoff.failed(exc, healthy_s=healthy_s)
        log.debug(
            "watch interrupted", resource=self.resource.plural, error=str(exc), retry_in_s=round(wait, 2)
        )
        await asyncio.sleep(wait)

    def _failed(self, exc: GPUReadyError) -> None:
        self._failures += 1
        comes_back = self._unreachable and not isinstance(exc, Unreachable)
        self._unreachable = isinstance(exc, Unreachable)
        if comes_back or (self._failures == 1 and not isinstance(exc, Away)):
            return  # a server that starts, and knows no rules yet, or is busy
        if isinstance(exc, Forbidden):
            self._version = ""
            self._answered.set()
        self.trouble = exc
        if self._contact is not None:
            self._contact.failed(self.resource.plural, exc, self._name)

    def _opened(self) -> None:
        self.connected = True
        self.trouble, self._failures = None, 0
        if self._contact is not None:
            self._contact.works(self.resource.plural, self._name)
        self._heard()

    def _heard(self) -> None:
        self.last_contact = time.monotonic()

    # --- the store ---------------------------------------------------------------------------------------

    def _replace(self, objects: dict[str, T]) -> None:
        for key in self._objects.keys() - objects.keys():
            self._drop(key)
        for key, obj in objects.items():
            self._put(key, obj)

    def _put(self, key: str, obj: T) -> None:
        old = self._objects.get(key)
        if old is not None and version_of(old) and version_of(old) == version_of(obj):
            return  # seen already: a list after the watch, or the same event twice
        self._objects[key] = obj
        for name in self._indexers:
            if old is not None:
                self._leave(name, key, old)
            self._enter(name, key, obj)
        self._tell(self._handlers, old, obj)

    def _drop(self, key: str) -> None:
        old = self._objects.pop(key, None)
        if old is None:
            return
        for name in self._indexers:
            self._leave(name, key, old)
        self._tell(self._handlers, old, None)

    def _enter(self, name: str, key: str, obj: T) -> None:
        index = self._indices[name]
        for value in self._indexers[name](obj):
            index[value] = (*index.get(value, ()), key)

    def _leave(self, name: str, key: str, obj: T) -> None:
        index = self._indices[name]
        for value in self._indexers[name](obj):
            left = tuple(each for each in index.get(value, ()) if each != key)
            if left:
                index[value] = left
            else:
                index.pop(value, None)

    def _tell(self, handlers: list[Handler[T]], old: T | None, new: T | None) -> None:
        for handler in handlers:
            try:
                handler(old, new)
            except Exception:  # one handler's mistake must not stop the watch for the others
                log.exception("handler failed", resource=self.resource.plural)


def _dict_decoder(resource: Resource) -> Decode[dict[str, Any]]:
    """Plain dicts; inside a list the server leaves out apiVersion and kind, so they are put back."""

    def decode(raw: bytes) -> dict[str, Any]:
        obj: dict[str, Any] = wire.decode_any(raw)
        meta = obj.get("metadata") if isinstance(obj, dict) else None
        if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
            raise msgspec.ValidationError("it has no name")
        obj.setdefault("apiVersion", resource.api_version)
        obj.setdefault("kind", resource.kind)
        return obj

    return decode
