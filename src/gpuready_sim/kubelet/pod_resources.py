"""The pod-resources API, v1: which pod holds which device.

Like the real kubelet: one ContainerDevices per device and NUMA node, in random order, active pods only, and
at most 100 calls a second in bursts of 10.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from gpuready_sim.kubelet.device_manager import DeviceManager
from gpuready_sim.kubelet.protos.podresources.v1 import api_grpc, api_pb2
from gpuready_sim.kubelet.sockets import Directory, UnixServer

SOCKET = "kubelet.sock"
CALLS_PER_SECOND = 100
BURST = 10

Pods = Callable[[], Iterable[Mapping[str, Any]]]


class PodResourcesServer:
    """Serves <directory>/kubelet.sock; `active_pods` gives the Pod objects that are not terminal."""

    def __init__(self, directory: Path, devices: DeviceManager, active_pods: Pods) -> None:
        self._path = directory
        self._handler = _Lister(devices, active_pods)
        self._server: UnixServer | None = None
        self._directory: Directory | None = None

    async def start(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        self._directory = Directory(self._path)
        self._server = UnixServer([self._handler], self._directory, SOCKET)
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None and self._directory is not None:
            await self._server.close()
            self._directory.close()
            self._server = self._directory = None


class _Lister(api_grpc.PodResourcesListerBase):
    def __init__(self, devices: DeviceManager, active_pods: Pods) -> None:
        self._devices = devices
        self._active_pods = active_pods
        self._limit = RateLimit(CALLS_PER_SECOND, BURST)

    async def List(self, stream: Any) -> None:
        await stream.recv_message()
        self._limit.take_or_refuse()
        pods = [self._describe(pod) for pod in self._active_pods()]
        await stream.send_message(api_pb2.ListPodResourcesResponse(pod_resources=pods))

    async def Get(self, stream: Any) -> None:
        request = await stream.recv_message()
        self._limit.take_or_refuse()
        for pod in self._active_pods():
            meta = pod["metadata"]
            if (meta["name"], meta["namespace"]) == (request.pod_name, request.pod_namespace):
                answer = api_pb2.GetPodResourcesResponse(pod_resources=self._describe(pod))
                await stream.send_message(answer)
                return
        text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        raise GRPCError(Status.UNKNOWN, text)

    async def GetAllocatableResources(self, stream: Any) -> None:
        await stream.recv_message()
        self._limit.take_or_refuse()
        devices = [
            row
            for resource, ids in self._devices.healthy_ids().items()
            for device_id in _shuffled(ids)
            for row in _rows(resource, device_id, self._devices.numa_of(resource, device_id))
        ]
        await stream.send_message(api_pb2.AllocatableResourcesResponse(devices=devices))

    def _describe(self, pod: Mapping[str, Any]) -> api_pb2.PodResources:
        spec, meta = pod["spec"], pod["metadata"]
        sidecars = [c for c in spec.get("initContainers", []) if c.get("restartPolicy") == "Always"]
        return api_pb2.PodResources(
            name=meta["name"],
            namespace=meta["namespace"],
            containers=[
                api_pb2.ContainerResources(
                    name=container["name"], devices=self._held(meta["uid"], container["name"])
                )
                for container in (*sidecars, *spec["containers"])
            ],
        )

    def _held(self, uid: str, container: str) -> list[api_pb2.ContainerDevices]:
        return [
            row
            for resource, ids in self._devices.held_by(uid, container).items()
            for device_id in _shuffled(ids)
            for row in _rows(
                resource, device_id, self._devices.numa_held(uid, container, resource).get(device_id, ())
            )
        ]


def _rows(resource: str, device_id: str, nodes: Iterable[int]) -> list[api_pb2.ContainerDevices]:
    """One for each NUMA node of the device."""
    bare = api_pb2.ContainerDevices(resource_name=resource, device_ids=[device_id])
    return [
        api_pb2.ContainerDevices(
            resource_name=resource,
            device_ids=[device_id],
            topology=api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=node)]),
        )
        for node in nodes
    ] or [bare]


class RateLimit:
    """A token bucket."""

    def __init__(self, per_second: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._now = now
        self._tokens = float(burst)
        self._at = now()

    def take(self) -> bool:
        now = self._now()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def take_or_refuse(self) -> None:
        if not self.take():
            raise GRPCError(Status.RESOURCE_EXHAUSTED, "rejected by rate limit")


def _shuffled(ids: Iterable[str]) -> list[str]:
    listed = list(ids)
    random.shuffle(listed)
    return listed
