"""The pod-resources API: who holds what, and how often one may ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from gpuready_sim.kubelet import pod_resources
from gpuready_sim.kubelet.device_manager import DeviceManager
from gpuready_sim.kubelet.pod_resources import PodResourcesServer, RateLimit
from gpuready_sim.kubelet.protos.podresources.v1 import api_grpc, api_pb2
from gpuready_sim.kubelet.sockets import Directory

from .plugins import Plugin
from .pods import container, pod

GPU = "nvidia.com/gpu"


class Scene:
    def __init__(self, tmp_path: Path) -> None:
        self.pods: list[dict[str, Any]] = []
        self.ready = asyncio.Event()
        self.devices = DeviceManager(
            tmp_path / "device-plugins",
            active_pods=lambda: {p["metadata"]["uid"] for p in self.pods},
            on_change=self.ready.set,
        )
        self.server = PodResourcesServer(tmp_path / "pod-resources", self.devices, lambda: self.pods)
        self.directory = tmp_path

    async def admit(self, wanted: dict[str, Any]) -> dict[str, Any]:
        await self.devices.admit(wanted)
        self.pods.append(wanted)
        return wanted


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    made = Scene(tmp_path)
    await made.devices.start()
    await made.server.start()
    plugin = Plugin(tmp_path / "device-plugins", devices=["gpu-0", "gpu-1", "gpu-2"])
    await plugin.start()
    await made.ready.wait()
    yield made
    await plugin.stop()
    await made.server.stop()
    await made.devices.stop()


@pytest.fixture
async def lister(scene: Scene) -> AsyncIterator[api_grpc.PodResourcesListerStub]:
    channel = Channel(path=Directory(scene.directory / "pod-resources").short("kubelet.sock"))
    yield api_grpc.PodResourcesListerStub(channel)
    channel.close()


async def test_each_device_of_a_container_is_listed_by_itself(
    scene: Scene, lister: api_grpc.PodResourcesListerStub
) -> None:
    made = await scene.admit(pod("train", containers=[container(gpus=2), container("side")]))
    answer = await lister.List(api_pb2.ListPodResourcesRequest())
    (listed,) = answer.pod_resources
    main, side = listed.containers
    assert (listed.name, listed.namespace) == ("train", "default")
    assert [d.resource_name for d in main.devices] == [GPU, GPU]
    assert all(len(d.device_ids) == 1 for d in main.devices)
    held = scene.devices.held_by(made["metadata"]["uid"], "main")[GPU]
    assert {d.device_ids[0] for d in main.devices} == set(held)
    assert not side.devices


async def test_a_device_is_listed_for_each_numa_node_also_when_its_plugin_is_away(
    scene: Scene, lister: api_grpc.PodResourcesListerStub
) -> None:
    plugin = Plugin(scene.directory / "device-plugins", "a.b/nic", ["nic-0"], numa={"nic-0": (0, 1)})
    scene.ready.clear()
    await plugin.start()
    await scene.ready.wait()
    await scene.admit(pod(containers=[container(limits={"a.b/nic": 1})]))
    await plugin.stop()
    await scene.devices.stop()
    await scene.devices.start()
    (listed,) = (await lister.List(api_pb2.ListPodResourcesRequest())).pod_resources
    nodes = [[node.ID for node in row.topology.nodes] for row in listed.containers[0].devices]
    assert sorted(nodes) == [[0], [1]]


async def test_get_knows_active_pods_only(scene: Scene, lister: api_grpc.PodResourcesListerStub) -> None:
    await scene.admit(pod("train", gpus=1))
    request = api_pb2.GetPodResourcesRequest(pod_name="train", pod_namespace="default")
    assert (await lister.Get(request)).pod_resources.name == "train"
    with pytest.raises(GRPCError) as refused:
        await lister.Get(api_pb2.GetPodResourcesRequest(pod_name="other", pod_namespace="default"))
    assert refused.value.status is Status.UNKNOWN


async def test_allocatable_are_the_healthy_ones(lister: api_grpc.PodResourcesListerStub) -> None:
    answer = await lister.GetAllocatableResources(api_pb2.AllocatableResourcesRequest())
    assert {d.device_ids[0] for d in answer.devices} == {"gpu-0", "gpu-1", "gpu-2"}


async def test_a_burst_of_calls_is_cut_off(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_resources, "CALLS_PER_SECOND", 1)  # a busy machine makes 100 a second last
    server = PodResourcesServer(scene.directory / "other", scene.devices, lambda: scene.pods)
    await server.start()
    channel = Channel(path=Directory(scene.directory / "other").short("kubelet.sock"))
    lister = api_grpc.PodResourcesListerStub(channel)
    calls = [lister.List(api_pb2.ListPodResourcesRequest()) for _ in range(60)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    channel.close()
    await server.stop()
    refused = [a for a in answers if isinstance(a, GRPCError)]
    assert refused
    assert {(a.status, a.message) for a in refused} == {(Status.RESOURCE_EXHAUSTED, "rejected by rate limit")}


def test_the_bucket_fills_up_again() -> None:
    now = [0.0]
    limit = RateLimit(100, 10, now=lambda: now[0])
    assert [limit.take() for _ in range(11)] == [True] * 10 + [False]
    now[0] += 0.05
    assert [limit.take() for _ in range(6)] == [True] * 5 + [False]
