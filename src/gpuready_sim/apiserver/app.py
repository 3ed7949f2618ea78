"""The HTTP application: who asks, for what, and what is answered. Plain ASGI."""

from __future__ import annotations

import asyncio
import datetime
import logging
import time
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from gpuready_sim.apiserver import health, views
from gpuready_sim.apiserver.access import Access
from gpuready_sim.apiserver.actions import Actions
from gpuready_sim.apiserver.audit import Audit
from gpuready_sim.apiserver.discovery import Discovery
from gpuready_sim.apiserver.failures import (
    Failure,
    bad_request,
    internal_error,
    method_not_allowed,
    no_such_path,
    not_found,
    not_simulated,
    unauthorized,
)
from gpuready_sim.apiserver.forwarding import Forwarding
from gpuready_sim.apiserver.journal import Journal
from gpuready_sim.apiserver.lifecycle import Lifecycle
from gpuready_sim.apiserver.negotiation import YAML, error_form, to_yaml
from gpuready_sim.apiserver.pki import Identity
from gpuready_sim.apiserver.rbac import Authorizer
from gpuready_sim.apiserver.registry import Registry, ResourceType
from gpuready_sim.apiserver.requests import Reply, Request, Stream, Target, User, parse_path
from gpuready_sim.apiserver.resources import Answer, Resources, Settings
from gpuready_sim.apiserver.reviews import Reviews
from gpuready_sim.apiserver.store import Store, encode
from gpuready_sim.apiserver.tokens import Tokens
from gpuready_sim.apiserver.tunnel import Destination
from gpuready_sim.apiserver.watches import Watches
from gpuready_sim.apiserver.writes import Writes

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

log = logging.getLogger("gpuready_sim.apiserver")

