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
FIRST_RETRY_S, LONGEST_RETRY_S = 1.0, 30.0  # for a plugin that cannot be served


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
class _Blocked:
    """One plugin that could not be served.

    place  what lay there after the try: another one is worth another try at once
    """

    problem: str
    place: tuple[object, ...]
    retry_at: float
    pause_s: float


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
    _blocked: dict[str, _Blocked] = field(default_factory=dict)
    _turn: asyncio.Event = field(default_factory=asyncio.Event)
    _busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    def set(self, offers: Mapping[str, Offer]) -> None:
        """What to offer from now on, by resource name. Lists reach the kubelet at once."""
        before, self._offers = self._offers, dict(offers)
        for resource, offer in offers.items():
            if resource in self._served:
                self._served[resource].server.offer(offer)
        if self._offers.keys() != before.keys():
            self._turn.set()

    def status(self, resource: str) -> Status:
        served = self._served.get(resource)
        if served is None:
            blocked = self._blocked.get(resource)
            return Status(problem=blocked.problem if blocked else "")
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
        return any(identity_of(self._socket_of(resource)) is not None for resource in self._offers)

    async def _follow(self, changes: Changes) -> None:
        while True:
            await changes.wait()
            self._turn.set()

    async def _wait_for_a_reason(self) -> None:
        waits = [max(0.0, blocked.retry_at - _now()) for blocked in self._blocked.values()]
        if not self._is_settled():
            waits.append(WATCHDOG_S / 4)
        try:
            async with asyncio.timeout(min(waits, default=None)):
                await self._turn.wait()
        except TimeoutError:
            pass

    def _is_settled(self) -> bool:
        """Of what is served only an event can change anything: each has a stream, or there is no kubelet."""
        if identity_of(self.kubelet_socket) is None:
            return True
        return all(served.server.streams for served in self._served.values())

    async def _make_so(self) -> None:
        for resource in [name for name in self._served if name not in self._offers]:
            await self._stop(resource, "no longer offered")
        for resource in self._blocked.keys() - self._offers.keys():
            del self._blocked[resource]
        for resource, offer in self._offers.items():
            why = self._reason_to_start(resource)
            if why:
                await self._stop(resource, why)
                await self._start(resource, offer)

    def _reason_to_start(self, resource: str) -> str:
        """Why this plugin must be (re)started and registered; "" when it need not."""
        served = self._served.get(resource)
        if served is None:
            return "" if self._is_hopeless(resource) else "offered"
        kubelet = identity_of(self.kubelet_socket)
        if kubelet is None:
            return ""
        if served.kubelet != kubelet:
            return "the kubelet started"
        if not served.server.has_its_socket():
            return "its socket was removed"
        silent_s = _now() - served.silent_since
        is_lost = not served.server.streams and silent_s >= WATCHDOG_S
        return "the kubelet does not follow the list" if is_lost else ""

    def _is_hopeless(self, resource: str) -> bool:
        """It could not be served a moment ago, and its place looks the same."""
        blocked = self._blocked.get(resource)
        return (
            blocked is not None
            and _now() < blocked.retry_at
            and blocked.place == _place_of(self._socket_of(resource))
        )

    async def _stop(self, resource: str, why: str) -> None:
        served = self._served.pop(resource, None)
        if served is not None:
            self.log.info("plugin stopped", resource=resource, reason=why)
            await served.server.close()

    async def _start(self, resource: str, offer: Offer) -> None:
        path = self._socket_of(resource)
        served = _Served(PluginServer(path, offer, partial(self._stream_changed, resource)))
        kubelet = identity_of(self.kubelet_socket)
        try:
            await served.server.start()
        except OSError as exc:
            self._block(resource, _reason_of(exc, path))
            return
        self._blocked.pop(resource, None)
        self._served[resource] = served
        served.server.offer(self._offers.get(resource, offer))
        if kubelet is None:
            served.problem = "the kubelet has no socket yet"
            self.log.info("waiting for the kubelet", resource=resource, path=names.PLUGIN_DIR)
            return
        served.kubelet = kubelet
        await self._register_while_it_holds(resource, offer, served)

    def _block(self, resource: str, problem: str) -> None:
        """Said once per reason."""
        before = self._blocked.get(resource)
        if before is None or before.problem != problem:
            self.log.warning("plugin not served", resource=resource, reason=problem)
        pause_s = min(2 * before.pause_s, LONGEST_RETRY_S) if before else FIRST_RETRY_S
        place = _place_of(self._socket_of(resource))
        self._blocked[resource] = _Blocked(problem, place, _now() + pause_s, pause_s)

    def _stream_changed(self, resource: str) -> None:
        """A kubelet began or ended to follow the list."""
        if resource in self._served:
            self._served[resource].silent_since = _now()
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
        served.silent_since = _now()
        try:
            await register(self.kubelet_socket, served.server.path.name, resource, offer)
        except (RegistrationError, OSError) as exc:
            served.problem = str(exc)
            self.log.warning("registration failed", resource=resource, reason=served.problem)
            return
        served.problem = ""
        self.log.info("plugin registered", resource=resource, devices=len(offer.devices))

    def _paths(self) -> list[Path]:
        return [self.kubelet_socket, *map(self._socket_of, self._offers)]

    def _socket_of(self, resource: str) -> Path:
        return self.kubelet_socket.with_name(socket_name_of(resource))


def socket_name_of(resource: str) -> str:
    """ "nvidia.com/gpu" -> "nvidia-gpu.sock".

    Source: k8s-device-plugin v0.19.3, internal/plugin/server.go (getPluginSocketPath).
    """
    return f"nvidia-{resource.rpartition('/')[2]}.sock"


def _reason_of(exc: OSError, path: Path) -> str:
    if isinstance(exc, IsADirectoryError):
        return f"{path} is a directory; next: remove it"
    return f"cannot serve {path}: {exc.strerror}"


def _place_of(socket: Path) -> tuple[object, ...]:
    """What decides whether a socket can be made there; not the directory's times: our try changes them."""
    try:
        status = socket.parent.stat()
        directory = status.st_dev, status.st_ino, status.st_mode, status.st_uid
    except OSError:
        return None, None
    return directory, identity_of(socket)


def _now() -> float:
    return asyncio.get_running_loop().time()
