"""An API server that answers as a test tells it to: one handler per request, in order, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from gpuready.kube.access import Access, FixedToken, TokenFile
from gpuready.kube.client import KubeClient

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScriptedServer:
    """`answers` are used up one by one; the last one is repeated."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def start(self, tls: ssl.SSLContext | None = None) -> ScriptedServer:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True, ssl_context=tls)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def client(self, token: TokenFile | FixedToken | None = None) -> KubeClient:
        return KubeClient(Access(server=f"http://127.0.0.1:{self.port}", token=token), user_agent="test")

    def paths(self) -> list[str]:
        return [request.path_qs for request in self.requests]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)


def gives(body: Any, status: int = 200, **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(body, status=status, headers=sent)

    return answer


def refuses(status: int, reason: str = "", **headers: str) -> Answer:
    body = {
        "kind": "Status",
        "status": "Failure",
        "code": status,
        "reason": reason,
        "message": f"no: {reason}",
    }
    return gives(body, status, **headers)


def lists(*objects: dict[str, Any], version: str = "100", more: str = "") -> Answer:
    meta = {"resourceVersion": version} | ({"continue": more} if more else {})
    return gives({"kind": "NodeList", "apiVersion": "v1", "metadata": meta, "items": list(objects)})


def streams(*steps: dict[str, Any] | bytes | asyncio.Event, then: str = "end") -> Answer:
    """Events, raw bytes, or an asyncio.Event to wait for; then "end" cleanly, "cut" the line, or "stay"."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for step in steps:
            if isinstance(step, asyncio.Event):
                await step.wait()
            else:
                await response.write(step if isinstance(step, bytes) else json.dumps(step).encode() + b"\n")
        if then == "cut":
            assert request.transport is not None
            request.transport.abort()
        elif then == "stay":
            await asyncio.Event().wait()
        return response

    return answer


def node(name: str, version: str, **labels: str) -> dict[str, Any]:
    meta = {"name": name, "resourceVersion": version, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta}


def event(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def error_event(code: int, reason: str) -> dict[str, Any]:
    status = {"kind": "Status", "code": code, "reason": reason, "message": reason}
    return {"type": "ERROR", "object": status}


def bookmark(version: str) -> dict[str, Any]:
    return {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": version}}}


def answers_html(status: int = 200) -> Answer:
    """A proxy's page."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text="<html>sign in</html>", content_type="text/html")

    return answer
