"""Answers /healthz and /readyz for a daemon's probes; nothing else, and no HTTP library."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Check = Callable[[], tuple[bool, str]]  # (fine, one line why)

_DEADLINE_S = 5.0


async def serve_health(host: str, port: int, *, healthy: Check, ready: Check) -> asyncio.Server:
    """Listen; 200 when the check is fine, else 503, the reason as text. Close the server to stop."""
    checks = {"/healthz": healthy, "/readyz": ready}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_DEADLINE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(head, checks))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(answer, host, port, limit=8192)


def _response(head: bytes, checks: dict[str, Check]) -> bytes:
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split()
    path = words[1].split("?")[0] if len(words) > 1 else ""
    check = checks.get(path)
    fine, text = check() if check else (False, f"no such path; ask {' or '.join(checks)}")
    status = "404 Not Found" if check is None else "200 OK" if fine else "503 Service Unavailable"
    body = f"{text}\n".encode()
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body