_NOT_SIMULATED = ("attach", "portforward")  # of pods: they need a stream both ways

ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class ApiServer:
    """One API server: store, registry and everything that answers from them.

    data   directory of the journal; None keeps nothing
    audit  file that gets one line per request; None writes none
    """

    def __init__(
        self,
        identity: Identity,
        *,
        data: Path | None = None,
        audit: Path | None = None,
        history: int = 4096,
        settings: Settings | None = None,
        now: Callable[[], datetime.datetime] = views.now_utc,
    ) -> None:
        self.store = Store(history)
        self.registry = Registry.with_builtins()
        authorizer = Authorizer(self.store)
        self._access = Access(authorizer)
        self.writes = Writes(self.store, self.registry, now, self._access.check_grant)
        self.watches = Watches(self.store)
        self.tokens = Tokens(identity, self.store, lambda: now().timestamp())
        self._resources = Resources(
            self.store, self.registry, self.writes, self.watches, now, settings or Settings()
        )
        self._actions = Actions(self._resources, self.tokens, now)
        self._reviews = Reviews(self.tokens, authorizer, now)
        self._discovery = Discovery(self.registry)
        self._forwarding = Forwarding(self.store)
        self._lifecycle = Lifecycle(
            self.store, self.registry, self.writes, self.watches, ca_pem=identity.ca_pem, now=now
        )
        self._audit = Audit(audit)
        self._journal = Journal(data / "journal.jsonl") if data is not None else None

    def start(self) -> None:
        """Take up what an earlier life left and create what every cluster has."""
        if self._journal is not None:
            self._journal.replay(self.store)
            self._journal.open(self.store)
        self._lifecycle.start()

    async def stop(self) -> None:
        self.end_streams()
        await self._forwarding.close()
        self._audit.close()
        if self._journal is not None:
            self._journal.close()

    def end_streams(self) -> None:
        """End all watches now, so that their clients resume elsewhere and the server can stop."""
        self.watches.close_all()

    # --- ASGI ---

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(await _read(scope, receive), receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _serve(self, request: Request, receive: Receive, send: Send) -> None:
        begun = time.perf_counter()
        answer = await self._answer_or_refuse(request)
        answer.headers += [("Warning", text) for text in _warnings(request.warnings)]
        self._audit.note(request, answer.code, time.perf_counter() - begun)
        if isinstance(answer, Reply):
            await _send_reply(answer, request, send)
        else:
            await _send_stream(answer, receive, send)

    async def _answer_or_refuse(self, request: Request) -> Answer:
        try:
            return await self.answer(request)
        except Failure as exc:
            form, body = error_form(request), encode(exc.status())
            if form.media == YAML:
                body = to_yaml(body)
            return Reply(exc.code, body, form.media, headers=list(exc.headers))
        except Exception as exc:
            log.exception("request failed: %s %s", request.method, request.path)
            failure = internal_error(f"{type(exc).__name__}: {exc}")
            return Reply(failure.code, encode(failure.status()))

    # --- routing ---

    async def answer(self, request: Request) -> Answer:
        """
        raises  Failure for everything that is refused
        """
        request.target = parse_path(request.path)
        request.user = self._user_of(request)
        self._access.admit(request)
        if request.target is None:
            return self._answer_beside_resources(request)
        target = request.target
        resource = self.registry.find(target.group, target.version, target.plural)
        if resource is None:
            return self._nothing_at(target.group)
        if resource.custom is not None and target.namespace and not resource.namespaced:
            return _no_page()
        return await self._answer_on(request, request.target, resource)

    async def tunnel(self, request: Request) -> Destination:
        """Where an upgraded connection leads: to the kubelet of a pod, for exec.

        raises  Failure
        """
        begun, code = time.perf_counter(), 101
        try:
            return self._tunnel(request)
        except Failure as exc:
            code = exc.code
            raise
        finally:
            self._audit.note(request, code, time.perf_counter() - begun)

    def _tunnel(self, request: Request) -> Destination:
        target = request.target = parse_path(request.path)
        request.user = self._user_of(request)
        self._access.admit(request)
        if target is None or target.group or target.plural != "pods":
            raise no_such_path()
        if target.subresource in _NOT_SIMULATED:
            raise not_simulated()
        if target.subresource != "exec":
            raise no_such_path()
        self._access.require_create(request)
        return self._forwarding.exec(request, target)

    def _user_of(self, request: Request) -> User:
        """
        raises  Failure 401 for a token that is unknown, expired, or bound to something that is gone
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not scheme:
            return ANONYMOUS
        user = self.tokens.user_of(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user

    def _answer_beside_resources(self, request: Request) -> Reply:
        if request.path == "/simulator/compact" and request.method == "POST":
            return self._compact(request)
        if found := health.answer(request.path, request.query_text):
            return found
        if request.path != "/" and request.method != "GET" and self._discovery.answer(request) is not None:
            raise method_not_allowed()
        parts = request.path.strip("/").split("/")
        found = self._discovery.answer(request)
        if found is None and parts[0] in ("api", "apis") and len(parts) > 1:
            return self._nothing_at("" if parts[0] == "api" else parts[1])
        return found or _no_page()

    def _nothing_at(self, group: str) -> Reply:
        """Of a group that is not known at all, or a custom one, a plain HTTP server answers.

        raises  Failure 404 for all others
        """
        if any(r.custom is None and r.group == group for r in self.registry.resources.values()):
            raise no_such_path()
        return _no_page()

    def _compact(self, request: Request) -> Reply:
        """Forget all history (and with ?watches=end cut all watches): everybody has to list anew."""
        self.store.compact()
        if request.query.get("watches") == "end":
            self.end_streams()
        return Reply(200, encode({"compacted": self.store.rv}))

    async def _answer_on(self, request: Request, target: Target, resource: ResourceType) -> Answer:
        if resource.is_question:
            if target.name:
                raise no_such_path()
            return self._reviews.ask(request, target, resource)
        if warning := resource.deprecation:
            request.warnings.append(warning)
        subresource = target.subresource
        if target.plural == "pods" and subresource in _NOT_SIMULATED:
            raise not_simulated()
        if subresource == "exec":
            raise bad_request("Upgrade request required")
        if subresource not in ("", *resource.subresources):
            if resource.custom is not None:
                raise not_found(resource.plural, resource.group, target.name)
            raise no_such_path()
        if request.method == "HEAD" and subresource != "proxy":
            raise method_not_allowed()
        if subresource == "proxy":
            return await self._forwarding.proxy(request, target)
        if subresource == "log":
            if request.method != "GET":
                raise method_not_allowed()
            return await self._forwarding.log(request, target)
        if self._actions.has(subresource):
            return self._actions.act(request, target, resource)
        if subresource and request.method not in ("GET", "PUT", "PATCH"):
            raise method_not_allowed(request.verb if resource.custom is not None else "", resource.qualified)
        return self._resources.answer(request, target, resource)


async def _read(scope: Scope, receive: Receive) -> Request:
    body = b""
    more = scope["method"] not in ("GET", "HEAD")
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False) and message["type"] == "http.request"
    raw_path = scope.get("raw_path") or scope["path"].encode()
    path = raw_path.split(b"?")[0].decode("latin-1")
    return Request(
        method=scope["method"],
        path=path if "%" in path and parse_path(path) else unquote(path),
        query_text=scope["query_string"].decode("latin-1"),
        headers=_joined(scope["headers"]),
        body=body,
    )


def _joined(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by their lower-case names; what comes several times is parted by line ends."""
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}\n{text}" if key in found else text
    return found


def _no_page() -> Reply:
    """Of what is served nowhere, as a plain HTTP server says it."""
    return Reply(404, b"404 page not found\n", "text/plain; charset=utf-8")


async def _send_reply(reply: Reply, request: Request, send: Send) -> None:
    headers = [
        (b"content-type", reply.content_type.encode()),
        (b"content-length", str(len(reply.body)).encode()),
    ]
    await send(
        {"type": "http.response.start", "status": reply.code, "headers": headers + _encoded(reply.headers)}
    )
    body = b"" if request.method == "HEAD" else reply.body
    await send({"type": "http.response.body", "body": body})


async def _send_stream(stream: Stream, receive: Receive, send: Send) -> None:
    """Send until the stream ends or the client goes away."""
    headers = [(b"content-type", stream.content_type.encode()), *_encoded(stream.headers)]
    await send({"type": "http.response.start", "status": stream.code, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    sending = asyncio.ensure_future(_pump(stream, send))
    leaving = asyncio.ensure_future(_wait_until_gone(receive))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)


async def _pump(stream: Stream, send: Send) -> None:
    async for chunk in stream.chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _encoded(headers: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("utf-8", "replace")) for name, value in headers]


def _warnings(texts: list[str]) -> Iterator[str]:
    """Each once; what no header can hold is not told, as really."""
    for text in dict.fromkeys(texts):
        if not any(unicodedata.category(char) == "Cc" for char in text):
            quoted = text.replace("\\", "\\\\").replace('"', '\\"')
            yield f'299 - "{quoted}"'
