"""The tiny HTTP answer to probes."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gpuready.log import get_logger
from gpuready.node.health_http import answer_probes, serve_health


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


async def test_a_port_that_is_taken_is_told_once_and_taken_up_when_it_is_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = await serve_health("127.0.0.1", 0, healthy=lambda: (True, "old"), ready=lambda: (True, ""))
    port = first.sockets[0].getsockname()[1]
    with caplog.at_level(logging.ERROR):
        answering = asyncio.create_task(
            answer_probes(
                "127.0.0.1",
                port,
                healthy=lambda: (True, "new"),
                ready=lambda: (True, ""),
                log=get_logger("probes"),
            )
        )
        while not caplog.records:
            await asyncio.sleep(0.01)
        first.close()
        async with asyncio.timeout(30):
            while "new" not in await _try_to_ask(port):
                await asyncio.sleep(0.01)
    answering.cancel()

    [said] = caplog.records
    assert said.message == "probes are not answered"
    assert said.fields["address"] == f"127.0.0.1:{port}"  # type: ignore[attr-defined]
    assert said.fields["next_step"].startswith("end the program that has the port")  # type: ignore[attr-defined]


async def _try_to_ask(port: int) -> str:
    try:
        return await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n")
    except OSError:
        return ""
