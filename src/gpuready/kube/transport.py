"""The way to the API server: HTTP, who we are, what is tried again, what is taken back.

A call that the server turned away with 429 or 503 waits as `Retry-After` says and is tried again, a few
times. Credentials and the CA are read anew when the server does not accept them, or we not the server.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any

from gpuready import names
from gpuready.errors import ApiError
from gpuready.kube.access import Access, NoAccess
from gpuready.kube.answers import body_of, raise_for_status
from gpuready.kube.certificate import why_untrusted
from gpuready.kube.errors import Away, Cut, Unauthorized, Unreachable
from gpuready.kube.fence import Fence, Fenced
from gpuready.kube.lean_http import aiohttp
from gpuready.kube.patience import Patience
from gpuready.kube.requests import UNREACHABLE, Observer, name_of

REQUEST_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
JSON = "application/json"
_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})


class Transport:
    """`fence`: asked before each write is sent; without one all are."""

    def __init__(self, where: Access, user_agent: str, fence: Fence | None) -> None:
        self.access = where
        self.observer: Observer = lambda verb, resource, code: None
        self._fence = fence
        self._agent = user_agent if "/" in user_agent else f"{user_agent}/{names.VERSION}"
        self._session: aiohttp.ClientSession | None = None
        self._retired: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        for session in (self._session, self._retired):
            if session is not None:
                await session.close()
        self._session = self._retired = None

    def sever(self) -> None:
        """Take back the writes under way, as far as that can be done; reads and watches go on."""
        for session in (self._session, self._retired):
            if session is not None and isinstance(session.connector, _Connector):
                session.connector.reset_writes()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        idempotent: bool | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> bytes:
        """One call with the retries that are safe; the body of the answer, or the error as an exception."""
        patience = Patience(safe=method in _IDEMPOTENT if idempotent is None else idempotent)
        while True:
            try:
                return await self._once(method, path, params, body, content_type, accept, timeout_s)
            except Unauthorized as exc:
                if patience.used("sign in") or not await self._renewed():
                    raise self._explained(exc) from exc
            except _Untrusted:
                if patience.used("trust") or not await self._renewed():
                    raise
            except ApiError as exc:
                wait = patience.find_wait(exc)
                if wait is None:
                    raise
                await asyncio.sleep(wait)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        call: str,
        *,
        params: Mapping[str, str] | None = None,
        accept: str = JSON,
        idle_s: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The accepted answer to a GET that may go on for ever; `idle_s` between two pieces of it."""
        # sock_read ends the wait for the answer's head; from then on it is the reader who counts.
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S, sock_read=idle_s)
        answer = self._answer("GET", path, params=params, timeout=timeout, headers={"Accept": accept})
        async with self._signed_in(), answer as response:
            await raise_for_status(response, call)
            yield response

    @asynccontextmanager
    async def _signed_in(self) -> AsyncIterator[None]:
        """For a call that its caller repeats: the next time it goes with what is on disk by then."""
        try:
            yield
        except Unauthorized as exc:
            await self._renewed()
            raise self._explained(exc) from exc
        except _Untrusted:
            await self._renewed()
            raise

    async def _renewed(self) -> bool:
        """Read credentials and CA anew; whether another try may end otherwise."""
        try:
            fresh = self.access.renewed()
        except NoAccess:
            return False
        if fresh is None:
            return self.access.token is not None and self.access.token.may_have_changed()
        self.access = fresh
        # What still runs over the old connections may end there; nothing of ours runs for two renewals.
        if self._retired is not None:
            await self._retired.close()
        self._session, self._retired = None, self._session
        return True

    def _explained(self, exc: Unauthorized) -> Unauthorized:
        """Say that it is out of date, where that can be seen from here."""
        trouble = self.access.find_trouble(datetime.now(UTC))
        if trouble is not None:
            exc.why, exc.next_step = trouble.what, trouble.next_step
        return exc

    async def _once(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        accept: str,
        timeout_s: float,
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        headers = {"Accept": accept} | ({"Content-Type": content_type} if body is not None else {})
        with nullcontext() if self._fence is None or method == "GET" else self._fence.passing():
            async with self._answer(
                method, path, params=params, body=body, headers=headers, timeout=timeout
            ) as response:
                await raise_for_status(response, f"{method} {path}")
                return await body_of(response, f"{method} {path}")

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response while it is being read; whatever breaks on the way is Unreachable."""
        token = self._token()
        sent = dict(headers or {}) | ({"Authorization": f"Bearer {token}"} if token else {})
        answered = False
        try:
            async with self._open_session().request(
                method,
                self.access.server + path,
                params=params,
                data=body,
                headers=sent,
                timeout=timeout,
                server_hostname=self.access.tls_server_name,
                allow_redirects=False,  # a PATCH that is sent elsewhere would arrive there as a GET
            ) as response:
                answered = True
                self.observer(*name_of(method, path, params), str(response.status))
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            if not answered:
                self.observer(*name_of(method, path, params), UNREACHABLE)
            raise await self._unreachable(exc, f"{method} {path}") from exc

    def _token(self) -> str:
        try:
            return self.access.token.token() if self.access.token else ""
        except NoAccess as exc:
            raise Away(exc.what, why=exc.why, next_step=exc.next_step) from exc

    async def _unreachable(self, exc: BaseException, call: str) -> Unreachable:
        if isinstance(exc, aiohttp.ClientConnectorCertificateError):
            name = self.access.tls_server_name or exc.host
            why, step = await why_untrusted(exc.certificate_error, exc.host, exc.port or 443, name)
            kind: type[Unreachable] = _Untrusted
        else:
            kind, why, step = _why(exc)
        source = self.access.source
        step = f"{step} (see {source})" if step and source else step
        return kind(f"the API server {self.access.server} did not answer {call}", why=why, next_step=step)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            tls = self.access.tls if self.access.tls is not None else False
            self._session = aiohttp.ClientSession(
                connector=_Connector(self._fence, ssl=tls, limit=0, ttl_dns_cache=30),
                headers={"User-Agent": self._agent, "Accept": JSON, "Accept-Encoding": "identity"},
                auto_decompress=True,
                trust_env=False,
            )
        return self._session


class _Connector(aiohttp.TCPConnector):
    """Knows which connections carry writes, and asks the fence once more when such a one is there.

    Making a connection can take seconds. And its end can come late: closed politely, the kernel goes on
    sending for a quarter of an hour, so that a write from before a partition arrives after it. Behind a fence
    sockets are made so that `abort` takes back what is left.
    """

    def __init__(self, fence: Fence | None, **options: Any) -> None:
        super().__init__(**options, socket_factory=_resetting_socket if fence else None)
        self._fence = fence
        self._writing: set[asyncio.Transport] = set()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[aiohttp.tracing.Trace], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        connection = await super().connect(req, traces, timeout)
        if self._fence is not None and req.method != "GET":
            if not self._fence.is_open:
                connection.release()
                raise Fenced
            self._note(connection)
        return connection

    def _note(self, connection: aiohttp.connector.Connection) -> None:
        transport = connection.transport
        if transport is not None:
            self._writing.add(transport)
            connection.add_callback(lambda: self._writing.discard(transport))

    def reset_writes(self) -> None:
        for transport in tuple(self._writing):
            transport.abort()


def _resetting_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return made


class _Untrusted(Away):
    """We do not accept the server's certificate."""


_RIGHT_ADDRESS = "check that the API server runs and that its address is right"
_REASONS = {
    errno.ECONNREFUSED: "nothing listens there (connection refused)",
    errno.EHOSTUNREACH: "no route leads to that host",
    errno.ENETUNREACH: "no route leads to that network",
    errno.ETIMEDOUT: "the host does not answer",
}


def _why(exc: BaseException) -> tuple[type[Unreachable], str, str]:
    """Why no answer came, and what to do about it, instead of what the HTTP library calls it."""
    match exc:
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | ConnectionResetError():
            return Cut, "the server closed the connection", f"try again; if it stays so, {_RIGHT_ADDRESS}"
        case aiohttp.ClientConnectorSSLError():
            return Away, "what listens there does not speak TLS as we do", _RIGHT_ADDRESS
        case aiohttp.ClientConnectorDNSError():
            return Away, f"the name {exc.host} leads to no address", _RIGHT_ADDRESS
        case aiohttp.ClientConnectorError():
            known = _REASONS.get(exc.os_error.errno or 0)
            return Away, known or exc.os_error.strerror or "no connection", _RIGHT_ADDRESS
        case aiohttp.ConnectionTimeoutError():
            return Away, "the host does not answer", _RIGHT_ADDRESS
        case TimeoutError():
            return Unreachable, "no answer in time", _RIGHT_ADDRESS
        case aiohttp.ClientResponseError():
            return Unreachable, f"what listens there does not speak HTTP: {exc.message}", _RIGHT_ADDRESS
    return Unreachable, str(exc) or type(exc).__name__, _RIGHT_ADDRESS
