"""Writes of who does not lead are not sent; reads are."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from tests.unit.kube.certificates import certificate
from tests.unit.kube.scripted_server import ScriptedServer, event, gives, node, refuses, streams

from gpuready.kube.access import Access
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import NotFound, Unreachable
from gpuready.kube.fence import Fence, Fenced
from gpuready.kube.resources import NODES


def fenced(server: ScriptedServer, fence: Fence) -> KubeClient:
    return KubeClient(Access(server=f"http://127.0.0.1:{server.port}"), fence=fence)


async def test_a_closed_fence_lets_reads_through_and_no_write_of_any_kind(server: ScriptedServer) -> None:
    server.answers = [gives(node("n", "1"))]
    async with fenced(server, Fence()) as client:
        await client.get(NODES, "n")
        for write in (
            client.create(NODES, node("n", "")),
            client.replace(NODES, node("n", "1")),
            client.merge_patch(NODES, "n", {}),
            client.json_patch(NODES, "n", []),
            client.apply(NODES, node("n", "")),
            client.delete(NODES, "n"),
        ):
            with pytest.raises(Fenced, match="does not lead"):
                await write
    assert [request.method for request in server.requests] == ["GET"]


async def test_an_open_fence_closes_by_itself_when_its_time_is_over(server: ScriptedServer) -> None:
    server.answers = [gives(node("n", "1"))]
    now = [100.0]
    fence = Fence(lambda: now[0])
    fence.open_until(110.0)
    async with fenced(server, fence) as client:
        await client.merge_patch(NODES, "n", {})
        now[0] = 110.0
        with pytest.raises(Fenced):
            await client.merge_patch(NODES, "n", {})
    assert len(server.requests) == 1


async def test_a_fence_that_closes_while_the_connection_is_made_holds_the_write_back(
    server: ScriptedServer,
) -> None:
    """As for a process that was stopped at that moment."""
    server.answers = [gives(node("n", "1"))]
    readings: Iterator[float] = iter([0.0, 100.0])
    fence = Fence(lambda: next(readings))
    fence.open_until(10.0)
    async with fenced(server, fence) as client:
        with pytest.raises(Fenced):
            await client.merge_patch(NODES, "n", {})
        assert await client.get(NODES, "n")  # the connection is good for something else
    assert [request.method for request in server.requests] == ["GET"]


async def test_draining_waits_for_writes_under_way_and_lets_no_other_through(server: ScriptedServer) -> None:
    arrived, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(request):
        arrived.set()
        await may_answer.wait()
        return await gives(node("n", "1"))(request)

    server.answers = [slow]
    fence = Fence()
    fence.open_until(float("inf"))
    async with fenced(server, fence) as client:
        write = asyncio.create_task(client.merge_patch(NODES, "n", {}))
        await arrived.wait()
        assert not await fence.drained(0.01)
        with pytest.raises(Fenced):
            await client.merge_patch(NODES, "n", {})
        may_answer.set()
        assert await fence.drained(10)
        assert write.done() or await write


async def test_a_refused_write_is_no_longer_under_way(server: ScriptedServer) -> None:
    server.answers = [refuses(404, "NotFound")]
    fence = Fence()
    fence.open_until(float("inf"))
    async with fenced(server, fence) as client:
        with pytest.raises(NotFound):
            await client.delete(NODES, "n")
        assert await fence.drained(0)


async def test_severed_writes_are_taken_back_from_the_network_as_far_as_they_can_be(tmp_path: Path) -> None:
    """A polite end of the connection would have the kernel send the rest, be it minutes later."""
    arrived, ended = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"{}")
            arrived.set()
            ended.set_result(await reader.read())
        except ConnectionResetError:
            ended.set_result("reset")
        writer.transport.abort()

    pem, key = certificate()
    (tmp_path / "pem").write_bytes(pem + key)
    ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ours.load_cert_chain(tmp_path / "pem")
    theirs.check_hostname, theirs.verify_mode = False, ssl.CERT_NONE
    fence = Fence()
    fence.open_until(float("inf"))
    async with await asyncio.start_server(server, "127.0.0.1", 0, ssl=ours) as listening:
        where = Access(server=f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}", tls=theirs)
        async with KubeClient(where, fence=fence) as client:
            write = asyncio.create_task(client.merge_patch(NODES, "n", {}))
            await asyncio.wait_for(arrived.wait(), 30)
            fence.shut()
            client.sever()
            assert await asyncio.wait_for(ended, 30) == "reset"
            with pytest.raises(Unreachable):  # or it would be tried again
                await write


async def test_a_watch_outlives_the_writes_that_were_severed(server: ScriptedServer) -> None:
    hear = asyncio.Event()
    arrived = asyncio.Event()

    async def never(request: web.Request) -> web.StreamResponse:
        arrived.set()
        return await streams(then="stay")(request)

    server.answers = [streams(hear, event("ADDED", node("n", "2"))), never]
    fence = Fence()
    fence.open_until(float("inf"))
    async with fenced(server, fence) as client:
        opened = asyncio.Event()
        watch = client.watch(NODES, resource_version="1", opened=opened.set)
        heard = asyncio.ensure_future(anext(watch))
        await asyncio.wait_for(opened.wait(), 30)
        write = asyncio.create_task(client.delete(NODES, "n"))
        await asyncio.wait_for(arrived.wait(), 30)
        fence.shut()
        client.sever()
        with pytest.raises(Unreachable):
            await asyncio.wait_for(write, 30)
        hear.set()
        assert (await asyncio.wait_for(heard, 30)).resource_version == "2"
        await watch.aclose()
