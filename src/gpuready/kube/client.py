"""Calls to the API server over HTTP: the only module that imports aiohttp.

Answers are decoded by msgspec; refusals are raised as kube/errors.py types. A call that the server turned
away with 429 or 503 waits as `Retry-After` says and is tried again, a few times. Credentials and the CA are
read anew when the server does not accept them or we do not accept the server.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import os
import random
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import aiohttp
import msgspec
from aiohttp import AddrInfoType
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from gpuready import names
from gpuready.errors import ApiError
from gpuready.kube import access, wire
from gpuready.kube.access import Access, NoAccess
from gpuready.kube.certificate import why_untrusted
from gpuready.kube.errors import (
    Away,
    Cut,
    Gone,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    error_of,
)
from gpuready.kube.fence import Fence, Fenced
from gpuready.kube.requests import UNREACHABLE, Observer, name_of
from gpuready.kube.resources import Resource
from gpuready.kube.wire import Decode, WatchEvent
from gpuready.log import get_logger

T = TypeVar("T")
log = get_logger("kube.client")

REQUEST_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
WATCH_TIMEOUT_S = 300
# The server says something in every watch at least once a minute (a bookmark); one that is silent longer may
# be gone without our having been told. Asking again from the last version costs one request and no event.
WATCH_IDLE_S = 75.0
MAX_TRIES = 5
# Whoever called has other things to do: a longer wait is his, who knows `retry_after` from the error.
MAX_BUSY_WAIT_S = 10.0
LIST_RESTARTS = 3
# No honest answer is larger: a page holds 500 objects, and etcd takes none above 1.5 MiB.
MAX_ANSWER_BYTES = 128 << 20
MAX_ERROR_BYTES = 64 << 10

_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})
JSON = "application/json"
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
        self.access = where
        self._fence = fence
        self.observer: Observer = lambda verb, resource, code: None
        self._agent = user_agent if "/" in user_agent else f"{user_agent}/{names.VERSION}"
        self._session: aiohttp.ClientSession | None = None
        self._retired: aiohttp.ClientSession | None = None

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
    def namespace(self) -> str:
        """The namespace of this account or context."""
        return self.access.namespace

    async def close(self) -> None:
        for session in (self._session, self._retired):
            if session is not None:
                await session.close()
        self._session = self._retired = None

    def sever(self) -> None:
        """Take back the writes under way, as far as that can be done; reads and watches go on."""
        for session in (self._session, self._retired):
            if session is not None and isinstance(session.connector, _Connector):
                session.connector.reset_writes()

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
        limit: int = 500,
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
        limit: int = 500,
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
            page = _read(wire.decode_page, answer, f"GET {path}")
            if not page.is_list:  # an empty answer of somebody else must not pass for an empty cluster
                raise _unusable(f"GET {path}", f"it is no list but {page.kind or 'has no kind'}")
            for raw in page.items or ():
                obj = _find_object(cast(bytes, raw), decode)
                if obj is not None:
                    items.append(obj)
            token = page.metadata.continue_
            if not token:
                return items, page.metadata.resource_version

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
        # sock_read ends the wait for the answer's head; from then on whole lines count, not bytes.
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S, sock_read=idle_s)
        async with self._signed_in(), self._answer("GET", path, params=params, timeout=timeout) as response:
            await _raise_for_status(response, call)
            opened()
            splitter = wire.LineSplitter()
            clock = asyncio.get_running_loop().time
            silent_at = clock() + idle_s
            while chunk := await _next_chunk(response, silent_at):
                for line in splitter.feed(chunk):
                    silent_at = clock() + idle_s
                    yield _event_of(line, decoder, call)
                if splitter.unfinished_bytes > MAX_ANSWER_BYTES:
                    raise _unusable(call, "a line of it does not end")

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
            raise _unusable(f"PATCH {path}", "it is not the object")
        return after

    # --- transport ---------------------------------------------------------------------------------------

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
        patience = _Patience(safe=method in _IDEMPOTENT if idempotent is None else idempotent)
        while True:
            try:
                return await self._once(method, path, params, body, content_type, accept, timeout_s)
            except Unauthorized as exc:
                if patience.used("sign in") or not await self._renewed():
                    raise self._explained(exc) from exc
            except _Untrusted:
                if patience.used("trust") or not await self._renewed():
                    raise
            except ApiError as exc:
                wait = patience.find_wait(exc)
                if wait is None:
                    raise
                await asyncio.sleep(wait)

    async def stream_lines(self, path: str, *, params: Mapping[str, str] | None = None) -> AsyncIterator[str]:
        """Lines of a text answer as they come (pod logs); no time limit."""
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S)
        async with self._answer("GET", path, params=params, timeout=timeout) as response:
            await _raise_for_status(response, f"GET {path}")
            splitter = wire.LineSplitter()
            async for chunk in response.content.iter_any():
                for line in splitter.feed(chunk):
                    yield line.decode(errors="replace")

    @asynccontextmanager
    async def _signed_in(self) -> AsyncIterator[None]:
        """For a call that its caller repeats: the next time it goes with what is on disk by then."""
        try:
            yield
        except Unauthorized as exc:
            await self._renewed()
            raise self._explained(exc) from exc
        except _Untrusted:
            await self._renewed()
            raise

    async def _renewed(self) -> bool:
        """Read credentials and CA anew; whether another try may end otherwise."""
        try:
            fresh = self.access.renewed()
        except NoAccess:
            return False
        if fresh is None:
            return self.access.token is not None and self.access.token.may_have_changed()
        self.access = fresh
        # What still runs over the old connections may end there; nothing of ours runs for two renewals.
        if self._retired is not None:
            await self._retired.close()
        self._session, self._retired = None, self._session
        return True

    def _explained(self, exc: Unauthorized) -> Unauthorized:
        """Say that it is out of date, where that can be seen from here."""
        trouble = self.access.find_trouble(datetime.now(UTC))
        if trouble is not None:
            exc.why, exc.next_step = trouble.what, trouble.next_step
        return exc

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
        found = _read(wire.decode_any, answer, f"{method} {path}")
        if not isinstance(found, dict):
            raise _unusable(f"{method} {path}", "it is no object")
        return found

    async def _once(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        accept: str,
        timeout_s: float,
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        headers = {"Accept": accept} | ({"Content-Type": content_type} if body is not None else {})
        with nullcontext() if self._fence is None or method == "GET" else self._fence.passing():
            async with self._answer(
                method, path, params=params, body=body, headers=headers, timeout=timeout
            ) as response:
                await _raise_for_status(response, f"{method} {path}")
                return await _body_of(response, f"{method} {path}")

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response while it is being read; whatever breaks on the way is Unreachable."""
        token = self._token()
        sent = dict(headers or {}) | ({"Authorization": f"Bearer {token}"} if token else {})
        answered = False
        try:
            async with self._open_session().request(
                method,
                self.access.server + path,
                params=params,
                data=body,
                headers=sent,
                timeout=timeout,
                server_hostname=self.access.tls_server_name,
                allow_redirects=False,  # a PATCH that is sent elsewhere would arrive there as a GET
            ) as response:
                answered = True
                self.observer(*name_of(method, path, params), str(response.status))
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            if not answered:
                self.observer(*name_of(method, path, params), UNREACHABLE)
            raise await self._unreachable(exc, f"{method} {path}") from exc

    def _token(self) -> str:
        try:
            return self.access.token.token() if self.access.token else ""
        except NoAccess as exc:
            raise Away(exc.what, why=exc.why, next_step=exc.next_step) from exc

    async def _unreachable(self, exc: BaseException, call: str) -> Unreachable:
        if isinstance(exc, aiohttp.ClientConnectorCertificateError):
            name = self.access.tls_server_name or exc.host
            why, step = await why_untrusted(exc.certificate_error, exc.host, exc.port or 443, name)
            kind: type[Unreachable] = _Untrusted
        else:
            kind, why, step = _why(exc)
        source = self.access.source
        step = f"{step} (see {source})" if step and source else step
        return kind(f"the API server {self.access.server} did not answer {call}", why=why, next_step=step)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            tls = self.access.tls if self.access.tls is not None else False
            self._session = aiohttp.ClientSession(
                connector=_Connector(self._fence, ssl=tls, limit=0, ttl_dns_cache=30),
                headers={"User-Agent": self._agent, "Accept": JSON, "Accept-Encoding": "identity"},
                auto_decompress=True,
                trust_env=False,
            )
        return self._session


