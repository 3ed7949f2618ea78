"""A small API server for Nodes, GPUNodes and Events: list, watch, merge and strategic patches, faults."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from aiohttp import web

from gpuready.kube.access import Access
from gpuready.kube.client import KubeClient

PATHS = {"/api/v1/nodes": "nodes", "/apis/gpuready.dev/v1alpha1/gpunodes": "gpunodes"}
Object = dict[str, Any]


class FakeApi:
    """`writes` lists what clients wrote, as (path, body); `until` waits for a state with a deadline."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.events: list[Object] = []
        self.writes: list[tuple[str, Any]] = []
        self._version = 100
        self._log: list[tuple[int, str, str, Object]] = []
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self._port = 0
        self._streams: set[asyncio.Task[Any]] = set()
        self._oldest = 0
        self.refused: dict[str, tuple[int, str]] = {}  # "PATCH /api/v1/nodes/n1" -> status and reason
        self.conflicts = 0  # so many of the next conditional writes come too late

    async def start(self) -> None:
        app = web.Application(middlewares=[self._refuse])
        for path in PATHS:
            app.router.add_get(path, self._list_or_watch)
            app.router.add_patch(path + "/{name}", self._patch)
            app.router.add_patch(path + "/{name}/status", self._patch)
        app.router.add_post("/api/v1/namespaces/{namespace}/events", self._event)
        app.router.add_patch("/api/v1/namespaces/{namespace}/events/{name}", self._event_again)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def go_away(self) -> None:
        for stream in list(self._streams):
            stream.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def client(self) -> KubeClient:
        return KubeClient(Access(server=f"http://127.0.0.1:{self._port}"), user_agent="gpuready-node-agent")

    async def put(self, plural: str, obj: Object) -> None:
        """Create or replace, as somebody else would."""
        await self._store(plural, copy.deepcopy(obj))

    async def change(self, plural: str, name: str, patch: Mapping[str, Any]) -> None:
        await self._store(plural, merged(self.objects[plural, name], patch))

    async def delete(self, plural: str, name: str) -> None:
        gone = self.objects.pop((plural, name))
        await self._publish("DELETED", plural, gone)

    async def forget_history(self) -> None:
        """Every running watch ends with 410, every older version is gone."""
        self._oldest = self._version
        async with self._changed:
            self._changed.notify_all()

    def get(self, plural: str, name: str) -> Object:
        return self.objects[plural, name]

    async def until(self, what: Callable[[], Any], deadline_s: float = 10.0) -> Any:
        """The first truthy value of `what`; fails with the state when the time is over."""
        try:
            async with asyncio.timeout(deadline_s), self._changed:
                while True:
                    try:
                        found = what()
                    except (KeyError, IndexError):
                        found = None
                    if found:
                        return found
                    with suppress(TimeoutError):  # what the log says changes without the server
                        await asyncio.wait_for(self._changed.wait(), 0.1)
        except TimeoutError:
            state = json.dumps([self.events, list(self.objects.values())], indent=1)
            raise AssertionError(f"not within {deadline_s} s; the server has: {state}") from None

    async def until_quiet(self, for_s: float) -> None:
        """Nobody has written for so long."""
        seen = -1
        while seen != len(self.writes):
            seen = len(self.writes)
            await asyncio.sleep(for_s)

    # --- handlers ----------------------------------------------------------------------------------------

    @web.middleware
    async def _refuse(
        self, request: web.Request, handler: Callable[[web.Request], Any]
    ) -> web.StreamResponse:
        refused = self.refused.get(f"{request.method} {request.path}")
        response: web.StreamResponse = _refused(*refused) if refused else await handler(request)
        return response

    async def _list_or_watch(self, request: web.Request) -> web.StreamResponse:
        plural = PATHS[request.path]
        selector = request.query.get("fieldSelector", "")
        name = selector.removeprefix("metadata.name=")
        if request.query.get("watch"):
            return await self._watch(request, plural, name)
        items = [obj for (kind, key), obj in self.objects.items() if kind == plural and name in ("", key)]
        return web.json_response(
            {"kind": "List", "metadata": {"resourceVersion": str(self._version)}, "items": items}
        )

    async def _watch(self, request: web.Request, plural: str, name: str) -> web.StreamResponse:
        seen = int(request.query.get("resourceVersion") or self._version)
        response = web.StreamResponse()
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            while True:
                if seen < self._oldest:
                    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                    await _line(response, "ERROR", gone)
                    return response
                for version, kind, of, obj in [row for row in self._log if row[0] > seen]:
                    seen = version
                    if of == plural and name in ("", obj["metadata"]["name"]):
                        await _line(response, kind, obj)
                async with self._changed:
                    if self._version <= seen or not [row for row in self._log if row[0] > seen]:
                        await self._changed.wait()
        finally:
            self._streams.discard(task)

    async def _patch(self, request: web.Request) -> web.Response:
        parts = request.path.split("/")
        status = parts[-1] == "status"
        plural = PATHS["/".join(parts[: -2 if status else -1])]
        name = request.match_info["name"]
        body = await request.json()
        before = self.objects.get((plural, name))
        if before is None:
            return _refused(404, "NotFound")
        asked = body.get("metadata", {}).get("resourceVersion")
        if asked and (self.conflicts or asked != before["metadata"]["resourceVersion"]):
            self.conflicts = max(0, self.conflicts - 1)
            return _refused(409, "Conflict")
        if "strategic" in request.content_type:
            body = _conditions_merged(before, body)
        self.writes.append((request.path, body))
        after = merged(before, body)
        await self._store(plural, after)
        return web.json_response(self.objects[plural, name])

    async def _event(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.events.append(body)
        self.writes.append((request.path, body))
        async with self._changed:
            self._changed.notify_all()
        return web.json_response(body, status=201)

    async def _event_again(self, request: web.Request) -> web.Response:
        self.writes.append((request.path, await request.json()))
        return web.json_response({})

    async def _store(self, plural: str, obj: Object) -> None:
        name = obj["metadata"]["name"]
        before = self.objects.get((plural, name))
        if before == obj:
            return
        self.objects[plural, name] = obj
        await self._publish("MODIFIED" if before else "ADDED", plural, obj)

    async def _publish(self, kind: str, plural: str, obj: Object) -> None:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        self._log.append((self._version, kind, plural, copy.deepcopy(obj)))
        async with self._changed:
            self._changed.notify_all()


def merged(base: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(base) if isinstance(base, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return copy.deepcopy(result)


def _conditions_merged(before: Object, patch: Object) -> Object:
    conditions = {row["type"]: row for row in before.get("status", {}).get("conditions", [])}
    for row in patch["status"]["conditions"]:
        conditions[row["type"]] = {**conditions.get(row["type"], {}), **row}
    return {"status": {"conditions": list(conditions.values())}}


async def _line(response: web.StreamResponse, kind: str, obj: Object) -> None:
    await response.write(json.dumps({"type": kind, "object": obj}).encode() + b"\n")


def _refused(code: int, reason: str) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": reason}
    return web.json_response(body, status=code)
