"""An upgraded connection is passed on to a kubelet, byte by byte: `kubectl exec`.

kubectl speaks WebSocket (v5.channel.k8s.io) since 1.30; the server need not understand it, as the real one,
which looks at the request and then only copies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gpuready_sim.apiserver.failures import Failure, internal_error
from gpuready_sim.apiserver.requests import Request
from gpuready_sim.apiserver.store import encode

_KEPT = ("connection", "upgrade", "user-agent")


@dataclass(frozen=True)
class Destination:
    """Where a tunnel ends; `target` is the path with its query."""

    host: str
    port: int
    target: str


Admit = Callable[[Request], Awaitable[Destination]]


def tunnels(admit: Admit) -> type[asyncio.Protocol]:
    """The protocol that uvicorn gives upgraded connections to.

    admit  says where a request leads; raises Failure
    """

    class Bound(Tunnel):
        def __init__(self, **_: object) -> None:
            super().__init__(admit)

    return Bound


class Tunnel(asyncio.Protocol):
    """The client's side."""

    def __init__(self, admit: Admit) -> None:
        self._admit = admit
        self._received = b""
        self._task: asyncio.Task[None] | None = None
        self._back: _Back | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self._back is not None:
            self._back.transport.write(data)
            return
        self._received += data
        if self._task is None and b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            self._task = asyncio.ensure_future(self._open(request_of(head)))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._back is not None:
            self._back.transport.close()

    def pause_writing(self) -> None:
        if self._back is not None:
            self._back.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._back is not None:
            self._back.transport.resume_reading()

    async def _open(self, request: Request) -> None:
        try:
            to = await self._admit(request)
            event_loop = asyncio.get_running_loop()
            _, back = await event_loop.create_connection(lambda: _Back(self.transport), to.host, to.port)
        except Failure as exc:
            self._refuse(exc)
        except OSError as exc:
            self._refuse(internal_error(f"error dialing backend: {exc}"))
        else:
            back.transport.write(_head(request, to) + self._received)
            self._back = back

    def _refuse(self, failure: Failure) -> None:
        body = encode(failure.status())
        head = f"HTTP/1.1 {failure.code} {failure.reason or 'Error'}\r\nContent-Type: application/json\r\n"
        self.transport.write(
            f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
        )
        self.transport.close()


class _Back(asyncio.Protocol):
    """The kubelet's side."""

    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._client.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.close()

    def pause_writing(self) -> None:
        self._client.pause_reading()

    def resume_writing(self) -> None:
        self._client.resume_reading()


def request_of(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    path, _, query = target.partition("?")
    pairs = (line.partition(":") for line in lines)
    return Request(method, path, query, {name.strip().lower(): value.strip() for name, _, value in pairs})


def _head(request: Request, to: Destination) -> bytes:
    """The same request to the kubelet; who asked is the API server's business."""
    kept = {
        name: value
        for name, value in request.headers.items()
        if name in _KEPT or name.startswith("sec-websocket-")
    }
    lines = [f"{request.method} {to.target} HTTP/1.1", f"host: {to.host}:{to.port}"]
    lines += [f"{name}: {value}" for name, value in kept.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
