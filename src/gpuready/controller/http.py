"""What the operator serves: /metrics, /healthz, /readyz. One raw ASGI application on uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Generator
from email.utils import formatdate
from typing import Any

import uvicorn

from gpuready.errors import UsageError

Answer = tuple[int, str, bytes]  # status, content type, body
Send = Callable[[dict[str, Any]], Awaitable[None]]
TEXT = "text/plain; charset=utf-8"


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
        date_header=False,  # the application's own is of the moment
        lifespan="off",
        http="httptools",
        ws="none",
    )
    with listener:
        await Server(config).serve(sockets=[listener])
