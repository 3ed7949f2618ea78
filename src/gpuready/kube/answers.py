"""Reading what an API server answers: bodies, refusals, lines of a watch.

A proxy, a gateway or a login page may answer in its place: whatever does not fit is `Unreachable`, and
nothing that does not fit is taken for an empty cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

import msgspec

from gpuready.kube import wire
from gpuready.kube.errors import Unreachable, error_of
from gpuready.kube.lean_http import aiohttp
from gpuready.kube.wire import Decode, WatchEvent
from gpuready.log import get_logger

T = TypeVar("T")
log = get_logger("kube.client")

# No honest answer is larger: a page holds a hundred objects, and etcd takes none above 1.5 MiB.
MAX_ANSWER_BYTES = 128 << 20
MAX_ERROR_BYTES = 64 << 10
_RIGHT_SERVER = (
    "check that the address is the API server's own; a proxy, gateway or login page may stand there"
)


async def body_of(response: aiohttp.ClientResponse, call: str) -> bytes:
    body = await _up_to(response, MAX_ANSWER_BYTES)
    if len(body) > MAX_ANSWER_BYTES:
        raise unusable(call, f"it is larger than {MAX_ANSWER_BYTES >> 20} MiB")
    return body


async def _up_to(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body; of a larger one a little more than `limit` bytes."""
    chunks, size = [], 0
    while size <= limit and (chunk := await response.content.readany()):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


async def raise_for_status(response: aiohttp.ClientResponse, call: str) -> None:
    if response.status < 300:
        return
    if response.status < 400:
        where = response.headers.get("Location", "nowhere")
        raise unusable(call, f"it sends us elsewhere (HTTP {response.status} to {where})")
    text = (await _up_to(response, MAX_ERROR_BYTES)).decode(errors="replace")
    try:
        body = wire.decode_any(text)
    except (msgspec.DecodeError, RecursionError):
        body = text
    raise error_of(response.status, body, retry_after=response.headers.get("Retry-After"), call=call)


async def next_chunk(response: aiohttp.ClientResponse, until: float) -> bytes:
    """What has come, b"" when the stream has ended or nothing came until then."""
    try:
        async with asyncio.timeout_at(until):
            return await response.content.readany()
    except TimeoutError:
        return b""


def event_of(line: bytes, decode: Decode[T], call: str) -> WatchEvent[T]:
    event = read(wire.decode_line, line, call)
    raw = cast(bytes, event.object)
    if event.type == "ERROR":
        status = read(wire.decode_any, raw, call)
        code = status.get("code") if isinstance(status, Mapping) else None
        raise error_of(code if isinstance(code, int) else 500, status, call=call)
    version = read(wire.raw_version_of, raw, call)
    obj = None if event.type == "BOOKMARK" else find_object(raw, decode)
    return WatchEvent(event.type, version, obj)


def find_object(raw: bytes, decode: Decode[T]) -> T | None:
    """One object; None, with a warning, for one that does not fit: it must not stop the others."""
    try:
        return decode(raw)
    except (msgspec.ValidationError, RecursionError) as exc:
        named = wire.find_name_of(raw)
        log.warning("object skipped", name=named.name, namespace=named.namespace, error=str(exc))
        return None


def read(decode: Callable[[bytes], T], body: bytes, call: str) -> T:
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise unusable(call, _shown(bytes(body), exc)) from exc  # msgspec.Raw cannot be cut


def unusable(call: str, why: str) -> Unreachable:
    return Unreachable(f"the answer to {call} cannot be read", why=why, next_step=_RIGHT_SERVER)


def _shown(body: bytes, exc: Exception) -> str:
    start = body[:64].strip()
    if start[:1] == b"<":
        return "it is a page of HTML"
    return f"{exc}; it begins with {start[:32]!r}" if start else "it is empty"
