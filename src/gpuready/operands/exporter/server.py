"""Port 9400: /metrics, /health, and a page for people. Answers from memory; nothing here waits for hardware.

HTTP/1.1 on asyncio's streams, as for the daemons' probes. uvicorn, which the operator uses, would cost 6 MB
of the 40 that an exporter may have, for three paths without routes or bodies.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuready.errors import GPUReadyError
from gpuready.operands.exporter.exposition import CONTENT_TYPES, form_for, takes_gzip
from gpuready.operands.exporter.health import Health
from gpuready.operands.exporter.page import Page

if TYPE_CHECKING:
    import ssl  # see start.py

# For a request's head; between two requests, since a scraper keeps its connection; to take an answer.
HEAD_S, IDLE_S, WRITE_S = 10.0, 300.0, 10.0
MOST_HEAD = 16 * 1024
MOST_CONNECTIONS = 128

_PLAIN = "text/plain; charset=utf-8"
_HOME = (
    "<!DOCTYPE html><html><head><title>GPU exporter</title></head><body><h1>GPU exporter</h1>"
    '<p><a href="./metrics">Metrics</a> <a href="./health">Health</a></p></body></html>\n'
)
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}

Allows = Callable[[str], Awaitable[bool]]  # may the sender of this Authorization header read?


class CannotListen(GPUReadyError):
    """The port is taken, or the address is not this machine's."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    content_type: str = _PLAIN
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """`headers` by their names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def ends_connection(self) -> bool:
        """Bodies are never read: whoever sends one gets his answer and the end."""
        has_body = self.headers.get("content-length", "0") != "0" or "transfer-encoding" in self.headers
        wishes = self.headers.get("connection", "").lower().split(",")
        return has_body or "close" in (wish.strip() for wish in wishes)


@dataclass(frozen=True)
class Site:
    """What is served. `page` and `health` answer at once; `allows` None lets everybody read."""

    page: Callable[[], Page]
    health: Callable[[], Health]
    allows: Allows | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


_NO_HTTP = Answer(400, b"this is no HTTP request\n")
_TOO_MANY = Answer(503, b"too many connections\n")


class Server:
    """listen() as often as there are addresses, close() once. `site` may be exchanged at any time."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._listeners: list[asyncio.Server] = []
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._idle: dict[asyncio.StreamWriter, None] = {}  # those that ask nothing, longest first

    async def listen(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> int:
        """host "" means every address; returns the port, which is another one when 0 was asked for.

        raises  CannotListen
        """
        return await self._add(_bound(host, port), tls)

    async def adopt(self, listener: socket.socket, *, tls: ssl.SSLContext | None = None) -> int:
        """Serve on a socket that somebody else has bound, as systemd does."""
        return await self._add([listener], tls)

    async def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        for task in list(self._open.values()):
            task.cancel()
        await asyncio.gather(*self._open.values(), return_exceptions=True)
        self._listeners.clear()

    async def _add(self, sockets: Sequence[socket.socket], tls: ssl.SSLContext | None) -> int:
        for each in sockets:
            made = await asyncio.start_server(self._converse, sock=each, ssl=tls, limit=MOST_HEAD)
            self._listeners.append(made)
        return int(sockets[0].getsockname()[1]) if sockets[0].family != socket.AF_UNIX else 0

    # --- one connection ---------------------------------------------------------------------------------
    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[writer] = task
        self._make_room()
        _send_at_once(writer)
        if writer.get_extra_info("sslcontext") is None:
            # `drain` then waits until all is taken; below TLS it would wait for ever.
            writer.transport.set_write_buffer_limits(high=0)
        try:
            while await self._exchange(reader, writer):
                await asyncio.sleep(0)  # whoever sends many requests at once takes turns with the others
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # gone, asleep, or we are ending: nobody is there to be told
        finally:
            self._open.pop(writer, None)
            self._idle.pop(writer, None)
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()
            writer.close()

    def _make_room(self) -> None:
        """Who keeps connections and asks nothing must not keep a scraper out."""
        if len(self._open) > MOST_CONNECTIONS and self._idle:
            longest = next(iter(self._idle))
            del self._idle[longest], self._open[longest]  # at once: in a burst it must not count any more
            longest.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; True when another may follow."""
        self._idle[writer] = None
        async with asyncio.timeout(IDLE_S):
            first = await reader.read(1)
        self._idle.pop(writer, None)
        if not first:
            return False
        async with asyncio.timeout(HEAD_S):
            try:
                head = first + await reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError:
                head = b""
        request = parse_request(head)
        is_full = len(self._open) > MOST_CONNECTIONS
        answer = _TOO_MANY if is_full else await self._answer(request) if request else _NO_HTTP
        is_last = is_full or request is None or request.ends_connection
        with_body = request is None or request.method != "HEAD"
        await _send(writer, answer, self.site.headers, with_body=with_body, is_last=is_last)
        return not is_last

    async def _answer(self, request: Request) -> Answer:
        if request.method not in ("GET", "HEAD"):
            return Answer(405, b"only GET is known here\n", headers={"Allow": "GET, HEAD"})
        allowed = self.site.allows is None or await self.site.allows(request.headers.get("authorization", ""))
        if request.path == "/health":
            return _health(self.site.health(), in_full=allowed)
        if not allowed:
            wanted = {"WWW-Authenticate": 'Basic realm="gpuready exporter"'}
            return Answer(401, b"a name and a password are needed\n", headers=wanted)
        if request.path == "/metrics":
            return _metrics(self.site.page(), request.headers)
        if request.path == "/":
            return Answer(200, _HOME.encode(), "text/html; charset=utf-8")
        return Answer(404, b"no such path; ask /metrics or /health\n")


def parse_request(head: bytes) -> Request | None:
    """None for anything that is no HTTP/1 request."""
    first, *rows = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1"):
        return None
    headers: dict[str, str] = {}
    for row in rows:
        name, colon, value = row.partition(":")
        if colon:
            name = name.strip().lower()  # a field that is sent twice is one list
            headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
    if words[2] == "HTTP/1.0" and headers.get("connection", "").lower() != "keep-alive":
        headers["connection"] = "close"
    return Request(words[0], words[1].split("?")[0], headers)


def _metrics(page: Page, headers: Mapping[str, str]) -> Answer:
    form = form_for(headers.get("accept", ""))
    zipped = takes_gzip(headers.get("accept-encoding", ""))
    coding = {"Content-Encoding": "gzip"} if zipped else {}
    vary = {"Vary": "Accept, Accept-Encoding"}
    return Answer(200, page.body(form, zipped=zipped), CONTENT_TYPES[form], {**vary, **coding})


def _health(health: Health, *, in_full: bool) -> Answer:
    """200 while there is something to scrape, also without some of the GPUs: one must not hide the others.

    A probe of the kubelet knows no password; it gets the first word and no more.
    """
    text = health.text if in_full else str(health.state).upper()
    return Answer(200 if health.serves else 503, f"{text}\n".encode())


async def _send(
    writer: asyncio.StreamWriter,
    answer: Answer,
    extra: Mapping[str, str],
    *,
    with_body: bool,
    is_last: bool,
) -> None:
    """raises  TimeoutError when the other side does not take it in time"""
    lines = [
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "X-Content-Type-Options: nosniff",
        *(f"{name}: {value}" for name, value in {**answer.headers, **extra}.items()),
        *(["Connection: close"] if is_last else []),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1", "replace"))
    if with_body:
        writer.write(answer.body)
    async with asyncio.timeout(WRITE_S):
        await writer.drain()


def _send_at_once(writer: asyncio.StreamWriter) -> None:
    """asyncio does so itself for sockets made as IPPROTO_TCP, which those of `create_server` are not.

    Without it the body waits 40 ms for the other side's delayed acknowledgement of the head.
    """
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _bound(host: str, port: int) -> list[socket.socket]:
    """Every address is one socket for both families where the kernel has IPv6."""
    try:
        if not host and socket.has_dualstack_ipv6():
            return [socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)]
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return [socket.create_server((host, port), family=family, backlog=128)]
    except OSError as exc:
        raise _cannot_listen(host, port, exc) from exc
    except (ValueError, TypeError, OverflowError) as exc:  # a name that can be none
        raise _cannot_listen(host, port, OSError(errno.EINVAL, str(exc))) from exc


def _cannot_listen(host: str, port: int, exc: OSError) -> CannotListen:
    where = f"{host or 'every address'}, port {port}"
    if exc.errno == errno.EADDRINUSE:
        return CannotListen(
            f"cannot listen on {where}",
            why="another program holds it: another exporter, or anything on the host's network",
            next_step="stop it, or set DCGM_EXPORTER_LISTEN to another port in spec.dcgmExporter.env",
        )
    return CannotListen(
        f"cannot listen on {where}",
        why=exc.strerror or str(exc),
        next_step="correct DCGM_EXPORTER_LISTEN",
    )
