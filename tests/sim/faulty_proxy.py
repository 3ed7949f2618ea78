"""A proxy in front of an API server that does to single calls what networks and busy servers do.

    async with FaultyProxy.in_front_of(cluster.kubeconfig, cluster.place.data, port) as proxy:
        rule = proxy.add(refuses(409, "Conflict"), client="gpuready-operator", verb="patch", resource="nodes")
        ...
        assert rule.hits == 1

It speaks TLS with the server's own certificate, and passes tokens on, so clients cannot tell it from the
server. `calls` holds every call with what became of it.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

FOR_EVER = 1_000_000
_SINGLE_HOP = {"transfer-encoding", "content-length", "connection", "date", "server", "keep-alive"}
_APPLY = "application/apply-patch+yaml"
_WRITES = ("create", "update", "patch", "apply", "delete")


@dataclass(frozen=True)
class Call:
    """One request as RBAC sees it; `verb` "apply" is a PATCH that applies."""

    client: str
    verb: str
    group: str
    resource: str  # with its subresource: "nodes/status"
    namespace: str
    name: str
    body: bytes = b""

    @property
    def kind(self) -> tuple[str, str, str]:
        return self.client, self.verb, self.resource

    @property
    def is_write(self) -> bool:
        return self.verb in _WRITES

    @property
    def rbac_verb(self) -> str:
        return "patch" if self.verb == "apply" else self.verb

    def __str__(self) -> str:
        return f"{self.client} {self.verb} {self.resource} {self.name}".rstrip()


UNDER_WAY = "closed under way"


@dataclass
class Done:
    """What became of a call: the fault, the status that the server gave, the version that a write left."""

    call: Call
    fault: str = ""
    status: int = 0  # 0: it never reached the server
    version: str = ""
    times: int = 0  # how often it reached the server


class Exchange:
    """One call under way, for a fault to spoil."""

    def __init__(self, proxy: FaultyProxy, request: web.Request, done: Done) -> None:
        self.request = request
        self.done = done
        self._proxy = proxy

    @property
    def call(self) -> Call:
        return self.done.call

    @property
    def is_watch(self) -> bool:
        return self.call.verb == "watch"

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[aiohttp.ClientResponse]:
        """The server's answer, from its head on."""
        async with self._proxy.upstream(self.request, self.call.body) as answer:
            self.done.times += 1
            self.done.status = answer.status
            yield answer

    async def forward(self) -> tuple[int, dict[str, str], bytes]:
        """The server's whole answer: status, headers, body."""
        async with self.opened() as answer:
            body = await answer.read()
            if self.call.is_write and answer.status < 300:
                self.done.version = _version_in(body)
            return answer.status, _headers_of(answer), body

    async def passed(self) -> web.StreamResponse:
        """As if there were no proxy."""
        if not self.is_watch:
            status, headers, body = await self.forward()
            return web.Response(status=status, headers=headers, body=body)
        async with self.opened() as answer:
            response = web.StreamResponse(status=answer.status, headers=_headers_of(answer))
            await response.prepare(self.request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    async def begun(self, status: int = 200, **headers: str) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers={"Content-Type": "application/json", **headers})
        await response.prepare(self.request)
        return response

    def cut(self) -> web.Response:
        """No more byte in either direction."""
        if self.request.transport is not None:
            self.request.transport.abort()
        return web.Response()


Fault = Callable[[Exchange], Awaitable[web.StreamResponse]]


@dataclass
class Rule:
    """Which calls a fault meets: an empty field takes all; the first `after` that fit are spared."""

    fault: Fault
    client: str = ""
    verb: str = ""
    resource: str = ""
    name: str = ""
    after: int = 0
    times: int = 1
    seen: int = 0
    hits: int = 0
    hit: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, call: Call) -> bool:
        asked = ((self.client, call.client), (self.resource, call.resource), (self.name, call.name))
        if any(want not in ("", have) for want, have in asked):
            return False
        if self.verb not in ("", call.verb, "write" if call.is_write else ""):
            return False
        self.seen += 1
        if self.seen <= self.after or self.hits >= self.times:
            return False
        self.hits += 1
        self.hit.set()
        return True


