"""Calls to the API server by verb and resource; the way there is transport.py's.

Answers are decoded by msgspec; refusals are raised as kube/errors.py types.
"""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from gpuready import names
from gpuready.kube import access, wire
from gpuready.kube.access import Access
from gpuready.kube.answers import MAX_ANSWER_BYTES, event_of, find_object, next_chunk, read, unusable
from gpuready.kube.errors import Gone
from gpuready.kube.fence import Fence
from gpuready.kube.requests import Observer
from gpuready.kube.resources import Resource
from gpuready.kube.transport import JSON, REQUEST_TIMEOUT_S, Transport
from gpuready.kube.wire import Decode, WatchEvent

T = TypeVar("T")

WATCH_TIMEOUT_S = 300
# The server says something in every watch at least once a minute (a bookmark); one that is silent longer may
# be gone without our having been told. Asking again from the last version costs one request and no event.
WATCH_IDLE_S = 75.0
LIST_RESTARTS = 3
# Objects of one page. What a page takes while it is read stays with the process for good, or nearly so: 500
# nodes of 14 KB each took more than all that was kept of 5,000.
PAGE = 100

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
# For answers that nobody reads: without spec and status they are small, for the server too.
METADATA_ONLY = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class KubeClient:
    """`fence`: asked before each write is sent; without one all are."""

    def __init__(self, where: Access, *, user_agent: str = "gpuready", fence: Fence | None = None) -> None:
        self._transport = Transport(where, user_agent, fence)

    @classmethod
    def in_cluster(cls, user_agent: str = "gpuready") -> KubeClient:
        return cls(access.in_cluster(), user_agent=user_agent)

    @classmethod
    def from_kubeconfig(
        cls, path: str | None = None, context: str | None = None, user_agent: str = "gpuready"
    ) -> KubeClient:
        return cls(access.from_kubeconfig(path, context), user_agent=user_agent)

    @classmethod
    def auto(
        cls, kubeconfig: str | None = None, context: str | None = None, user_agent: str = "gpuready"
    ) -> KubeClient:
        """What was asked for, else KUBECONFIG, else this pod's account, else ~/.kube/config."""
        asked = kubeconfig or context or os.environ.get("KUBECONFIG")
        if not asked and os.environ.get("KUBERNETES_SERVICE_HOST"):
            return cls.in_cluster(user_agent)
        return cls.from_kubeconfig(kubeconfig, context, user_agent)

    @property
    def access(self) -> Access:
        return self._transport.access

    @property
    def namespace(self) -> str:
        """The namespace of this account or context."""
        return self.access.namespace

    @property
    def observer(self) -> Observer:
        """Called once per request with verb, resource and status code."""
        return self._transport.observer

    @observer.setter
    def observer(self, observer: Observer) -> None:
        self._transport.observer = observer

    async def close(self) -> None:
        await self._transport.close()

    def sever(self) -> None:
        """Take back the writes under way, as far as that can be done; reads and watches go on."""
        self._transport.sever()

    async def __aenter__(self) -> KubeClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- reading -----------------------------------------------------------------------------------------

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, subresource: str | None = None
    ) -> dict[str, Any]:
        return await self._call("GET", resource.path(namespace=namespace, name=name, subresource=subresource))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
    ) -> tuple[builtins.list[dict[str, Any]], str]:
        """All pages: the objects, each with its apiVersion and kind, and the list's resourceVersion."""
        items, version = await self.list_decoded(
            resource,
            wire.decode_any,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
        )
        for item in items:  # the server leaves these out inside a list
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        return items, version

    async def list_metadata(
        self, resource: Resource, namespace: str | None = None, label_selector: str = ""
    ) -> builtins.list[dict[str, Any]]:
        """Only apiVersion, kind and metadata of each: the server leaves out the rest."""
        items, _ = await self.list_decoded(
            resource,
            wire.decode_any,
            namespace=namespace,
            label_selector=label_selector,
            accept=METADATA_LIST,
        )
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**head, "metadata": item["metadata"]} for item in items]

    async def list_decoded(
        self,
        resource: Resource,
        decode: Decode[T],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
        accept: str = JSON,
    ) -> tuple[builtins.list[T], str]:
        """Like `list`, but each object goes through `decode` page by page, so no page is kept as dicts."""
        params = _selectors(label_selector, field_selector) | {"limit": str(limit)}
        for restart in range(LIST_RESTARTS):
            try:
                return await self._pages(resource.path(namespace=namespace), params, decode, accept)
            except Gone:  # the continue token outlived its snapshot
                if restart == LIST_RESTARTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _pages(
        self, path: str, params: dict[str, str], decode: Decode[T], accept: str
    ) -> tuple[builtins.list[T], str]:
        items: builtins.list[T] = []
        token = ""
        while True:
            asked = params | ({"continue": token} if token else {})
            answer = await self.raw("GET", path, params=asked, accept=accept)
            found, meta = _page_of(answer, decode, f"GET {path}")
            del answer  # or two of them are held while the next one comes
            items += found
            token = meta.continue_
            if not token:
                return items, meta.resource_version

    async def watch(
        self,
        resource: Resource,
        *,
        resource_version: str = "",
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        decode: Decode[T] | None = None,
        timeout_s: int = WATCH_TIMEOUT_S,
        idle_s: float = WATCH_IDLE_S,
        opened: Callable[[], None] = lambda: None,
        accept: str = JSON,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Events from `resource_version` on, until the server ends the stream (then simply returns).

        idle_s  without a whole event, after which the stream counts as ended too
        opened  called once the server has accepted the watch, which may be long before the first event
        raises Gone when the version is too old, ApiStatusError for another ERROR event, Unreachable when the
        connection breaks or what comes cannot be read
        """
        params = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_s),
        }
        if resource_version:
            params["resourceVersion"] = resource_version
        decoder = decode or cast("Decode[T]", wire.decode_any)
        path = resource.path(namespace=namespace)
        call = f"watch {path}"
        async with self._transport.stream(
            path, call, params=params, accept=accept, idle_s=idle_s
        ) as response:
            opened()
            splitter = wire.LineSplitter()
            clock = asyncio.get_running_loop().time
            silent_at = clock() + idle_s
            while chunk := await next_chunk(response, silent_at):
                for line in splitter.feed(chunk):
                    silent_at = clock() + idle_s
                    yield event_of(line, decoder, call)
                if splitter.unfinished_bytes > MAX_ANSWER_BYTES:
                    raise unusable(call, "a line of it does not end")

    # --- writing -----------------------------------------------------------------------------------------

    async def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str | None = None,
        *,
        name: str | None = None,
        subresource: str | None = None,
    ) -> dict[str, Any]:
        """POST; `name` and `subresource` for the likes of pods/eviction."""
        path = resource.path(namespace=namespace or _namespace_of(obj), name=name, subresource=subresource)
        return await self._call("POST", path, body=obj)

    async def replace(
        self, resource: Resource, obj: Mapping[str, Any], *, subresource: str | None = None
    ) -> dict[str, Any]:
        return await self._call("PUT", _path_of(resource, obj, subresource), body=obj)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        propagation: str | None = None,
        preconditions: Mapping[str, str] | None = None,
        grace_period_s: int | None = None,
    ) -> dict[str, Any]:
        """`propagation` Background, Foreground or Orphan; `preconditions` {"uid": …}."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if propagation:
            options["propagationPolicy"] = propagation
        if preconditions:
            options["preconditions"] = dict(preconditions)
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        return await self._call("DELETE", resource.path(namespace=namespace, name=name), body=options)

    async def merge_patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> dict[str, Any]:
        """RFC 7386; put `metadata.resourceVersion` in the patch to make it conditional."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self._call(
            "PATCH", path, body=patch, content_type=MERGE_PATCH, params=_written_by(), idempotent=True
        )

    async def strategic_patch(
        self, resource: Resource, name: str, patch: Mapping[str, Any], subresource: str | None = None
    ) -> None:
        """As `merge_patch`, for kinds that Kubernetes itself defines: lists that are maps merge by key.

        It costs a real API server a fourth less than a merge patch, which has it write and read the whole
        object as text. Nothing of the answer is kept.
        """
        path = resource.path(name=name, subresource=subresource)
        body = msgspec.json.encode(patch)
        await self.raw(
            "PATCH",
            path,
            params=_written_by(),
            body=body,
            content_type=STRATEGIC_PATCH,
            accept=METADATA_ONLY,
            idempotent=True,
        )

    async def json_patch(
        self,
        resource: Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> dict[str, Any]:
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self._call(
            "PATCH", path, body=list(operations), content_type=JSON_PATCH, params=_written_by()
        )

    async def apply(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        field_manager: str = names.FIELD_MANAGER,
        force: bool = True,
        subresource: str | None = None,
    ) -> dict[str, Any]:
        """Server-side apply: afterwards the object has exactly these fields of ours."""
        params = {"fieldManager": field_manager, "force": "true" if force else "false"}
        path = _path_of(resource, obj, subresource)
        after = await self._call(
            "PATCH", path, body=obj, content_type=APPLY_PATCH, params=params, idempotent=True
        )
        if not isinstance(after.get("metadata"), dict):
            raise unusable(f"PATCH {path}", "it is not the object")
        return after

    # --- anything else -----------------------------------------------------------------------------------

    async def raw(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        idempotent: bool | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> bytes:
        """One call with the retries that are safe; the body of the answer, or the error as an exception."""
        return await self._transport.request(
            method,
            path,
            params=params,
            body=body,
            content_type=content_type,
            accept=accept,
            idempotent=idempotent,
            timeout_s=timeout_s,
        )

    async def stream_lines(self, path: str, *, params: Mapping[str, str] | None = None) -> AsyncIterator[str]:
        """Lines of a text answer as they come (pod logs); no time limit."""
        async with self._transport.stream(path, f"GET {path}", params=params) as response:
            splitter = wire.LineSplitter()
            async for chunk in response.content.iter_any():
                for line in splitter.feed(chunk):
                    yield line.decode(errors="replace")

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
        idempotent: bool | None = None,
    ) -> dict[str, Any]:
        encoded = None if body is None else msgspec.json.encode(body)
        answer = await self.raw(
            method, path, params=params, body=encoded, content_type=content_type, idempotent=idempotent
        )
        found = read(wire.decode_any, answer, f"{method} {path}")
        if not isinstance(found, dict):
            raise unusable(f"{method} {path}", "it is no object")
        return found


def _page_of(answer: bytes, decode: Decode[T], call: str) -> tuple[builtins.list[T], wire.ListMeta]:
    page = read(wire.decode_page, answer, call)
    if not page.is_list:  # an empty answer of somebody else must not pass for an empty cluster
        raise unusable(call, f"it is no list but {page.kind or 'has no kind'}")
    found = (find_object(cast(bytes, raw), decode) for raw in page.items or ())
    return [obj for obj in found if obj is not None], page.metadata


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in selectors.items() if value}


def _written_by() -> dict[str, str]:
    return {"fieldManager": names.FIELD_MANAGER}


def _namespace_of(obj: Mapping[str, Any]) -> str | None:
    return cast("str | None", obj.get("metadata", {}).get("namespace"))


def _path_of(resource: Resource, obj: Mapping[str, Any], subresource: str | None) -> str:
    return resource.path(namespace=_namespace_of(obj), name=obj["metadata"]["name"], subresource=subresource)
