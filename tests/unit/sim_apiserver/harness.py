"""A client for an API server in this process (no sockets, no TLS), a clock to turn, and objects to send."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gpuready_sim.apiserver.app import ApiServer

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
DEADLINE_S = 30.0


@dataclass
class Answer:
    code: int
    headers: list[tuple[str, str]]
    text: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def message(self) -> str:
        return str(self.json["message"])

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


class Watching:
    """An open watch: lines arrive in a queue."""

    def __init__(self) -> None:
        self.code = 0
        self._lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._rest = b""

    def feed(self, body: bytes) -> None:
        self._rest += body
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self._lines.put_nowait(json.loads(line))

    def end(self) -> None:
        self._lines.put_nowait(None)

    async def next(self) -> dict[str, Any] | None:
        """The next event, None at the end of the stream."""
        async with asyncio.timeout(DEADLINE_S):
            return await self._lines.get()

    async def names(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(e["type"], e["object"]["metadata"]["name"]) for e in events if e is not None]

    def empty(self) -> bool:
        return self._lines.empty()


@dataclass
class Api:
    """A client of the server under test."""

    server: ApiServer
    token: str
    agent: str = "tester/1.0"

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        accept: str = "application/json",
        token: str | None = None,
    ) -> Answer:
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        answer = Answer(0, [], b"")

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.code = message["status"]
                answer.headers = [(k.decode(), v.decode()) for k, v in message["headers"]]
            else:
                answer.text += message.get("body", b"")

        messages = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> Any:
            if not messages or method == "GET":
                await asyncio.Event().wait()
            return messages.pop()

        await self.server(self._scope(method, path, kind, accept, token), receive, send)
        return answer

    @asynccontextmanager
    async def watch(self, path: str, *, accept: str = "application/json") -> AsyncIterator[Watching]:
        watching = Watching()
        begun, leave = asyncio.Event(), asyncio.Event()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                watching.code = message["status"]
                begun.set()
            else:
                watching.feed(message.get("body", b""))

        async def receive() -> Any:
            await leave.wait()
            return {"type": "http.disconnect"}

        async def run() -> None:
            await self.server(self._scope("GET", path, "", accept, None), receive, send)
            watching.end()

        task = asyncio.ensure_future(run())
        async with asyncio.timeout(DEADLINE_S):
            await begun.wait()
        try:
            yield watching
        finally:
            leave.set()
            async with asyncio.timeout(DEADLINE_S):
                await task

    def _scope(self, method: str, path: str, kind: str, accept: str, token: str | None) -> dict[str, Any]:
        path, _, query = path.partition("?")
        headers = {
            "authorization": "" if token == "" else f"Bearer {self.token if token is None else token}",
            "user-agent": self.agent,
            "accept": accept,
            "content-type": kind,
        }
        return {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(k.encode(), v.encode()) for k, v in headers.items() if v],
        }

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.call("GET", path, **more)

    async def create(self, path: str, body: Any, **more: Any) -> Answer:
        return await self.call("POST", path, body, **more)

    async def made(self, path: str, body: Any) -> Any:
        """Create an object that must be accepted; returns it."""
        answer = await self.create(path, body)
        assert answer.code == 201, answer.json
        return answer.json

    async def replace(self, path: str, body: Any, **more: Any) -> Answer:
        return await self.call("PUT", path, body, **more)

    async def patch(self, path: str, body: Any, kind: str = MERGE, **more: Any) -> Answer:
        return await self.call("PATCH", path, body, kind=kind, **more)

    async def delete(self, path: str, body: Any = None, **more: Any) -> Answer:
        return await self.call("DELETE", path, body, **more)

    async def settled(self) -> None:
        """Let the server do what follows from a write."""
        for _ in range(10):
            await asyncio.sleep(0)


class Clock:
    def __init__(self) -> None:
        self.now = datetime.datetime(2026, 7, 1, 12, 0, 0, tzinfo=datetime.UTC)

    def __call__(self) -> datetime.datetime:
        return self.now

    def advance(self, **amount: float) -> None:
        self.now += datetime.timedelta(**amount)


def node(name: str = "n1", **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def pod(name: str = "p1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "gpuready:1"}], **spec},
    }


def config_map(name: str = "c1", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def widget_definition(scope: str = "Cluster") -> dict[str, Any]:
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "default": 3, "minimum": 1},
            "name": {"type": "string"},
        },
    }
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.dev"},
        "spec": {
            "group": "example.dev",
            "scope": scope,
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]},
            "versions": [version],
        },
    }


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.dev/v1/widgets"
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