class FaultyProxy:
    def __init__(self, server: str) -> None:
        self._server = URL(server)
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._tls: ssl.SSLContext | None = None
        self.rules: list[Rule] = []
        self.calls: list[Done] = []
        self._under_way: set[Exchange] = set()
        self.port = 0

    @classmethod
    @asynccontextmanager
    async def in_front_of(
        cls, kubeconfig: Path, certificate: Path, key: Path, port: int = 0
    ) -> AsyncIterator[FaultyProxy]:
        cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
        proxy = cls(cluster["server"])
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        await proxy.start(tls, port)
        try:
            yield proxy
        finally:
            await proxy.stop()

    async def start(self, tls: ssl.SSLContext | None, port: int = 0) -> None:
        self._tls = tls
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=False, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=16 << 20,  # lines of watches are long
            auto_decompress=False,
        )
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port or self.port, ssl_context=tls, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Every connection ends and nobody listens."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()
        self._runner = self._session = None

    async def restart(self, away_s: float) -> None:
        """For so long nobody listens, as while an API server restarts."""
        await self.stop()
        await asyncio.sleep(away_s)
        await self.start(self._tls, self.port)

    def cut_all(self) -> None:
        """Every connection of a watch ends, without a word."""
        for exchange in [each for each in self._under_way if each.is_watch]:
            exchange.cut()

    async def until(self, seen: Callable[[Done], bool], count: int = 1, *, timeout_s: float = 40) -> None:
        """So many calls like that, from now on."""
        start = len(self.calls)
        async with asyncio.timeout(timeout_s):
            while sum(map(seen, self.calls[start:])) < count:
                await asyncio.sleep(0.05)

    def kubeconfig_for(self, kubeconfig: Path, to: Path) -> Path:
        """The same account, through the proxy."""
        config = yaml.safe_load(kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        to.write_text(yaml.safe_dump(config))
        return to

    # --- rules ------------------------------------------------------------------------------------------

    def add(self, fault: Fault, **match: Any) -> Rule:
        """Later rules are asked first."""
        rule = Rule(fault, **match)
        self.rules.insert(0, rule)
        return rule

    @contextmanager
    def rule(self, fault: Fault, **match: Any) -> Iterator[Rule]:
        """In force while the block runs."""
        rule = self.add(fault, **match)
        try:
            yield rule
        finally:
            self.rules.remove(rule)

    # --- what was seen ----------------------------------------------------------------------------------

    def kinds(self, calls: Sequence[Done] | None = None) -> Counter[tuple[str, str, str]]:
        return Counter(done.call.kind for done in (self.calls if calls is None else calls))

    def needless_writes(self, calls: Sequence[Done] | None = None) -> list[str]:
        """Writes that the server took and that changed nothing: the object had that version already."""
        seen: dict[tuple[str, str, str], str] = {}
        found = []
        for done in self.calls if calls is None else calls:
            if not done.version or done.call.verb == "delete":
                continue
            key = (done.call.resource.partition("/")[0], done.call.namespace, done.call.name)
            if seen.get(key) == done.version:
                found.append(f"{done.call}: {done.call.body[:300]!r}")
            seen[key] = done.version
        return found

    # --- serving ----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def upstream(self, request: web.Request, body: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._session is not None
        url = URL(f"{self._server}{request.raw_path}", encoded=True)
        headers = {k: v for k, v in request.headers.items() if k.lower() not in {*_SINGLE_HOP, "host"}}
        async with self._session.request(
            request.method, url, headers=headers, data=body or None, allow_redirects=False
        ) as answer:
            yield answer

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        call = call_of(request.method, request.raw_path, request.headers, await request.read())
        done = Done(call)
        self.calls.append(done)
        exchange = Exchange(self, request, done)
        rule = next((rule for rule in list(self.rules) if rule.takes(call)), None)
        answer_lost = False
        self._under_way.add(exchange)
        try:
            if rule is None:
                return await exchange.passed()
            done.fault = rule.fault.__qualname__.partition(".")[0]
            return await rule.fault(exchange)
        except (aiohttp.ClientError, ConnectionError):  # the server is away: so are we
            answer_lost = not exchange.is_watch
            return exchange.cut()
        finally:
            self._under_way.discard(exchange)
            is_closing = request.transport is None or request.transport.is_closing()
            # A fault of an earlier call has closed this one's connection, be this one faulty or not.
            if answer_lost or (is_closing and not done.fault):
                done.fault = UNDER_WAY


def call_of(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Call:
    url = URL(path, encoded=True)
    parts = [part for part in url.path.split("/") if part]
    group = ""
    if parts[:1] == ["api"]:
        parts = parts[2:]
    elif parts[:1] == ["apis"]:
        group, parts = parts[1] if len(parts) > 1 else "", parts[3:]
    namespace = ""
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    plural, name, sub = (*parts, "", "", "")[:3]
    verb = _verb(method, url, name, headers.get("Content-Type", ""))
    client = headers.get("User-Agent", "").partition("/")[0]
    return Call(client, verb, group, f"{plural}/{sub}" if sub else plural, namespace, name, body)


def _verb(method: str, url: URL, name: str, content_type: str) -> str:
    if method == "GET":
        return "watch" if url.query.get("watch") in ("true", "1") else "get" if name else "list"
    if method == "PATCH" and content_type.startswith(_APPLY):
        return "apply"
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method, method)


def _version_in(body: bytes) -> str:
    try:
        return str(json.loads(body)["metadata"]["resourceVersion"])
    except (ValueError, KeyError, TypeError):
        return ""


def _headers_of(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {k: v for k, v in answer.headers.items() if k.lower() not in _SINGLE_HOP}
