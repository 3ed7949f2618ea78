"""What the operator serves: /metrics, /healthz, /readyz. One raw ASGI application on uvicorn.

Nobody signs in at these ports, so whoever reaches them costs a bounded amount: see `Connection`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable, Generator
from email.utils import formatdate
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gpuready.errors import UsageError

Answer = tuple[int, str, bytes]  # status, content type, body
Send = Callable[[dict[str, Any]], Awaitable[None]]
TEXT = "text/plain; charset=utf-8"

MOST_WAITING = 128  # to be taken up; asyncio tries as often in one go, also where it can take up none
MOST_CONNECTIONS = 64  # Prometheus and the kubelet have one or two each
LONGEST_REQUEST_BYTES = 16 * 1024
# For a whole request from its first moment, and for taking the answer; Prometheus gives up after as long.
PATIENCE_S = 10.0


def kept_for(
    duration_s: float, answer: Callable[[], Answer], clock: Callable[[], float] = time.monotonic
) -> Callable[[], Answer]:
    """The same answer to all who ask within that time: a flood of questions works it out once."""
    kept: list[tuple[float, Answer]] = []

    def given() -> Answer:
        now = clock()
        if not kept or now - kept[0][0] >= duration_s:
            kept[:] = [(now, answer())]
        return kept[0][1]

    return given


class Application:
    """Paths to functions that answer at once."""

    def __init__(self, routes: dict[str, Callable[[], Answer]]) -> None:
        self._routes = routes

    async def __call__(self, scope: dict[str, Any], receive: object, send: Send) -> None:
        if scope["type"] != "http":
            return
        route = self._routes.get(scope["path"])
        status, content_type, body = route() if route else (404, TEXT, b"not found\n")
        headers = [
            (b"date", formatdate(usegmt=True).encode()),
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Connection(HttpToolsProtocol):
    """One request at a time, of a bounded size, within a bounded time, on a bounded number of connections.

    uvicorn by itself waits for ever for the rest of a request, and queues what is sent ahead of the answers.
    When there are too many connections the oldest goes, not the newest: a probe that is answered at once gets
    its answer while hundreds hold theirs open.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._received = 0
        self._deadline = self.loop.call_later(PATIENCE_S, transport.abort)
        if len(self.connections) > MOST_CONNECTIONS:
            oldest = min(
                self.connections, key=lambda each: each._since if isinstance(each, Connection) else 0
            )
            self.connections.discard(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Without uvicorn's line in the log for each request that is none."""
        self._received += len(data)
        if self._is_answering or self._received > LONGEST_REQUEST_BYTES:
            self.transport.abort()
            return
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # answered like any other request
        except httptools.HttpParserError:
            if self._is_answering:
                self.transport.abort()
            else:
                self.send_400_response("no HTTP request\n")

    def on_message_begin(self) -> None:
        if self._is_answering:
            raise ValueError("sent ahead of the answer")  # the parser stops, and says that it could not go on
        super().on_message_begin()

    def on_response_complete(self) -> None:
        self._received = 0
        self._deadline.cancel()
        self._deadline = self.loop.call_later(PATIENCE_S, self.transport.abort)
        super().on_response_complete()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


class Server(uvicorn.Server):
    """Leaves the signals to the operator, which has more to stop than this, and sleeps until it is asked."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def main_loop(self) -> None:
        # uvicorn's own wakes ten times a second, to renew the date in its headers and to look at a flag that
        # nobody sets here: `serve` ends by being cancelled.
        await self.on_tick(0)
        await asyncio.Event().wait()


def listen(host: str, port: int) -> socket.socket | None:
    """None for port 0, which serves nothing. Raises UsageError when the port cannot be had."""
    if port == 0:
        return None
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as exc:
        raise UsageError(
            f"cannot listen on {host}:{port}",
            why=exc.strerror or str(exc),
            next_step="end what uses the port, or set GPUREADY_METRICS_PORT and GPUREADY_HEALTH_PORT",
        ) from exc


async def serve(application: Application, listener: socket.socket | None) -> None:
    """Serve until cancelled."""
    if listener is None:
        return
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        backlog=MOST_WAITING,
        date_header=False,  # the application's own is of the moment
        lifespan="off",
        http=Connection,
        ws="none",
    )
    with listener:
        await Server(config).serve(sockets=[listener])
