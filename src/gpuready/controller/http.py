"""What the operator serves: /metrics, /healthz, /readyz. One raw ASGI application on uvicorn."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import uvicorn

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
        headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Server(uvicorn.Server):
    """Leaves the signals to the operator, which has more to stop than this."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def serve(application: Application, host: str, port: int) -> None:
    """Serve until cancelled; port 0 serves nothing."""
    if port == 0:
        return
    config = uvicorn.Config(
        application, host=host, port=port, log_config=None, access_log=False, lifespan="off", http="httptools"
    )
    await Server(config).serve()
