"""One device plugin as the kubelet calls it: a connection to its socket and the answers it gives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError

from gpuready_sim.kubelet.protos.deviceplugin.v1beta1 import api_grpc, api_pb2
from gpuready_sim.kubelet.sockets import Directory, dial

Devices = Sequence[api_pb2.Device]
PRE_START_TIMEOUT_S = 30


class PluginError(Exception):
    """The plugin cannot be reached or answered with an error; the text is as grpc-go prints it."""


class PluginClient:
    """A registered plugin; `stopped` is set once its ListAndWatch stream is over."""

    def __init__(self, resource: str, channel: Channel, endpoint: str) -> None:
        self.resource = resource
        self.endpoint = endpoint
        self.options = api_pb2.DevicePluginOptions()
        self.stop_time: float | None = None
        self._channel = channel
        self._stub = api_grpc.DevicePluginStub(channel)

    @classmethod
    async def connect(
        cls, resource: str, directory: Directory, endpoint: str, timeout_s: float
    ) -> PluginClient:
        try:
            channel = await dial(directory, endpoint, timeout_s)
        except TimeoutError as exc:
            raise PluginError("failed to dial device plugin: context deadline exceeded") from exc
        client = cls(resource, channel, endpoint)
        try:
            client.options = await client._stub.GetDevicePluginOptions(api_pb2.Empty())
        except (GRPCError, StreamTerminatedError, OSError) as exc:
            client.close()
            raise PluginError(f"failed to get device plugin options: {_text_of(exc)}") from exc
        return client

    async def follow(self, take: Callable[[Devices], None]) -> str:
        """Hand every list to `take` until the stream ends; returns why it ended."""
        try:
            async with self._stub.ListAndWatch.open() as stream:
                await stream.send_message(api_pb2.Empty(), end=True)
                async for answer in stream:
                    take(answer.devices)
            return "EOF"
        except (GRPCError, StreamTerminatedError, OSError) as exc:
            return _text_of(exc)

    async def prefer(self, available: Iterable[str], must_include: Iterable[str], size: int) -> list[str]:
        """The plugin's preference; empty when it has none to give."""
        if not self.options.get_preferred_allocation_available:
            return []
        request = api_pb2.PreferredAllocationRequest(
            container_requests=[
                api_pb2.ContainerPreferredAllocationRequest(
                    available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
                )
            ]
        )
        try:
            answer = await self._stub.GetPreferredAllocation(request)
        except (GRPCError, StreamTerminatedError, OSError) as exc:
            raise PluginError(
                f"device plugin GetPreferredAllocation rpc failed with err: {_text_of(exc)}"
            ) from exc
        responses = answer.container_responses
        return list(responses[0].deviceIDs) if responses else []

    async def allocate(self, ids: Iterable[str]) -> api_pb2.ContainerAllocateResponse:
        request = api_pb2.AllocateRequest(
            container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=ids)]
        )
        try:
            answer = await self._stub.Allocate(request)
        except (GRPCError, StreamTerminatedError, OSError) as exc:
            raise PluginError(_text_of(exc)) from exc
        if not answer.container_responses:
            raise PluginError(f"no containers return in allocation response {answer}")
        return answer.container_responses[0]

    async def pre_start(self, ids: Iterable[str]) -> None:
        if not self.options.pre_start_required:
            return
        request = api_pb2.PreStartContainerRequest(devices_ids=ids)
        try:
            await self._stub.PreStartContainer(request, timeout=PRE_START_TIMEOUT_S)
        except (GRPCError, StreamTerminatedError, OSError, TimeoutError) as exc:
            raise PluginError(
                f"device plugin PreStartContainer rpc failed with err: {_text_of(exc)}"
            ) from exc

    def close(self) -> None:
        self._channel.close()


def _text_of(exc: BaseException) -> str:
    """As grpc-go prints an error: what users read in pod.status.message."""
    if isinstance(exc, GRPCError):
        return f"rpc error: code = {_go_name(exc.status)} desc = {exc.message or ''}"
    if isinstance(exc, asyncio.TimeoutError):
        return "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    return "rpc error: code = Unavailable desc = error reading from server: EOF"


def _go_name(status: Status) -> str:
    return "".join(word.capitalize() for word in status.name.split("_"))
