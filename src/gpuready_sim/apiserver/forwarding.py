"""Requests that the API server passes on: logs from kubelets, and proxied calls to pods, services, nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from gpuready_sim.apiserver.failures import Failure, Obj, bad_request, not_found
from gpuready_sim.apiserver.requests import Request, Stream, Target
from gpuready_sim.apiserver.selectors import LabelSelector, Requirement
from gpuready_sim.apiserver.store import Store
from gpuready_sim.apiserver.tunnel import Destination

if TYPE_CHECKING:
    import aiohttp

_LOG_OPTIONS = ("follow", "previous", "tailLines", "sinceSeconds", "sinceTime", "timestamps", "limitBytes")
_NOT_FORWARDED = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_REASONS = {400: "BadRequest", 404: "NotFound", 503: "ServiceUnavailable"}


class Forwarding:
    """Holds the client for calls to nodes and pods."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def log(self, request: Request, target: Target) -> Stream:
        """The log of a container, as its kubelet has it.

        raises  Failure 400 when the pod has several containers and none is named, or is not on a node
        """
        pod = self._object("pods", target.namespace, target.name)
        container = _container(pod, request.query.get("container", ""))
        node = (pod.get("spec") or {}).get("nodeName")
        if not node:
            raise bad_request(f"pod {target.name} does not have a host assigned")
        options = {name: request.query[name] for name in _LOG_OPTIONS if name in request.query}
        path = f"/containerLogs/{target.namespace}/{target.name}/{container}"
        url = self._kubelet(node) + path + (f"?{urlencode(options)}" if options else "")
        return await self._answer_of("GET", url, {}, b"", refuse_errors=True)

    def exec(self, request: Request, target: Target) -> Destination:
        """Where the kubelet runs a program in a container.

        raises  Failure 400 when the pod has several containers and none is named, or is not on a node
        """
        pod = self._object("pods", target.namespace, target.name)
        container = _container(pod, request.query.get("container", ""))
        node = (pod.get("spec") or {}).get("nodeName")
        if not node:
            raise bad_request(f"pod {target.name} does not have a host assigned")
        place = urlsplit(self._kubelet(node))
        path = f"/exec/{target.namespace}/{target.name}/{container}?{request.query_text}"
        return Destination(place.hostname or "", place.port or 0, path)

    async def proxy(self, request: Request, target: Target) -> Stream:
        """What a pod, a service or a node answers to the forwarded request, whatever its status.

        raises  Failure 503 when it cannot be reached
        """
        find: dict[str, Callable[[Target], str]] = {
            "pods": self._pod_address,
            "services": self._service_address,
            "nodes": self._node_address,
        }
        url = find[target.plural](target) + target.rest
        if request.query_text:
            url += "?" + request.query_text
        headers = {name: value for name, value in request.headers.items() if name not in _NOT_FORWARDED}
        return await self._answer_of(request.method, url, headers, request.body, refuse_errors=False)

    async def _answer_of(
        self, method: str, url: str, headers: dict[str, str], body: bytes, *, refuse_errors: bool
    ) -> Stream:
        from gpuready_sim.lean_http import (
            aiohttp,  # a third of the server's start, and most servers are never asked for this
        )

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
            self._session = aiohttp.ClientSession(timeout=timeout, auto_decompress=False)
        try:
            response = await self._session.request(
                method, url, headers=headers, data=body or None, allow_redirects=False
            )
        except (aiohttp.ClientError, TimeoutError) as exc:
            message = f"error trying to reach service: {exc}"
            raise Failure(503, "ServiceUnavailable", message) from exc
        if refuse_errors and response.status >= 400:
            text = (await response.text()).strip()
            raise Failure(response.status, _REASONS.get(response.status, "InternalError"), text)
        passed = [
            (name, value) for name, value in response.headers.items() if name.lower() not in _NOT_FORWARDED
        ]
        kept = [(name, value) for name, value in passed if name.lower() != "content-type"]
        content_type = response.headers.get("Content-Type", "text/plain")
        return Stream(_chunks(response), content_type, response.status, kept)

    # --- addresses ---

    def _pod_address(self, target: Target) -> str:
        scheme, name, port = split_name(target.name)
        pod = self._object("pods", target.namespace, name)
        address = (pod.get("status") or {}).get("podIP")
        if not address:
            raise Failure(503, "ServiceUnavailable", f"address not allowed: pod {name} has no address yet")
        return f"{scheme}://{address}:{_pod_port(pod, port)}"

    def _service_address(self, target: Target) -> str:
        scheme, name, port = split_name(target.name)
        service = self._object("services", target.namespace, name)
        spec = service.get("spec") or {}
        found = _service_port(spec.get("ports") or [], port)
        if found is None:
            raise Failure(503, "ServiceUnavailable", f'no service port "{port}" found for service "{name}"')
        pod = self._ready_pod(target.namespace, spec.get("selector") or {})
        if pod is None:
            raise Failure(503, "ServiceUnavailable", f'no endpoints available for service "{name}"')
        wanted = str(found.get("targetPort") or found["port"])
        return f"{scheme}://{pod['status']['podIP']}:{_pod_port(pod, wanted)}"

    def _node_address(self, target: Target) -> str:
        scheme, name, port = split_name(target.name)
        if not port:
            return self._kubelet(name)
        return f"{scheme}://{_internal_address(self._object('nodes', '', name))}:{port}"

    def _kubelet(self, name: str) -> str:
        node = self._object("nodes", "", name)
        endpoint = ((node.get("status") or {}).get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
        if not endpoint.get("Port"):
            raise Failure(503, "ServiceUnavailable", f"node {name} has told no kubelet port yet")
        return f"http://{_internal_address(node)}:{endpoint['Port']}"

    def _ready_pod(self, namespace: str, labels: dict[str, str]) -> Obj | None:
        selector = LabelSelector(tuple(Requirement(k, "in", frozenset([v])) for k, v in labels.items()))
        if not labels:
            return None
        for entry in self._store.table("pods").sorted_entries(namespace):
            if selector.matches(entry.obj) and _is_ready(entry.obj):
                return entry.obj
        return None

    def _object(self, plural: str, namespace: str, name: str) -> Obj:
        entry = self._store.table(plural).get(namespace, name)
        if entry is None:
            raise not_found(plural, "", name)
        return entry.obj


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    finally:
        response.close()


def split_name(name: str) -> tuple[str, str, str]:
    """[SCHEME:]NAME[:PORT] as (scheme, name, port)."""
    parts = name.split(":")
    if len(parts) == 3:
        return parts[0] or "http", parts[1], parts[2]
    if len(parts) == 2:
        return "http", parts[0], parts[1]
    return "http", name, ""


def _container(pod: Obj, wanted: str) -> str:
    spec = pod.get("spec") or {}
    names = [c["name"] for c in spec.get("containers") or []]
    others = [c["name"] for c in spec.get("initContainers") or []]
    name = pod["metadata"]["name"]
    if wanted:
        if wanted not in names + others:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(names) == 1 and not others:
        return str(names[0])
    preferred = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if preferred in names:
        return str(preferred)
    if len(names) == 1:
        return str(names[0])
    raise bad_request(
        f"a container name must be specified for pod {name}, choose one of: [{' '.join(others + names)}]"
    )


def _pod_port(pod: Obj, wanted: str) -> str:
    """A port by its number or its name; the first declared one when none is wanted."""
    ports = [p for c in pod["spec"].get("containers") or [] for p in c.get("ports") or []]
    if not wanted:
        return str(ports[0]["containerPort"]) if ports else "80"
    named = next((p for p in ports if p.get("name") == wanted), None)
    return str(named["containerPort"]) if named else wanted


def _service_port(ports: list[Obj], wanted: str) -> Obj | None:
    if not wanted:
        return ports[0] if len(ports) == 1 else None
    return next((p for p in ports if wanted in (p.get("name"), str(p["port"]))), None)


def _internal_address(node: Obj) -> str:
    addresses = (node.get("status") or {}).get("addresses") or []
    found = next((a["address"] for a in addresses if a.get("type") == "InternalIP"), None)
    if found is None:
        name = node["metadata"]["name"]
        raise Failure(503, "ServiceUnavailable", f"no preferred addresses found for node {name}")
    return str(found)


def _is_ready(pod: Obj) -> bool:
    status = pod.get("status") or {}
    conditions = status.get("conditions") or []
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return ready and bool(status.get("podIP"))
