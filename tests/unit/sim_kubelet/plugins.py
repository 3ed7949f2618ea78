"""A small device plugin for tests, on grpclib; it works against any kubelet's plugin directory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from gpuready_sim.kubelet.protos.deviceplugin.v1beta1 import api_grpc, api_pb2
from gpuready_sim.kubelet.sockets import Directory, UnixServer


class Plugin(api_grpc.DevicePluginBase):
    """Lists `devices` (id -> health) and answers Allocate with an env that names the ids."""

    def __init__(
        self,
        directory: Path,
        resource: str = "nvidia.com/gpu",
        devices: Iterable[str] = ("gpu-0", "gpu-1"),
        *,
        endpoint: str = "plugin.sock",
        prefer: Iterable[str] | None = None,
        answer: api_pb2.ContainerAllocateResponse | None = None,
        refuse_with: str = "",
        pre_start: bool = False,
        prefer_fails_with: str = "",
        answers: int = 1,
        numa: Mapping[str, tuple[int, ...]] | None = None,
        repeat: int = 1,
        options_fail_with: str = "",
        list_fails_with: str = "",
        pre_start_fails_with: str = "",
        dies_in_allocate: bool = False,
    ) -> None:
        self.resource = resource
        self.endpoint = endpoint
        self.devices = dict.fromkeys(devices, "Healthy")
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self._prefer = prefer
        self._answer = answer
        self._refuse_with = refuse_with
        self._pre_start = pre_start
        self._prefer_fails_with = prefer_fails_with
        self._answers = answers
        self._numa = numa or {}
        self._repeat = repeat
        self._options_fail_with = options_fail_with
        self._list_fails_with = list_fails_with
        self._pre_start_fails_with = pre_start_fails_with
        self._dies_in_allocate = dies_in_allocate
        self._directory = Directory(directory)
        self._server: UnixServer | None = None
        self._changed = asyncio.Condition()
        self._ending = False

    async def serve(self) -> None:
        self._ending = False
        self._server = UnixServer([self], self._directory, self.endpoint)
        await self._server.start()

    async def register(self, version: str = "v1beta1") -> None:
        channel = Channel(path=self._directory.short("kubelet.sock"))
        try:
            await api_grpc.RegistrationStub(channel).Register(
                api_pb2.RegisterRequest(version=version, endpoint=self.endpoint, resource_name=self.resource)
            )
        finally:
            channel.close()

    async def start(self) -> None:
        await self.serve()
        await self.register()

    async def say(self, **health: str) -> None:
        """Change the health of devices: say(gpu_1="Unhealthy")."""
        async with self._changed:
            self.devices |= {name.replace("_", "-"): value for name, value in health.items()}
            self._changed.notify_all()

    async def end_streams(self) -> None:
        """Let ListAndWatch return, as a polite plugin does."""
        async with self._changed:
            self._ending = True
            self._changed.notify_all()

    async def stop(self) -> None:
        if self._server:
            await self._server.close()
            self._server = None

    async def GetDevicePluginOptions(self, stream: Any) -> None:
        await stream.recv_message()
        _fail_with(self._options_fail_with)
        options = api_pb2.DevicePluginOptions(
            pre_start_required=self._pre_start,
            get_preferred_allocation_available=self._prefer is not None,
        )
        await stream.send_message(options)

    async def ListAndWatch(self, stream: Any) -> None:
        await stream.recv_message()
        _fail_with(self._list_fails_with)
        async with self._changed:
            while not self._ending:
                devices = [self._device(*device) for device in self.devices.items()] * self._repeat
                await stream.send_message(api_pb2.ListAndWatchResponse(devices=devices))
                await self._changed.wait()

    def _device(self, device_id: str, health: str) -> api_pb2.Device:
        nodes = [api_pb2.NUMANode(ID=node) for node in self._numa.get(device_id, ())]
        topology = api_pb2.TopologyInfo(nodes=nodes) if nodes else None
        return api_pb2.Device(ID=device_id, health=health, topology=topology)

    async def GetPreferredAllocation(self, stream: Any) -> None:
        request = (await stream.recv_message()).container_requests[0]
        self.calls.append(("prefer", tuple(sorted(request.available_deviceIDs))))
        _fail_with(self._prefer_fails_with)
        answer = api_pb2.ContainerPreferredAllocationResponse(deviceIDs=self._prefer or [])
        await stream.send_message(api_pb2.PreferredAllocationResponse(container_responses=[answer]))

    async def Allocate(self, stream: Any) -> None:
        request = await stream.recv_message()
        ids = tuple(sorted(request.container_requests[0].devices_ids))
        assert len(request.container_requests) == 1
        self.calls.append(("allocate", ids))
        if self._dies_in_allocate:
            await self.stop()
        _fail_with(self._refuse_with)
        answer = self._answer or api_pb2.ContainerAllocateResponse(envs={"IDS": ",".join(ids)})
        await stream.send_message(api_pb2.AllocateResponse(container_responses=[answer] * self._answers))

    async def PreStartContainer(self, stream: Any) -> None:
        request = await stream.recv_message()
        self.calls.append(("pre-start", tuple(sorted(request.devices_ids))))
        _fail_with(self._pre_start_fails_with)
        await stream.send_message(api_pb2.PreStartContainerResponse())


def _fail_with(text: str) -> None:
    if text:
        raise GRPCError(Status.UNKNOWN, text)
