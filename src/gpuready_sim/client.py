"""How the simulator's own parts (kubelets, scheduler, controllers) talk to an API server.

`SimClient` is one request each; `informer.Informer` keeps a dict of one resource true by list and watch.
The API server may be ours or a real one: nothing here knows which.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

import yaml
from yarl import URL

from gpuready_sim.lean_http import aiohttp

Object = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """One kind as the API server names it in paths."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/".join(parts)


NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
EVENTS = Resource("", "v1", "events", "Event")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)


class ApiStatus(Exception):
    """The API server refused: HTTP code, reason word, message."""

    def __init__(self, code: int, reason: str, message: str, body: Object | None = None) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.body = body or {}


class NotFound(ApiStatus):
    """No such object, or no such resource."""


class Conflict(ApiStatus):
    """Somebody else wrote first, or a field manager owns the field."""


class AlreadyExists(ApiStatus):
    """The name is taken."""


class Gone(ApiStatus):
    """The resourceVersion asked for is too old: list again."""


class Unreachable(Exception):
    """No answer from the API server."""


_ERRORS: Mapping[str, type[ApiStatus]] = {
    "NotFound": NotFound,
    "Conflict": Conflict,
    "AlreadyExists": AlreadyExists,
    "Gone": Gone,
    "Expired": Gone,
}
_ERRORS_BY_CODE: Mapping[int, type[ApiStatus]] = {404: NotFound, 409: Conflict, 410: Gone}

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
BUSY_TRIES = 10


@dataclass(frozen=True)
class Access:
    """Where an API server is and what proves who we are."""

    server: str
    token: str = ""
    ca_pem: str = ""
    client_certificate: str = ""  # file paths; empty when a token is used
    client_key: str = ""

    @classmethod
    def from_kubeconfig(cls, path: Path | str, context: str = "") -> Self:
        """The current (or named) context of a kubeconfig file; file and inline data both work."""
        base = Path(path)
        config = yaml.load(base.read_text(), Loader=yaml.CSafeLoader)
        chosen = _named(config["contexts"], context or config["current-context"])["context"]
        cluster = _named(config["clusters"], chosen["cluster"])["cluster"]
        user = _named(config["users"], chosen["user"])["user"]
        return cls(
            server=cluster["server"].rstrip("/"),
            token=user.get("token", ""),
            ca_pem=_text_of(cluster, "certificate-authority", base.parent),
            client_certificate=_file_of(user, "client-certificate", base.parent),
            client_key=_file_of(user, "client-key", base.parent),
        )

    def ssl_context(self) -> ssl.SSLContext | bool:
        if not self.server.startswith("https:"):
            return True
        made = ssl.create_default_context(cadata=self.ca_pem or None)
        if self.client_certificate:
            made.load_cert_chain(self.client_certificate, self.client_key)
        return made


