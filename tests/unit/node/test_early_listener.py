"""The probes' socket is there from the first moment, and becomes the daemon's own."""

from __future__ import annotations

import asyncio
import socket

from gpuready import early_listener
from gpuready.node.health_http import serve_health


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


async def test_a_probe_that_comes_before_the_daemon_waits_and_is_answered(monkeypatch) -> None:
    port = free_port()
    monkeypatch.setenv("POD_IP", "127.0.0.1")
    monkeypatch.setenv("GPUREADY_HEALTH_PORT", str(port))
    early_listener.listen("device-plugin")

    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    server = await serve_health(
        "127.0.0.1", port, healthy=lambda: (True, "ok"), ready=lambda: (False, "not yet")
    )
    async with server:
        answer = await asyncio.wait_for(reader.read(), 10)

    assert answer.startswith(b"HTTP/1.1 200 OK")
    writer.close()


def test_what_does_not_listen_where_the_daemon_wants_to_is_given_up() -> None:
    port = free_port()
    env = {"POD_IP": "127.0.0.1", "GPUREADY_HEALTH_PORT": str(port)}
    early_listener.listen("toolkit", env)

    assert early_listener.find("127.0.0.1", port + 1, env) is None
    with socket.create_server(("127.0.0.1", port)):
        early_listener.listen("toolkit", env)
        assert early_listener.find("127.0.0.1", port, env) is None, "the port is taken: the daemon says so"
    early_listener.listen("toolkit", {"GPUREADY_HEALTH_PORT": "many"})


async def test_a_probe_for_readiness_waits_for_the_first_time_that_it_is_so() -> None:
    port, is_ready = free_port(), asyncio.Event()
    server = await serve_health(
        "127.0.0.1",
        port,
        healthy=lambda: (True, "ok"),
        ready=lambda: (is_ready.is_set(), "the first list"),
        patience_s=20,
    )
    async with server:
        asyncio.get_running_loop().call_later(0.1, is_ready.set)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 200 OK")
    writer.close()
