"""Keeps a set of device plugins served and registered, whatever the kubelet or a person's `rm` does.

Level-triggered: each turn compares what is offered with what is served and with the sockets on disk.
Turns are caused by a new offer, by changes in the kubelet's plugin directory, and, while something is not
as it should be, by a short timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gpuready import names
from gpuready.log import Logger, get_logger
from gpuready.node.inotify import Changes
from gpuready.node.kubelet.model import Offer
from gpuready.node.kubelet.plugin_server import PluginServer
from gpuready.node.kubelet.registration import RegistrationError, register
from gpuready.node.kubelet.sockets import identity_of

WATCHDOG_S = 2.0
# No stream for this long: the kubelet lost us without saying so (a failed dial shows only in its log; an old
# stream's end may have thrown out the new registration). A kubelet that restarts is back under a new socket.


@dataclass
class _Served:
    """One running plugin.

    kubelet       the kubelet's socket file at its registration, None before
    silent_since  loop time from which no kubelet followed the list
    """

    server: PluginServer
    kubelet: tuple[int, int, int] | None = None
    silent_since: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class Status:
    """registered  the kubelet follows our list; problem  why not, in the words of the last try."""

    registered: bool = False
    problem: str = ""


@dataclass
class Plugins:
    """`set` what is offered, `run` until cancelled, `close` politely.

    kubelet_socket  the plugins' sockets lie beside it
    on_change       called when a status may have changed
    """

    kubelet_socket: Path
    on_change: Callable[[], None] = lambda: None
    log: Logger = field(default_factory=lambda: get_logger("device-plugin"))
    _offers: dict[str, Offer] = field(default_factory=dict)
    _served: dict[str, _Served] = field(default_factory=dict)
    _turn: asyncio.Event = field(default_factory=asyncio.Event)
    _busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    def set(self, offers: Mapping[str, Offer]) -> None:
        """What to offer from now on, by resource name. Lists reach the kubelet at once."""
        self._offers = dict(offers)
        for resource, offer in offers.items():
            if resource in self._served:
                self._served[resource].server.offer(offer)
        if self._offers.keys() != self._served.keys():
            self._turn.set()

    def status(self, resource: str) -> Status:
        served = self._served.get(resource)
        if served is None:
            return Status()
        return Status(registered=served.server.streams > 0, problem=served.problem)

    async def run(self) -> None:
        changes = Changes([self.kubelet_socket])
        watcher = asyncio.create_task(self._follow(changes))
        try:
            while True:
                self._turn.clear()
                changes.set_paths(self._paths())
                async with self._busy:
                    await self._make_so()
                self.on_change()
                await self._wait_for_a_reason()
        finally:
            watcher.cancel()
            changes.close()

    async def close(self) -> None:
        """Every plugin ends its streams and its socket's file is gone."""
        async with self._busy:
            await asyncio.gather(*(served.server.close() for served in self._served.values()))
            self._served.clear()

    def has_successor(self) -> bool:
        """After `close`: another program serves one of these resources already."""
        sockets = (self.kubelet_socket.with_name(socket_name_of(resource)) for resource in self._offers)
        return any(identity_of(path) is not None for path in sockets)

    async def _follow(self, changes: Changes) -> None:
        while True:
            await changes.wait()
            self._turn.set()

    async def _wait_for_a_reason(self) -> None:
        try:
            async with asyncio.timeout(None if self._is_settled() else WATCHDOG_S / 4):
                await self._turn.wait()
        except TimeoutError:
            pass

    def _is_settled(self) -> bool:
        """Nothing but an event can change anything: each plugin has a stream, or there is no kubelet."""
        if identity_of(self.kubelet_socket) is None:
            return True
        return all(served.server.streams for served in self._served.values())

    async def _make_so(self) -> None:
        for resource in [name for name in self._served if name not in self._offers]:
            await self._stop(resource, "no longer offered")
        for resource, offer in self._offers.items():
            why = self._reason_to_start(resource)
            if why:
                await self._stop(resource, why)
                await self._start(resource, offer)

    def _reason_to_start(self, resource: str) -> str:
        """Why this plugin must be (re)started and registered; "" when it need not."""
        served = self._served.get(resource)
        if served is None:
            return "offered"
        kubelet = identity_of(self.kubelet_socket)
        if kubelet is None:
            return ""
        if served.kubelet != kubelet:
            return "the kubelet started"
        if not served.server.has_its_socket():
            return "its socket was removed"
        silent_s = asyncio.get_running_loop().time() - served.silent_since
        is_lost = not served.server.streams and silent_s >= WATCHDOG_S
        return "the kubelet does not follow the list" if is_lost else ""

    async def _stop(self, resource: str, why: str) -> None:
        served = self._served.pop(resource, None)
        if served is not None:
            self.log.info("plugin stopped", resource=resource, reason=why)
            await served.server.close()

    async def _start(self, resource: str, offer: Offer) -> None:
        path = self.kubelet_socket.with_name(socket_name_of(resource))
        served = _Served(PluginServer(path, offer, partial(self._stream_changed, resource)))
        kubelet = identity_of(self.kubelet_socket)
        try:
            await served.server.start()
        except OSError as exc:
            served.problem = f"cannot serve {path.name}: {exc.strerror}"
            self.log.warning("plugin not served", resource=resource, reason=served.problem)
            return
        self._served[resource] = served
        served.server.offer(self._offers.get(resource, offer))
        if kubelet is None:
            served.problem = "the kubelet has no socket yet"
            self.log.info("waiting for the kubelet", resource=resource, path=names.PLUGIN_DIR)
            return
        served.kubelet = kubelet
        await self._register_while_it_holds(resource, offer, served)

    def _stream_changed(self, resource: str) -> None:
        """A kubelet began or ended to follow the list."""
        if resource in self._served:
            self._served[resource].silent_since = asyncio.get_running_loop().time()
        self._turn.set()

    async def _register_while_it_holds(self, resource: str, offer: Offer, served: _Served) -> None:
        """Give up as soon as a socket is no longer the one we began with: the next turn starts afresh.

        A kubelet that starts sweeps our socket away; one that is asked to follow a socket that is gone
        does not answer for ten seconds.
        """
        attempt = asyncio.create_task(self._register(resource, offer, served))
        turn = asyncio.create_task(self._turn.wait())
        try:
            while not attempt.done():
                await asyncio.wait({attempt, turn}, return_when=asyncio.FIRST_COMPLETED)
                if turn.done():
                    if self._is_outdated(served):
                        return
                    self._turn.clear()
                    turn = asyncio.create_task(self._turn.wait())
            attempt.result()
        finally:
            for task in (attempt, turn):
                task.cancel()
            self._turn.set()

    def _is_outdated(self, served: _Served) -> bool:
        return identity_of(self.kubelet_socket) != served.kubelet or not served.server.has_its_socket()

    async def _register(self, resource: str, offer: Offer, served: _Served) -> None:
        served.silent_since = asyncio.get_running_loop().time()
        try:
            await register(self.kubelet_socket, served.server.path.name, resource, offer)
        except (RegistrationError, OSError) as exc:
            served.problem = str(exc)
            self.log.warning("registration failed", resource=resource, reason=served.problem)
            return
        served.problem = ""
        self.log.info("plugin registered", resource=resource, devices=len(offer.devices))

    def _paths(self) -> list[Path]:
        sockets = [self.kubelet_socket.with_name(socket_name_of(resource)) for resource in self._offers]
        return [self.kubelet_socket, *sockets]


def socket_name_of(resource: str) -> str:
    """ "nvidia.com/gpu" -> "nvidia-gpu.sock".

    Source: k8s-device-plugin v0.19.3, internal/plugin/server.go (getPluginSocketPath).
    """
    return f"nvidia-{resource.rpartition('/')[2]}.sock"