class SimClient:
    """One connection pool to an API server; objects are plain dicts.

    Every method raises an ApiStatus subclass for the server's refusals and Unreachable when there is
    no answer at all.
    """

    def __init__(self, access: Access, *, user_agent: str = "sim-controllers", timeout_s: float = 30) -> None:
        self.access = access
        self._user_agent = user_agent
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def from_kubeconfig(cls, path: Path | str, *, user_agent: str = "sim-controllers") -> Self:
        return cls(Access.from_kubeconfig(path), user_agent=user_agent)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    # --- reading ----------------------------------------------------------------------------------------
    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, subresource: str | None = None
    ) -> Object:
        return await self.raw("GET", resource.path(namespace, name, subresource))

    async def find(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """Like get, None when the object is not there."""
        try:
            return await self.get(resource, name, namespace)
        except NotFound:
            return None

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> tuple[list[Object], str]:
        """All pages; the items (kind and apiVersion filled in) and the list's resourceVersion."""
        items: list[Object] = []
        params = _selectors(label_selector, field_selector) | {"limit": str(limit)}
        while True:
            page = await self.raw("GET", resource.path(namespace), params=params)
            for item in page.get("items") or []:
                item.setdefault("kind", resource.kind)
                item.setdefault("apiVersion", resource.api_version)
                items.append(item)
            more = page["metadata"].get("continue")
            if not more:
                return items, page["metadata"]["resourceVersion"]
            params["continue"] = more

    async def watch(
        self,
        resource: Resource,
        resource_version: str,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: int = 300,
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[tuple[str, Object]]:
        """Events (type, object) after a resourceVersion, with bookmarks, until the server ends the stream.

        raises Gone when the version is too old, whether the server says so by status or in the stream
        """
        params = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_s),
        }
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout_s, sock_read=timeout_s + 30)
        try:
            async with self._answer(
                "GET", resource.path(namespace), params=params, timeout=limits
            ) as response:
                await _raise_for_status(response)
                on_open()
                async for line in _lines(response.content):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise _error_of(event["object"].get("code", 500), event["object"])
                    yield event["type"], event["object"]
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise Unreachable(f"watch of {resource.plural} broke: {exc or type(exc).__name__}") from exc

    # --- writing ----------------------------------------------------------------------------------------
    async def create(
        self,
        resource: Resource,
        obj: Object,
        namespace: str | None = None,
        *,
        name: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """POST; with name and subresource for `pods/NAME/binding`, `serviceaccounts/NAME/token` ..."""
        namespace = namespace or obj.get("metadata", {}).get("namespace")
        return await self.raw("POST", resource.path(namespace, name, subresource), body=obj)

    async def replace(self, resource: Resource, obj: Object, *, subresource: str | None = None) -> Object:
        meta = obj["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"], subresource)
        return await self.raw("PUT", path, body=obj)

    async def merge_patch(
        self,
        resource: Resource,
        name: str,
        patch: Object,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Object:
        path = resource.path(namespace, name, subresource)
        return await self.raw("PATCH", path, body=patch, content_type=MERGE_PATCH)

    async def strategic_patch(
        self,
        resource: Resource,
        name: str,
        patch: Object,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Object:
        path = resource.path(namespace, name, subresource)
        return await self.raw("PATCH", path, body=patch, content_type=STRATEGIC_PATCH)

    async def apply(
        self,
        resource: Resource,
        obj: Object,
        *,
        field_manager: str = "gpuready-sim",
        subresource: str | None = None,
    ) -> Object:
        """Server-side apply, forced."""
        meta = obj["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"], subresource)
        params = {"fieldManager": field_manager, "force": "true"}
        return await self.raw("PATCH", path, body=obj, params=params, content_type=APPLY_PATCH)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace_s: int | None = None,
        propagation: str = "",
        uid: str = "",
        missing_ok: bool = True,
    ) -> None:
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if propagation:
            options["propagationPolicy"] = propagation
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            await self.raw("DELETE", resource.path(namespace, name), body=options)
        except NotFound:
            if not missing_ok:
                raise

    async def raw(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        """Any request that answers with JSON."""
        return json.loads(  # type: ignore[no-any-return]
            await self.raw_bytes(method, path, body=body, params=params, content_type=content_type) or b"{}"
        )

    async def raw_bytes(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Any request; the answer's bytes (pod logs, proxied pages, /readyz)."""
        data = None if body is None else json.dumps(body).encode()
        limits = aiohttp.ClientTimeout(total=self._timeout_s)
        try:
            async with self._answer(
                method, path, params=params, data=data, content_type=content_type, timeout=limits
            ) as response:
                await _raise_for_status(response)
                body_bytes: bytes = await response.read()
                return body_bytes
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise Unreachable(f"{method} {path}: {exc or type(exc).__name__}") from exc

    @asynccontextmanager
    async def _answer(self, method: str, path: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """Sent again, later, when the server is too busy: a real one says so for a new CRD, too."""
        for tries_left in reversed(range(BUSY_TRIES)):
            async with self._request(method, path, **options) as response:
                if response.status != 429 or not tries_left:
                    yield response
                    return
                wait_s = float(response.headers.get("Retry-After") or 1)
            await asyncio.sleep(wait_s)

    def _request(
        self,
        method: str,
        path: str,
        *,
        timeout: aiohttp.ClientTimeout,
        params: Mapping[str, str] | None = None,
        data: bytes | None = None,
        content_type: str = "application/json",
    ) -> Any:
        url = f"{self.access.server}{path}"
        if params:
            url += ("&" if "?" in path else "?") + urlencode(params)
        headers = {"Content-Type": content_type} if data is not None else {}
        return self._open().request(method, _encoded(url), data=data, headers=headers, timeout=timeout)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            headers = {"User-Agent": f"{self._user_agent}/1", "Accept": "application/json"}
            if self.access.token:
                headers["Authorization"] = f"Bearer {self.access.token}"
            connector = aiohttp.TCPConnector(ssl=self.access.ssl_context(), limit=0)
            self._session = aiohttp.ClientSession(headers=headers, connector=connector)
        return self._session


def key_of(obj: Mapping[str, Any]) -> str:
    """`namespace/name`, or `name` for cluster-scoped objects."""
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    chosen = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in chosen.items() if value}


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length (readline() of aiohttp refuses those over 64 KiB)."""
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield line


async def _raise_for_status(response: aiohttp.ClientResponse) -> None:
    if response.status < 400:
        return
    text = await response.text()
    try:
        status = json.loads(text)
    except ValueError:
        status = {"message": text}
    raise _error_of(response.status, status if isinstance(status, dict) else {"message": text})


def _error_of(code: int, status: Object) -> ApiStatus:
    reason = status.get("reason") or ""
    kind = _ERRORS.get(reason) or _ERRORS_BY_CODE.get(code, ApiStatus)
    return kind(code, reason, status.get("message") or "", status)


def _named(entries: list[Object], name: str) -> Object:
    return next(entry for entry in entries if entry["name"] == name)


def _text_of(section: Object, key: str, base: Path) -> str:
    if f"{key}-data" in section:
        return base64.b64decode(section[f"{key}-data"]).decode()
    return (base / section[key]).read_text() if key in section else ""


def _file_of(section: Object, key: str, base: Path) -> str:
    if f"{key}-data" in section:
        target = base / f".{key}.pem"
        target.touch(mode=0o600)
        target.write_bytes(base64.b64decode(section[f"{key}-data"]))
        return str(target)
    return str(base / section[key]) if key in section else ""


def _encoded(url: str) -> URL:
    """The URL as written: yarl would otherwise decode and re-encode selectors."""
    return URL(url, encoded=True)
