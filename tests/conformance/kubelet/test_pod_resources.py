"""The pod-resources API, v1: who holds what."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from gpuready_sim.kubelet.protos.podresources.v1 import api_pb2

from .scene import NAMESPACE, Scene

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]


def rows(devices: Iterable[api_pb2.ContainerDevices]) -> list[tuple[str, list[int]]]:
    """(id, NUMA nodes) of each row; they come in random order."""
    return sorted((d.device_ids[0], [node.ID for node in d.topology.nodes]) for d in devices)


async def test_each_device_of_a_container_is_listed_by_itself(scene: Scene) -> None:
    await scene.started()
    pod = await scene.running(containers=[scene.container(gpus=2), scene.container("side")])
    found = await scene.listed(pod)
    assert found.namespace == NAMESPACE
    main, side = found.containers
    assert [(d.resource_name, len(d.device_ids)) for d in main.devices] == [(scene.resource, 1)] * 2
    assert {d.device_ids[0] for d in main.devices} == {"gpu-0", "gpu-1"}
    assert not side.devices


async def test_a_device_is_listed_once_for_each_of_its_numa_nodes(scene: Scene) -> None:
    await scene.started(["gpu-0", "gpu-1", "gpu-2"], numa={"gpu-0": (1,), "gpu-1": (0, 1)})
    pod = await scene.running(gpus=3)
    assert rows((await scene.listed(pod)).containers[0].devices) == [
        ("gpu-0", [1]),
        ("gpu-1", [0]),
        ("gpu-1", [1]),
        ("gpu-2", []),
    ]


async def test_numa_nodes_are_known_while_the_plugin_is_away(scene: Scene) -> None:
    await scene.started(["gpu-0"], numa={"gpu-0": (1,)})
    pod = await scene.running(gpus=1)
    await scene.restart_kubelet()
    await scene.until_gpus(0, 0)
    assert rows((await scene.listed(pod)).containers[0].devices) == [("gpu-0", [1])]


async def test_a_pod_without_devices_is_listed_too(scene: Scene) -> None:
    pod = await scene.running()
    (main,) = (await scene.listed(pod)).containers
    assert (main.name, len(main.devices)) == ("main", 0)


async def test_a_sidecar_is_listed_and_an_init_container_is_not(scene: Scene) -> None:
    await scene.started()
    init = [
        scene.container("init", gpus=1, command=["true"]),
        scene.container("side", restartPolicy="Always"),
    ]
    pod = await scene.running(gpus=1, init=init)
    found = await scene.listed(pod)
    assert [container.name for container in found.containers] == ["side", "main"]


async def test_a_finished_pod_is_not_listed(scene: Scene) -> None:
    await scene.started()
    containers = [scene.container(gpus=1, command=["true"])]
    done = await scene.pod(containers=containers, restartPolicy="Never")
    await scene.until_phase(done, "Succeeded")
    assert done["metadata"]["name"] not in await scene.listed_pods()


async def test_get_knows_one_pod(scene: Scene) -> None:
    await scene.started()
    pod = await scene.running(gpus=1)
    name = pod["metadata"]["name"]
    async with scene.pod_resources() as lister:
        request = api_pb2.GetPodResourcesRequest(pod_name=name, pod_namespace=NAMESPACE)
        found = (await lister.Get(request)).pod_resources
    assert (found.name, found.namespace) == (name, NAMESPACE)
    assert [d.resource_name for d in found.containers[0].devices] == [scene.resource]


async def test_get_of_a_pod_that_is_not_there_fails_without_saying_not_found(scene: Scene) -> None:
    async with scene.pod_resources() as lister:
        with pytest.raises(GRPCError) as refused:
            await lister.Get(api_pb2.GetPodResourcesRequest(pod_name="none", pod_namespace=NAMESPACE))
    assert refused.value.status is Status.UNKNOWN
    assert refused.value.message == f"pod none in namespace {NAMESPACE} not found"


async def test_allocatable_are_the_healthy_devices_held_or_not(scene: Scene) -> None:
    plugin = await scene.started(["gpu-0", "gpu-1", "gpu-2"], numa={"gpu-1": (0, 1)})
    await plugin.say(gpu_2="Unhealthy")
    await scene.until_gpus(3, 2)
    await scene.running(gpus=1)
    async with scene.pod_resources() as lister:
        answer = await lister.GetAllocatableResources(api_pb2.AllocatableResourcesRequest())
    ours = [d for d in answer.devices if d.resource_name == scene.resource]
    assert rows(ours) == [("gpu-0", []), ("gpu-1", [0]), ("gpu-1", [1])]


async def test_a_burst_of_calls_is_cut_off(scene: Scene) -> None:
    async with scene.pod_resources() as lister:
        calls = [lister.List(api_pb2.ListPodResourcesRequest()) for _ in range(200)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [a for a in answers if isinstance(a, GRPCError)]
    assert refused
    assert {(a.status, a.message) for a in refused} == {(Status.RESOURCE_EXHAUSTED, "rejected by rate limit")}
