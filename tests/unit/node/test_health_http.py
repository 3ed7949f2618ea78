"""The tiny HTTP answer to probes."""

from __future__ import annotations

import asyncio

import pytest

from gpuready.node.health_http import serve_health


async def ask(port: int, request: bytes) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(30):
        answer = await reader.read()
    writer.close()
    return answer.decode()


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/healthz", "200 OK", "fine"),
        ("/readyz?x=1", "503", "WaitingForDriver"),
        ("/other", "404", "no such path"),
    ],
)
async def test_answers(path: str, status: str, text: str) -> None:
    server = await serve_health(
        "127.0.0.1", 0, healthy=lambda: (True, "fine"), ready=lambda: (False, "WaitingForDriver")
    )
    port = server.sockets[0].getsockname()[1]
    answer = await ask(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    server.close()

    assert answer.startswith(f"HTTP/1.1 {status}")
    assert text in answer


@pytest.mark.parametrize("request_bytes", [b"nonsense\r\n\r\n", b"\r\n\r\n", b"\xff\xfe\r\n\r\n"])
async def test_nonsense_gets_an_answer_too(request_bytes: bytes) -> None:
    server = await serve_health("127.0.0.1", 0, healthy=lambda: (True, ""), ready=lambda: (True, ""))
    answer = await ask(server.sockets[0].getsockname()[1], request_bytes)
    server.close()

    assert answer.startswith("HTTP/1.1 404")