class _Connector(aiohttp.TCPConnector):
    """Knows which connections carry writes, and asks the fence once more when such a one is there.

    Making a connection can take seconds. And its end can come late: closed politely, the kernel goes on
    sending for a quarter of an hour, so that a write from before a partition arrives after it. Behind a fence
    sockets are made so that `abort` takes back what is left.
    """

    def __init__(self, fence: Fence | None, **options: Any) -> None:
        super().__init__(**options, socket_factory=_resetting_socket if fence else None)
        self._fence = fence
        self._writing: set[asyncio.Transport] = set()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: builtins.list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        if self._fence is not None and req.method != "GET":
            if not self._fence.is_open:
                connection.release()
                raise Fenced
            self._note(connection)
        return connection

    def _note(self, connection: Connection) -> None:
        transport = connection.transport
        if transport is not None:
            self._writing.add(transport)
            connection.add_callback(lambda: self._writing.discard(transport))

    def reset_writes(self) -> None:
        for transport in tuple(self._writing):
            transport.abort()


def _resetting_socket(address: AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return made


class _Untrusted(Away):
    """We do not accept the server's certificate."""


@dataclass
class _Patience:
    """Which failures of one call are tried again, and after how long.

    safe   the call may arrive twice without harm
    """

    safe: bool
    _busy: int = 0
    _waited_s: float = 0.0
    _used: tuple[str, ...] = ()

    def used(self, chance: str) -> bool:
        """True from the second time on."""
        if chance in self._used:
            return True
        self._used += (chance,)
        return False

    def find_wait(self, exc: ApiError) -> float | None:
        """Seconds until the next try, None when the caller must hear of it."""
        if isinstance(exc, Cut):
            # Only a kept connection that the server closed meanwhile; whoever loops has his own patience.
            return 0.0 if self.safe and not self.used("cut") else None
        if isinstance(exc, TooManyRequests):  # nothing was done: safe for every verb
            return self._busy_wait(exc.retry_after or 1.0)
        if isinstance(exc, ServiceUnavailable | ServerTimeout) and self.safe and exc.retry_after:
            return self._busy_wait(exc.retry_after)
        return None

    def _busy_wait(self, asked_s: float) -> float | None:
        self._busy += 1
        wait_s = asked_s * random.uniform(1.0, 1.1)
        if self._busy == MAX_TRIES or self._waited_s + asked_s > MAX_BUSY_WAIT_S:
            return None
        self._waited_s += wait_s
        return wait_s


_RIGHT_ADDRESS = "check that the API server runs and that its address is right"
_RIGHT_SERVER = (
    "check that the address is the API server's own; a proxy, gateway or login page may stand there"
)
_REASONS = {
    errno.ECONNREFUSED: "nothing listens there (connection refused)",
    errno.EHOSTUNREACH: "no route leads to that host",
    errno.ENETUNREACH: "no route leads to that network",
    errno.ETIMEDOUT: "the host does not answer",
}


def _why(exc: BaseException) -> tuple[type[Unreachable], str, str]:
    """Why no answer came, and what to do about it, instead of what the HTTP library calls it."""
    match exc:
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | ConnectionResetError():
            return Cut, "the server closed the connection", ""
        case aiohttp.ClientConnectorSSLError():
            return Away, "what listens there does not speak TLS as we do", _RIGHT_ADDRESS
        case aiohttp.ClientConnectorDNSError():
            return Away, f"the name {exc.host} leads to no address", _RIGHT_ADDRESS
        case aiohttp.ClientConnectorError():
            known = _REASONS.get(exc.os_error.errno or 0)
            return Away, known or exc.os_error.strerror or "no connection", _RIGHT_ADDRESS
        case aiohttp.ConnectionTimeoutError():
            return Away, "the host does not answer", _RIGHT_ADDRESS
        case TimeoutError():
            return Unreachable, "no answer in time", _RIGHT_ADDRESS
        case aiohttp.ClientResponseError():
            return Unreachable, f"what listens there does not speak HTTP: {exc.message}", _RIGHT_ADDRESS
    return Unreachable, str(exc) or type(exc).__name__, _RIGHT_ADDRESS


async def _next_chunk(response: aiohttp.ClientResponse, until: float) -> bytes:
    """What has come, b"" when the stream has ended or nothing came until then."""
    try:
        async with asyncio.timeout_at(until):
            return await response.content.readany()
    except TimeoutError:
        return b""


async def _body_of(response: aiohttp.ClientResponse, call: str) -> bytes:
    body = await _up_to(response, MAX_ANSWER_BYTES)
    if len(body) > MAX_ANSWER_BYTES:
        raise _unusable(call, f"it is larger than {MAX_ANSWER_BYTES >> 20} MiB")
    return body


async def _up_to(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body; of a larger one a little more than `limit` bytes."""
    chunks, size = [], 0
    while size <= limit and (chunk := await response.content.readany()):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


async def _raise_for_status(response: aiohttp.ClientResponse, call: str) -> None:
    if response.status < 300:
        return
    if response.status < 400:
        where = response.headers.get("Location", "nowhere")
        raise _unusable(call, f"it sends us elsewhere (HTTP {response.status} to {where})")
    text = (await _up_to(response, MAX_ERROR_BYTES)).decode(errors="replace")
    try:
        body = wire.decode_any(text)
    except (msgspec.DecodeError, RecursionError):
        body = text
    raise error_of(response.status, body, retry_after=response.headers.get("Retry-After"), call=call)


def _event_of(line: bytes, decode: Decode[T], call: str) -> WatchEvent[T]:
    event = _read(wire.decode_line, line, call)
    raw = cast(bytes, event.object)
    if event.type == "ERROR":
        status = _read(wire.decode_any, raw, call)
        code = status.get("code") if isinstance(status, Mapping) else None
        raise error_of(code if isinstance(code, int) else 500, status, call=call)
    version = _read(wire.raw_version_of, raw, call)
    obj = None if event.type == "BOOKMARK" else _find_object(raw, decode)
    return WatchEvent(event.type, version, obj)


def _find_object(raw: bytes, decode: Decode[T]) -> T | None:
    """One object; None, with a warning, for one that does not fit: it must not stop the others."""
    try:
        return decode(raw)
    except (msgspec.ValidationError, RecursionError) as exc:
        named = wire.find_name_of(raw)
        log.warning("object skipped", name=named.name, namespace=named.namespace, error=str(exc))
        return None


def _read(decode: Callable[[bytes], T], body: bytes, call: str) -> T:
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise _unusable(call, _shown(bytes(body), exc)) from exc  # msgspec.Raw cannot be cut


def _unusable(call: str, why: str) -> Unreachable:
    return Unreachable(f"the answer to {call} cannot be read", why=why, next_step=_RIGHT_SERVER)


def _shown(body: bytes, exc: Exception) -> str:
    start = body[:64].strip()
    if start[:1] == b"<":
        return "it is a page of HTML"
    return f"{exc}; it begins with {start[:32]!r}" if start else "it is empty"


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in selectors.items() if value}


def _written_by() -> dict[str, str]:
    return {"fieldManager": names.FIELD_MANAGER}


def _namespace_of(obj: Mapping[str, Any]) -> str | None:
    return cast("str | None", obj.get("metadata", {}).get("namespace"))


def _path_of(resource: Resource, obj: Mapping[str, Any], subresource: str | None) -> str:
    return resource.path(namespace=_namespace_of(obj), name=obj["metadata"]["name"], subresource=subresource)
