"""Programs run in pods: an upgraded connection goes through the API server to the kubelet."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
import pytest

from gpuready_sim.apiserver import pki
from gpuready_sim.apiserver.server import Server
from gpuready_sim.kubelet.exec_stream import PROTOCOLS
from gpuready_sim.kubelet.http_server import KubeletServer
from gpuready_sim.runtime.container import Container

from .harness import NODES, PODS, Api, node, pod

EXEC = f"{PODS}/p1/exec?stdout=true&stderr=true"


@dataclass
class Program:
    """A container whose programs answer as they are told, once they are let."""

    code: int = 0
    is_running: bool = True
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def exec(self, command: Sequence[str], timeout_s: float) -> tuple[int, str]:
        try:
            await self.may_end.wait()
        finally:
            self.ended.set()
        return self.code, f"ran {' '.join(command)}\n"


@pytest.fixture
def program() -> Program:
    made = Program()
    made.may_end.set()
    return made


@pytest.fixture
async def kubelet(program: Program) -> AsyncIterator[KubeletServer]:
    def find(namespace: str, pod: str, name: str, previous: bool) -> Container | str:
        return cast(Container, program) if name == "main" else "no such container"

    server = KubeletServer("127.0.0.1", 0, find)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def url(api: Api, identity: pki.Identity, kubelet: KubeletServer) -> AsyncIterator[str]:
    """The API server at a port, with a pod on a node whose kubelet answers."""
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
    }
    await api.made(NODES, node() | {"status": status})
    await api.made(PODS, pod())
    await api.create(
        f"{PODS}/p1/binding", {"metadata": {"name": "p1"}, "target": {"kind": "Node", "name": "n1"}}
    )
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(api.server, identity)
    server.config.lifespan = "off"
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    yield f"https://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    await serving


@pytest.fixture
async def client(identity: pki.Identity) -> AsyncIterator[aiohttp.ClientSession]:
    trusted = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=identity.ca_pem))
    headers = {"Authorization": f"Bearer {identity.admin_token}"}
    async with aiohttp.ClientSession(connector=trusted, headers=headers) as session:
        yield session


async def said(client: aiohttp.ClientSession, url: str) -> list[tuple[int, bytes]]:
    """(channel, content) of every message."""
    async with client.ws_connect(
        url, protocols=PROTOCOLS, timeout=aiohttp.ClientWSTimeout(ws_close=30)
    ) as ws:
        assert ws.protocol == "v5.channel.k8s.io"
        return [(message.data[0], message.data[1:]) async for message in ws]


async def test_the_output_of_a_program_comes_back_and_how_it_ended(
    url: str, client: aiohttp.ClientSession
) -> None:
    (first, output), (last, status) = await said(client, f"{url}{EXEC}&command=nvidia-smi&command=-L")

    assert (first, output) == (1, b"ran nvidia-smi -L\n")
    assert (last, json.loads(status)["status"]) == (3, "Success")


async def test_a_program_that_fails_tells_its_exit_code(
    url: str, client: aiohttp.ClientSession, program: Program
) -> None:
    program.code = 7

    *_, (channel, text) = await said(client, f"{url}{EXEC}&command=false")

    status: Any = json.loads(text)
    assert (channel, status["reason"]) == (3, "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


async def test_a_program_ends_when_nobody_listens_any_more(
    url: str, client: aiohttp.ClientSession, program: Program
) -> None:
    program.may_end.clear()

    async with client.ws_connect(f"{url}{EXEC}&command=sleep&command=9", protocols=PROTOCOLS):
        pass

    async with asyncio.timeout(30):
        await program.ended.wait()


@pytest.mark.parametrize(
    ("path", "code"),
    [
        pytest.param(f"{EXEC}&command=true&container=none", 400, id="no such container"),
        pytest.param(f"{PODS}/none/exec?command=true", 404, id="no such pod"),
        pytest.param(f"{PODS}/p1/attach", 405, id="attach is not simulated"),
        pytest.param("/apis/apps/v1/namespaces/default/deployments/d/exec", 404, id="no pod at all"),
    ],
)
async def test_what_cannot_be_run_is_refused_before_the_upgrade(
    url: str, client: aiohttp.ClientSession, path: str, code: int
) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await client.ws_connect(f"{url}{path}", protocols=PROTOCOLS)
    assert caught.value.status == code


async def test_a_container_that_does_not_run_runs_nothing(
    url: str, client: aiohttp.ClientSession, program: Program
) -> None:
    program.is_running = False
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await client.ws_connect(f"{url}{EXEC}&command=true", protocols=PROTOCOLS)
    assert caught.value.status == 404


async def test_who_may_only_read_pods_may_not_run_programs_in_them(
    url: str, client: aiohttp.ClientSession
) -> None:
    mask = {"Impersonate-User": "me"}
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await client.ws_connect(f"{url}{EXEC}&command=true", protocols=PROTOCOLS, headers=mask)
    assert caught.value.status == 403
