"""What the operator serves, and that serving costs nothing while nobody asks."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime

import aiohttp
import pytest

from gpuready.controller import http


async def test_it_answers_with_the_date_of_the_moment_and_ends_when_cancelled():
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    serving = asyncio.create_task(
        http.serve(http.Application({"/healthz": lambda: (200, http.TEXT, b"ok\n")}), listener)
    )

    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/healthz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")
            assert parsedate_to_datetime(answer.headers.getone("Date"))
        async with session.get(f"http://127.0.0.1:{port}/nothing") as answer:
            assert answer.status == 404

    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    socket.create_server(("127.0.0.1", port)).close()  # the port is free again


async def test_it_does_not_wake_while_nobody_asks(monkeypatch):
    naps: list[float] = []
    monkeypatch.setattr("uvicorn.server.asyncio.sleep", _noting(naps))
    listener = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(http.serve(http.Application({}), listener))

    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 404
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)

    assert naps == []


def test_a_pod_with_an_ipv6_address_is_listened_on_like_any_other():
    try:
        probe = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError as exc:
        pytest.skip(f"this machine has no IPv6: {exc}")
    with probe:
        port = probe.getsockname()[1]
    listener = http.listen("::1", port)
    assert listener is not None
    with listener:
        assert listener.getsockname()[0] == "::1"


PAGE = b"gpuready_up 1\n" * 20_000  # 280 kB, as of a few hundred nodes


@asynccontextmanager
async def served(body: bytes = PAGE) -> AsyncIterator[tuple[str, int]]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    application = http.Application({"/metrics": lambda: (200, http.TEXT, body)})
    serving = asyncio.create_task(http.serve(application, listener))
    yield listener.getsockname()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def scraped(port: int) -> bytes:
    url = f"http://127.0.0.1:{port}/metrics"
    async with asyncio.timeout(30), aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.read()


async def all_that_comes(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(30):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def test_requests_sent_ahead_of_their_answers_end_the_connection(caplog):
    tracemalloc.start()
    async with served() as address:
        flood = [await asyncio.open_connection(*address) for _ in range(20)]
        for _, writer in flood:
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 400)
        assert await scraped(address[1]) == PAGE
        most_mib = tracemalloc.get_traced_memory()[1] / 2**20
        assert [await all_that_comes(reader) for reader, _ in flood] == [b""] * 20
        for _, writer in flood:
            writer.close()
    tracemalloc.stop()

    assert most_mib < 8
    assert caplog.text == ""


async def test_a_scrape_is_answered_while_hundreds_hold_half_a_request_open():
    async with served() as address:
        flood = [await asyncio.open_connection(*address) for _ in range(http.MOST_CONNECTIONS + 20)]
        for _, writer in flood:
            writer.write(b"GET /metrics HTTP/1.1\r\nHost:")
        assert await scraped(address[1]) == PAGE
        # The oldest had to go for it.
        assert await all_that_comes(flood[0][0]) == b""
        for _, writer in flood:
            writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost:", id="half a request"),
    ],
)
async def test_whoever_does_not_send_a_whole_request_in_time_is_cut_off(monkeypatch, sent):
    monkeypatch.setattr(http, "PATIENCE_S", 0.1)
    async with served() as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(sent)
        assert await all_that_comes(reader) == b""
        writer.close()


async def test_whoever_does_not_take_his_answer_is_cut_off(monkeypatch):
    monkeypatch.setattr(http, "PATIENCE_S", 0.1)
    cut = asyncio.Event()
    lost = http.Connection.connection_lost
    monkeypatch.setattr(http.Connection, "connection_lost", lambda self, exc: (lost(self, exc), cut.set()))
    async with served(b"x" * 2**24) as address:  # more than the kernel keeps for who does not read
        with socket.create_connection(address) as deaf:
            deaf.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(30):
                await cut.wait()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET /" + b"x" * http.LONGEST_REQUEST_BYTES + b" HTTP/1.1\r\n", id="a path"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * http.LONGEST_REQUEST_BYTES, id="headers"),
    ],
)
async def test_a_request_without_an_end_is_cut_off(sent):
    async with served() as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(sent)
        assert await all_that_comes(reader) == b""
        writer.close()


async def test_what_is_no_request_is_refused_without_a_word_in_the_log(caplog):
    async with served() as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"\x16\x03\x01 hello\r\n\r\n")
        assert (await all_that_comes(reader)).startswith(b"HTTP/1.1 400 ")
        writer.close()

    assert caplog.text == ""


def test_a_flood_of_questions_works_out_the_answer_once():
    now: list[float] = [100.0]
    asked: list[float] = []

    def worked_out() -> http.Answer:
        asked.append(now[0])
        return 200, http.TEXT, str(now[0]).encode()

    page = http.kept_for(0.5, worked_out, clock=lambda: now[0])

    first = [page() for _ in range(100)]
    now[0] += 0.5
    page()

    assert (len(set(first)), len(asked)) == (1, 2)


def _noting(naps: list[float]):
    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        await asyncio.Event().wait()

    return sleep
