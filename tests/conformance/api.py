"""One request to an API server, and its answer as it came."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from gpuready_sim.client import Access

TYPES = {
    "json": "application/json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "jsonpatch": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True)
class Answer:
    """Body decoded when it is JSON, text otherwise.

    headers   of those that come several times one
    warnings  every Warning header
    """

    status: int
    body: Any
    headers: Mapping[str, str]
    warnings: Sequence[str] = ()


class Api:
    """`server` is "embedded" or "kubernetes"."""

    def __init__(self, server: str, access: Access, session: aiohttp.ClientSession) -> None:
        self.server = server
        self._access = access
        self._session = session

    @classmethod
    @asynccontextmanager
    async def connected(cls, server: str, kubeconfig: Path) -> AsyncIterator[Api]:
        access = Access.from_kubeconfig(kubeconfig)
        tls: ssl.SSLContext | bool = access.ssl_context()
        headers = {"Authorization": f"Bearer {access.token}", "User-Agent": "conformance/1"}
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
            yield cls(server, access, session)

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        type: str = "json",
        accept: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Answer:
        data = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept} | ({"Content-Type": TYPES.get(type, type)} if data is not None else {})
        async with self._session.request(method, self._url(path, params), data=data, headers=headers) as got:
            text = await got.text()
            warnings = tuple(got.headers.getall("Warning", ()))
            return Answer(got.status, _decoded(text), dict(got.headers), warnings)

    @asynccontextmanager
    async def watch(self, path: str, **params: str) -> AsyncIterator[Watch]:
        timeout = aiohttp.ClientTimeout(total=30)
        url = self._url(path, {"watch": "true", **params})
        async with self._session.get(url, timeout=timeout) as got:
            yield Watch(got)

    def _url(self, path: str, params: Mapping[str, str] | None) -> URL:
        query = ("&" if "?" in path else "?") + urlencode(params) if params else ""
        return URL(f"{self._access.server}{path}{query}", encoded=True)


class Watch:
    """A stream of events."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self._response = response
        self._rest = b""

    async def next(self) -> dict[str, Any]:
        """raises StopAsyncIteration when the server ended the stream; TimeoutError after 30 s"""
        while b"\n" not in self._rest:
            chunk = await self._response.content.readany()
            if not chunk:
                raise StopAsyncIteration
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    async def take(self, count: int) -> list[dict[str, Any]]:
        return [await self.next() for _ in range(count)]


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
