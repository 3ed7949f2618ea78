"""Being reached: the page's server on every address that is ours, and the answers to the kubelet's probes."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping

from gpuready.errors import GPUReadyError
from gpuready.log import get_logger
from gpuready.node.health_http import answer_probes
from gpuready.operands.exporter.health import Health
from gpuready.operands.exporter.page import Page
from gpuready.operands.exporter.server import CannotListen, Server
from gpuready.operands.exporter.settings import Settings
from gpuready.operands.exporter.web import Web

PORT_RETRY_S = 0.5
LOOPBACKS = ("127.0.0.1", "::1")

log = get_logger("exporter")


class Listening:
    """listen() and answer_probes() as tasks, close() once.

    changed  called when it is reached, or no longer cannot be; `problem` then says why it is not
    """

    def __init__(
        self,
        settings: Settings,
        web: Web,
        page: Callable[[], Page],
        health: Callable[[], Health],
        changed: Callable[[], None],
    ) -> None:
        self._settings, self._web, self._page, self._health = settings, web, page, health
        self._changed = changed
        self._server = Server(web.site(page, health))
        self.problem: GPUReadyError | None = None

    async def listen(self) -> None:
        """Until every address is had, also when another program holds the port for the moment."""
        while True:
            try:
                await self._listen_once()
            except CannotListen as exc:
                await self._server.close()
                if self.problem is None:
                    log.error("cannot listen", what=exc.what, why=exc.why, next_step=exc.next_step)
                self.problem = exc
                self._changed()
                await asyncio.sleep(PORT_RETRY_S)
            else:
                self.problem = None
                self._changed()
                return

    async def answer_probes(self) -> None:
        """On a port of its own: the kubelet knows neither certificate nor password."""

        def ready() -> tuple[bool, str]:
            return self._health().serves, self._health().text

        address, port = (self._settings.pod_ips or ("0.0.0.0",))[0], self._settings.health_port
        await answer_probes(address, port, healthy=lambda: (True, "ok"), ready=ready, log=log)

    def renew(self) -> None:
        """Take up the web configuration and its certificates as they are now."""
        self._web.renew()
        self._server.site = self._web.site(self._page, self._health)

    async def close(self) -> None:
        await self._server.close()

    async def _listen_once(self) -> None:
        tls = self._web.tls
        if self._settings.systemd_socket:
            for listener in _sockets_of_systemd(os.environ):
                await self._server.adopt(listener, tls=tls)
            return
        host, port = self._settings.host_and_port
        if host or not self._settings.pod_ips:
            await self._server.listen(host, port, tls=tls)
            return
        for address in self._settings.pod_ips:
            await self._server.listen(address, port, tls=tls)
        for address in LOOPBACKS:  # for `kubectl port-forward`; on the host's network somebody may have it
            try:
                await self._server.listen(address, port, tls=tls)
            except CannotListen:
                continue


def _sockets_of_systemd(env: Mapping[str, str]) -> list[socket.socket]:
    """Source: sd_listen_fds(3): LISTEN_FDS descriptors from 3 on, when LISTEN_PID is ours."""
    count = env.get("LISTEN_FDS", "")
    if env.get("LISTEN_PID") != str(os.getpid()) or not count.isdigit() or count == "0":
        raise CannotListen(
            "cannot listen on systemd's sockets",
            why="systemd handed over none (LISTEN_FDS, LISTEN_PID)",
            next_step="start the exporter by its .socket unit, or leave --web-systemd-socket out",
        )
    return [socket.socket(fileno=3 + number) for number in range(int(count))]
