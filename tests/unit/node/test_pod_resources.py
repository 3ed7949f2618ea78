"""Asking the kubelet which pod holds which device."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpclib.server import Server

from gpuready.node.kubelet.model import ContainerAnswer, Device, Offer
from gpuready.node.kubelet.plugins import Plugins
from gpuready.node.kubelet.pod_resources import (
    Claim,
    Connection,
    Held,
    Holder,
    PodResources,
    PodResourcesUnavailable,
    ids_of,
)
from gpuready.node.kubelet.sockets import Directory
from gpuready.protos.podresources.v1 import api_grpc, api_pb2
from gpuready_sim.kubelet.device_manager import DeviceManager
from gpuready_sim.kubelet.pod_resources import PodResourcesServer

RESOURCE = "nvidia.com/gpu"
POD = {
    "metadata": {"name": "train-0", "namespace": "team-a", "uid": "uid-1"},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {RESOURCE: "2"}}}]},
}


def allocate(asked: Sequence[str]) -> ContainerAnswer:
    return ContainerAnswer(envs={"ASKED": ",".join(asked)})


class Kubelet:
    """A device manager with three devices, and its pod-resources socket."""

    def __init__(self, folder: Path) -> None:
        self.changed = asyncio.Event()
        self.devices = DeviceManager(folder / "device-plugins", on_change=self.changed.set)
        self.socket = folder / "pod-resources/kubelet.sock"
        self.pods: list[dict[str, Any]] = []
        self.server = PodResourcesServer(self.socket.parent, self.devices, lambda: self.pods)
        self.plugins = Plugins(folder / "device-plugins/kubelet.sock")

    async def start(self) -> None:
        await self.devices.start()
        await self.server.start()
        self.plugins.set({RESOURCE: Offer(tuple(Device(name) for name in "abc"), allocate)})
        self.task = asyncio.create_task(self.plugins.run())
        async with asyncio.timeout(30):
            while not self.devices.allocatable().get(RESOURCE):
                self.changed.clear()
                await self.changed.wait()

    async def stop(self) -> None:
        self.task.cancel()
        await self.plugins.close()
        await self.server.stop()
        await self.devices.stop()


@pytest.fixture
async def kubelet(tmp_path: Path) -> AsyncIterator[Kubelet]:
    kubelet = Kubelet(tmp_path)
    await kubelet.start()
    yield kubelet
    await kubelet.stop()


async def test_holders_are_told_with_all_their_devices(kubelet: Kubelet) -> None:
    await kubelet.devices.admit(POD)
    kubelet.pods.append(POD)
    held = await PodResources(kubelet.socket).list()

    [(holder, ids)] = held.items()
    assert holder == Holder("team-a", "train-0", "main")
    assert len(ids[RESOURCE]) == 2
    assert list(ids[RESOURCE]) == sorted(ids[RESOURCE])


def test_a_device_near_two_numa_nodes_is_held_once() -> None:
    near_each = [api_pb2.ContainerDevices(resource_name=RESOURCE, device_ids=["a"]) for _ in range(2)]

    assert ids_of(api_pb2.ContainerResources(name="main", devices=near_each)) == {RESOURCE: ("a",)}


async def test_a_kubelet_that_is_away_is_no_crash_and_comes_back(kubelet: Kubelet) -> None:
    client = PodResources(kubelet.socket)
    await kubelet.server.stop()
    with pytest.raises(PodResourcesUnavailable):
        await client.list()
    kubelet.socket.unlink(missing_ok=True)
    with pytest.raises(PodResourcesUnavailable):
        await client.list()

    await kubelet.server.start()
    assert await client.list() == {}


async def test_too_many_questions_are_refused_with_a_reason(kubelet: Kubelet) -> None:
    client = PodResources(kubelet.socket)
    answers = await asyncio.gather(*(client.list() for _ in range(40)), return_exceptions=True)

    refused = [answer for answer in answers if isinstance(answer, PodResourcesUnavailable)]
    assert refused
    assert "how often" in str(refused[0])


async def test_a_kept_connection_asks_again_and_again_over_one_socket(kubelet: Kubelet) -> None:
    await kubelet.devices.admit(POD)
    kubelet.pods.append(POD)
    connection = Connection(kubelet.socket)
    [held] = await connection.list()
    open_files = len(os.listdir("/proc/self/fd"))

    for _ in range(5):
        [held] = await connection.list()
        assert held.holder == Holder("team-a", "train-0", "main")
    assert len(os.listdir("/proc/self/fd")) == open_files
    connection.close()
    assert len(os.listdir("/proc/self/fd")) < open_files


async def test_a_kept_connection_comes_back_with_the_kubelet(kubelet: Kubelet) -> None:
    connection = Connection(kubelet.socket)
    assert await connection.list() == []
    await kubelet.server.stop()
    with pytest.raises(PodResourcesUnavailable):
        await connection.list()
    kubelet.socket.unlink(missing_ok=True)

    await kubelet.server.start()
    assert await connection.list() == []
    connection.close()


async def test_a_kubelet_that_does_not_answer_is_left_after_the_deadline(tmp_path: Path) -> None:
    folder = tmp_path / "pod-resources"
    folder.mkdir()
    silent = await asyncio.start_unix_server(lambda _r, _w: asyncio.sleep(60), folder / "kubelet.sock")
    connection = Connection(folder / "kubelet.sock", deadline_s=0.2)

    with pytest.raises(PodResourcesUnavailable, match=r"no answer within 0\.2 s"):
        await connection.list()
    silent.close()


async def test_an_answer_of_sixteen_megabytes_is_read(tmp_path: Path) -> None:
    ids = [f"GPU-{number:032d}-{'x' * 100}" for number in range(1000)]
    container = api_pb2.ContainerResources(
        name="main", devices=[api_pb2.ContainerDevices(resource_name=RESOURCE, device_ids=ids)]
    )
    pods = [api_pb2.PodResources(name=f"pod-{n}", namespace="x", containers=[container]) for n in range(115)]
    async with answering(tmp_path, api_pb2.ListPodResourcesResponse(pod_resources=pods)) as socket:
        connection = Connection(socket)
        held = await connection.list()
        connection.close()

    assert len(held) == 115
    assert len(held[0].devices[RESOURCE]) == 1000


async def test_what_is_of_no_use_is_not_kept_and_who_holds_nothing_else_is_not_there(tmp_path: Path) -> None:
    def pod(name: str, resource: str) -> Any:
        devices = [api_pb2.ContainerDevices(resource_name=resource, device_ids=["a", "b"])]
        container = api_pb2.ContainerResources(name="main", devices=devices)
        return api_pb2.PodResources(name=name, namespace="x", containers=[container])

    pods = [pod("works", RESOURCE), pod("nic", "example.com/nic")]
    async with answering(tmp_path, api_pb2.ListPodResourcesResponse(pod_resources=pods)) as socket:
        connection = Connection(socket, wanted=lambda resource, id_: resource == RESOURCE and id_ != "b")
        [held] = await connection.list()
        connection.close()

    assert held == Held(Holder("x", "works", "main"), {RESOURCE: ("a",)})


async def test_claims_are_told_by_driver_pool_and_device(tmp_path: Path) -> None:
    claimed = [
        api_pb2.ClaimResource(driver_name="gpu.nvidia.com", pool_name="n1", device_name=name)
        for name in ("gpu-1", "gpu-0")
    ]
    row = api_pb2.DynamicResource(claim_name="c", claim_namespace="x", claim_resources=claimed)
    container = api_pb2.ContainerResources(name="main", dynamic_resources=[row])
    pods = [api_pb2.PodResources(name="p", namespace="x", containers=[container])]
    async with answering(tmp_path, api_pb2.ListPodResourcesResponse(pod_resources=pods)) as socket:
        connection = Connection(socket)
        [held] = await connection.list()
        connection.close()

    assert held.devices == {}
    assert [claim.device for claim in held.claims] == ["gpu-0", "gpu-1"]
    assert held.claims[0] == Claim("gpu.nvidia.com", "n1", "gpu-0", "c", "x")


async def test_junk_in_place_of_a_kubelet_is_told(tmp_path: Path) -> None:
    async def junk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100)
        writer.close()

    (tmp_path / "s").mkdir()
    server = await asyncio.start_unix_server(junk, tmp_path / "s/kubelet.sock")
    connection = Connection(tmp_path / "s/kubelet.sock", deadline_s=5)

    with pytest.raises(PodResourcesUnavailable):
        await connection.list()
    server.close()


@asynccontextmanager
async def answering(folder: Path, answer: api_pb2.ListPodResourcesResponse) -> AsyncIterator[Path]:
    """The socket of a kubelet that always gives this answer."""

    class Lister(api_grpc.PodResourcesListerBase):
        async def List(self, stream: Any) -> None:
            await stream.recv_message()
            await stream.send_message(answer)

        async def Get(self, stream: Any) -> None: ...

        async def GetAllocatableResources(self, stream: Any) -> None: ...

    server = Server([Lister()])
    with Directory(folder) as directory:
        await server.start(path=directory.short("kubelet.sock"))
        yield folder / "kubelet.sock"
        server.close()
        await server.wait_closed()
