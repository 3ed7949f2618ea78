"""Asking the kubelet which pod holds which device."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuready.node.kubelet.model import ContainerAnswer, Device, Offer
from gpuready.node.kubelet.plugins import Plugins
from gpuready.node.kubelet.pod_resources import Holder, PodResources, PodResourcesUnavailable, ids_of
from gpuready.protos.podresources.v1 import api_pb2
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
