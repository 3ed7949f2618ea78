"""Answers /healthz and /readyz for a daemon's probes; nothing else, and no HTTP library."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gpuready import early_listener
from gpuready.log import Logger

Check = Callable[[], tuple[bool, str]]  # (fine, one line why)

_DEADLINE_S = 5.0
_START_S, _LOOK_S = 15.0, 0.05  # whoever is not ready by then is worth a word
_PORT_RETRY_S = 0.5  # nothing tells that a port is free again


async def serve_health(
    host: str, port: int, *, healthy: Check, ready: Check, patience_s: float = 0.0
) -> asyncio.Server:
    """Listen; 200 when the check is fine, else 503, the reason as text. Close the server to stop.

    patience_s   before it is ready for the first time, an answer waits so long for that: a kubelet writes a
                 Warning for each 503. Less than the probe's own time-out
    """
    checks = {"/healthz": healthy, "/readyz": ready}
    loop = asyncio.get_running_loop()
    patient_until = loop.time() + _START_S

    async def wait_for_the_start() -> None:
        until = min(patient_until, loop.time() + patience_s)
        while not ready()[0] and loop.time() < until:
            await asyncio.sleep(_LOOK_S)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_DEADLINE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                if b" /readyz" in head.split(b"\r\n", 1)[0]:
                    await wait_for_the_start()
                writer.write(_response(head, checks))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    if early := early_listener.find(host, port):
        return await asyncio.start_server(answer, sock=early, limit=8192)
    return await asyncio.start_server(answer, host, port, limit=8192)


async def answer_probes(host: str, port: int, *, healthy: Check, ready: Check, log: Logger) -> None:
    """`serve_health` until cancelled, and as soon as the port is free; that it is taken is said once.

    On the host's network a predecessor that ends may hold it for a moment.
    """
    is_told = False
    while True:
        try:
            server = await serve_health(host, port, healthy=healthy, ready=ready)
            break
        except OSError as exc:
            if not is_told:
                log.error(
                    "probes are not answered",
                    address=f"{host}:{port}",
                    reason=exc.strerror,
                    next_step="end the program that has the port, or set GPUREADY_HEALTH_PORT to a free one",
                )
            is_told = True
            await asyncio.sleep(_PORT_RETRY_S)
    async with server:
        await server.serve_forever()


def _response(head: bytes, checks: dict[str, Check]) -> bytes:
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split()
    path = words[1].split("?")[0] if len(words) > 1 else ""
    check = checks.get(path)
    fine, text = check() if check else (False, f"no such path; ask {' or '.join(checks)}")
    status = "404 Not Found" if check is None else "200 OK" if fine else "503 Service Unavailable"
    body = f"{text}\n".encode()
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body
