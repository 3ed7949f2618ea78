"""What the operator serves, and that serving costs nothing while nobody asks."""

from __future__ import annotations

import asyncio
import socket
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


def _noting(naps: list[float]):
    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        await asyncio.Event().wait()

    return sleep
