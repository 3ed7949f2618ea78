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


# --- faults: what the server or something in between answers ----------------------------------------------


def refuses(
    status: int,
    reason: str = "",
    message: str = "",
    *,
    retry_after: float | None = None,
    details: Mapping[str, Any] | None = None,
) -> Fault:
    """A Status of the API server; the call does not reach it."""

    async def refuse(exchange: Exchange) -> web.StreamResponse:
        text = message or f"no {exchange.call.verb} now: {reason or status}"
        return web.json_response(
            status_body(status, reason, text, details),
            status=status,
            headers={"Retry-After": f"{retry_after:g}"} if retry_after is not None else {},
        )

    return refuse


def status_body(
    status: int, reason: str, message: str, details: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": dict(details or {}),
        "code": status,
    }


def forbids() -> Fault:
    """What the real server says to an account without the rule.

    Source: kubernetes, staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go.
    """

    async def forbid(exchange: Exchange) -> web.StreamResponse:
        call = exchange.call
        qualified = f"{call.resource}.{call.group}" if call.group else call.resource
        where = f'in the namespace "{call.namespace}"' if call.namespace else "at the cluster scope"
        named = f'{qualified} "{call.name}"' if call.name else qualified
        message = (
            f'{named} is forbidden: User "system:serviceaccount:gpu-operator:{call.client}" cannot '
            f'{call.rbac_verb} resource "{call.resource}" in API group "{call.group}" {where}'
        )
        return web.json_response(status_body(403, "Forbidden", message), status=403)

    return forbid


def invalid(field_path: str) -> Fault:
    """422 that names a field."""

    async def refuse(exchange: Exchange) -> web.StreamResponse:
        call = exchange.call
        message = f'{call.resource} "{call.name}" is invalid: {field_path}: Invalid value: "x": not here'
        cause = {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "x": not here',
            "field": field_path,
        }
        return web.json_response(
            status_body(422, "Invalid", message, {"name": call.name, "causes": [cause]}), status=422
        )

    return refuse


def answers(body: bytes, *, status: int = 200, content_type: str = "application/json") -> Fault:
    """Something else than the API server answers."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers={"Content-Type": content_type})

    return answer


def redirects(to: str = "https://login.example/") -> Fault:
    async def redirect(exchange: Exchange) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": to})

    return redirect


def huge(mebibytes: int = 200) -> Fault:
    """An answer that does not end."""

    async def flood(exchange: Exchange) -> web.StreamResponse:
        response = await exchange.begun()
        await response.write(b'{"kind":"')
        for _ in range(mebibytes):
            await response.write(b"x" * (1 << 20))
        return response

    return flood


# --- faults: what happens to the connection ---------------------------------------------------------------


def hangs() -> Fault:
    """Nothing comes until the client goes."""

    async def hang(exchange: Exchange) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    return hang


def delayed(seconds: float) -> Fault:
    async def delay(exchange: Exchange) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await exchange.passed()

    return delay


def cut_before() -> Fault:
    """The call never arrives."""

    async def cut(exchange: Exchange) -> web.StreamResponse:
        return exchange.cut()

    return cut


def cut_after() -> Fault:
    """The call arrives, its answer is lost."""

    async def lose_answer(exchange: Exchange) -> web.StreamResponse:
        await exchange.forward()
        return exchange.cut()

    return lose_answer


def cut_in_answer() -> Fault:
    """The answer ends in its middle, with the connection."""

    async def cut_short(exchange: Exchange) -> web.StreamResponse:
        status, headers, body = await exchange.forward()
        response = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(len(body))})
        await response.prepare(exchange.request)
        await response.write(body[: len(body) // 2])
        await asyncio.sleep(0)
        exchange.cut()
        return response

    return cut_short


def half_json() -> Fault:
    """Half of the answer, as if that were all."""

    async def halve(exchange: Exchange) -> web.StreamResponse:
        status, headers, body = await exchange.forward()
        return web.Response(status=status, headers=headers, body=body[: len(body) // 2])

    return halve


def closes_after() -> Fault:
    """The connection is closed behind the answer, though nothing in it said so."""

    async def close_later(exchange: Exchange) -> web.StreamResponse:
        status, headers, body = await exchange.forward()
        response = web.Response(status=status, headers=headers, body=body)
        await response.prepare(exchange.request)
        await response.write_eof()  # all of it is out before the clock starts
        transport = exchange.request.transport
        if transport is not None:
            asyncio.get_running_loop().call_later(0.01, transport.close)
        return response

    return close_later


def drips(seconds: float = 2.0, pieces: int = 20) -> Fault:
    """The answer comes in small pieces."""

    async def drip(exchange: Exchange) -> web.StreamResponse:
        status, headers, body = await exchange.forward()
        response = await exchange.begun(status, **headers)
        size = max(1, len(body) // pieces)
        for start in range(0, len(body), size):
            await response.write(body[start : start + size])
            await asyncio.sleep(seconds / pieces)
        return response

    return drip


def doubled() -> Fault:
    """Somebody in between sends the call twice; the client sees the second answer."""

    async def double(exchange: Exchange) -> web.StreamResponse:
        await exchange.forward()
        exchange.done.version = ""
        return await exchange.passed()

    return double


# --- faults of watches ------------------------------------------------------------------------------------


def silent() -> Fault:
    """Accepted, and then nothing comes, not even a bookmark."""

    async def stay_silent(exchange: Exchange) -> web.StreamResponse:
        await exchange.begun()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    return stay_silent


def deaf_after(lines: int) -> Fault:
    """So many lines come through, then nothing more."""
    return _spoiled_watch("deaf_after", lines, _stay)


def cut_line(lines: int) -> Fault:
    """So many lines come through, half of the next one, and the connection ends."""
    return _spoiled_watch("cut_line", lines, _half_and_cut)


def garbage_line(lines: int = 0) -> Fault:
    return _spoiled_watch("garbage_line", lines, _garbage)


def doubled_lines() -> Fault:
    async def double_lines(exchange: Exchange) -> web.StreamResponse:
        async with exchange.opened() as answer:
            response = await exchange.begun(answer.status)
            async for line in answer.content:
                await response.write(line + line)
            return response

    return double_lines


def error_line(code: int, reason: str) -> Fault:
    async def say_error(exchange: Exchange) -> web.StreamResponse:
        response = await exchange.begun()
        event = {"type": "ERROR", "object": status_body(code, reason, f"{reason}: too old resource version")}
        await response.write(json.dumps(event).encode() + b"\n")
        return response

    return say_error


def _spoiled_watch(
    name: str, lines: int, then: Callable[[Exchange, web.StreamResponse, bytes], Awaitable[None]]
) -> Fault:
    async def spoil(exchange: Exchange) -> web.StreamResponse:
        async with exchange.opened() as answer:
            response = await exchange.begun(answer.status)
            left = lines
            async for line in answer.content:
                if left == 0:
                    await then(exchange, response, line)
                    return response
                left -= 1
                await response.write(line)
            return response

    spoil.__qualname__ = name
    return spoil


async def _stay(exchange: Exchange, response: web.StreamResponse, line: bytes) -> None:
    await asyncio.Event().wait()


async def _half_and_cut(exchange: Exchange, response: web.StreamResponse, line: bytes) -> None:
    await response.write(line[: len(line) // 2])
    await asyncio.sleep(0)
    exchange.cut()


async def _garbage(exchange: Exchange, response: web.StreamResponse, line: bytes) -> None:
    await response.write(b"\x00\xff{{{\n" + line)
