"""The kubelet's HTTP on the node's address: logs and exec for the API server, and its health."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping

from aiohttp import web

from gpuready_sim.kubelet import exec_stream
from gpuready_sim.runtime.container import Container

# (namespace, pod, container, previous) -> the container, or why there is none
FindContainer = Callable[[str, str, str, bool], Container | str]


class KubeletServer:
    """Plain HTTP, or HTTPS with `tls`; the port is known once it is started."""

    def __init__(
        self, address: str, port: int, find_container: FindContainer, tls: ssl.SSLContext | None = None
    ) -> None:
        self.port = port
        self._address = address
        self._find_container = find_container
        self._tls = tls
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/healthz", _healthz)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        app.router.add_get("/exec/{namespace}/{pod}/{container}", self._exec)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5)
        await self._runner.setup()
        try:
            await self._listen(self.port)
        except OSError:
            await self._listen(0)  # somebody else's node has the port: the Node object says which one it is

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _listen(self, port: int) -> None:
        assert self._runner is not None
        site = web.TCPSite(self._runner, self._address, port, ssl_context=self._tls)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        info, query = request.match_info, request.query
        previous = _is_true(query, "previous")
        container = self._find_container(info["namespace"], info["pod"], info["container"], previous)
        if isinstance(container, str):
            return web.Response(status=400, text=container)
        tail = query.get("tailLines")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        try:
            async for chunk in container.log.follow(
                tail=int(tail) if tail else None,
                timestamps=_is_true(query, "timestamps"),
                follow=_is_true(query, "follow"),
            ):
                await response.write(chunk)
            await response.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the reader went away, or the kubelet stops
        return response

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        info = request.match_info
        container = self._find_container(info["namespace"], info["pod"], info["container"], False)
        if isinstance(container, str) or not container.is_running:
            return web.Response(status=404, text=f'container not found ("{info["container"]}")')
        return await exec_stream.answer(request, container)


async def _healthz(request: web.Request) -> web.Response:
    return web.Response(text="ok")


def _is_true(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("true", "1")
