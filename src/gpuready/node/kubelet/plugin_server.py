"""One device plugin's gRPC server, as a kubelet needs it.

grpclib's own `Server.close()` says nothing to the peer, which then keeps a dead stream and later throws out
whoever has the resource's name; `PluginServer.close` therefore ends the streams first and waits for the
kubelet to hang up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.protocol import H2Protocol
from grpclib.server import Server, Stream

from gpuready.errors import AllocationError
from gpuready.node.kubelet.model import HEALTHY, UNHEALTHY, ContainerAnswer, Device, Offer
from gpuready.node.kubelet.sockets import Directory, identity_of
from gpuready.protos.deviceplugin.v1beta1 import api_grpc, api_pb2

API_VERSION = "v1beta1"

_HANG_UP_S = 1.0
_LONGEST_ERROR = 1000  # characters; the text goes as a header, and one too large ends the whole connection


class PluginServer:
    """Serves one resource on one socket: start() and close() once.

    on_stream  called when a kubelet began or ended to follow the list
    """

    def __init__(self, path: Path, offer: Offer, on_stream: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self._service = _Service(offer, on_stream)
        self._server = _TrackingServer([self._service])
        self._directory: Directory | None = None
        self._file: tuple[int, int, int] | None = None

    async def start(self) -> None:
        """Listen; raises OSError, with nothing left open, when path or directory do not allow it."""
        directory = Directory(self.path.parent)
        try:
            await self._listen(directory)
        except BaseException:
            directory.close()
            raise
        self._directory = directory
        self._file = identity_of(self.path)

    async def _listen(self, directory: Directory) -> None:
        listener = directory.listen(self.path.name)
        try:
            await self._server.start(sock=listener)
        except BaseException:
            listener.close()
            self.path.unlink(missing_ok=True)
            raise

    def offer(self, offer: Offer) -> None:
        """What is offered from now on; the kubelet is told when the list differs."""
        self._service.replace(offer)

    @property
    def streams(self) -> int:
        """How many kubelets follow our list: 1 when all is well."""
        return len(self._service.streams)

    def has_its_socket(self) -> bool:
        return self._file is not None and identity_of(self.path) == self._file

    async def close(self) -> None:
        """Within a second or so: the kubelet has seen our end, the socket's file is gone."""
        if self._directory is None:
            return
        if self.has_its_socket():
            self.path.unlink(missing_ok=True)
        self._server.stop_listening()
        self._service.end_streams()
        await self._server.wait_until_alone(_HANG_UP_S)
        await self._server.finish()
        self._directory.close()


class _Service(api_grpc.DevicePluginBase):
    """The answers; errors carry the text that users read in pod.status.message."""

    def __init__(self, offer: Offer, on_stream: Callable[[], None]) -> None:
        self._offer = offer
        self._on_stream = on_stream
        self._list = list_of(offer.devices)
        self._ending = False
        self.streams: set[asyncio.Event] = set()

    def replace(self, offer: Offer) -> None:
        changed = offer.devices != self._offer.devices
        self._offer = offer
        if changed:
            self._list = list_of(offer.devices)
            self._wake()

    def end_streams(self) -> None:
        self._ending = True
        self._wake()

    def _wake(self) -> None:
        for changed in self.streams:
            changed.set()

    async def GetDevicePluginOptions(
        self, stream: Stream[api_pb2.Empty, api_pb2.DevicePluginOptions]
    ) -> None:
        await stream.recv_message()
        await stream.send_message(options_of(self._offer))

    async def ListAndWatch(self, stream: Stream[api_pb2.Empty, api_pb2.ListAndWatchResponse]) -> None:
        await stream.recv_message()
        changed = asyncio.Event()
        self.streams.add(changed)
        self._on_stream()
        try:
            while not self._ending:
                changed.clear()
                await stream.send_message(self._list)
                await changed.wait()
        finally:
            self.streams.discard(changed)
            self._on_stream()

    async def Allocate(self, stream: Stream[api_pb2.AllocateRequest, api_pb2.AllocateResponse]) -> None:
        request = await stream.recv_message()
        assert request is not None
        try:
            answers = [self._offer.allocate(list(one.devices_ids)) for one in request.container_requests]
        except AllocationError as exc:
            raise GRPCError(Status.UNKNOWN, _shortened(str(exc))) from exc
        await stream.send_message(
            api_pb2.AllocateResponse(container_responses=[_message_of(answer) for answer in answers])
        )

    async def GetPreferredAllocation(
        self, stream: Stream[api_pb2.PreferredAllocationRequest, api_pb2.PreferredAllocationResponse]
    ) -> None:
        request = await stream.recv_message()
        assert request is not None
        answers = [
            api_pb2.ContainerPreferredAllocationResponse(deviceIDs=self._preferred(one))
            for one in request.container_requests
        ]
        await stream.send_message(api_pb2.PreferredAllocationResponse(container_responses=answers))

    def _preferred(self, one: api_pb2.ContainerPreferredAllocationRequest) -> list[str]:
        if self._offer.prefer is None:
            return []
        must = list(one.must_include_deviceIDs)
        return self._offer.prefer(list(one.available_deviceIDs), must, one.allocation_size)

    async def PreStartContainer(
        self, stream: Stream[api_pb2.PreStartContainerRequest, api_pb2.PreStartContainerResponse]
    ) -> None:
        await stream.recv_message()
        await stream.send_message(api_pb2.PreStartContainerResponse())


class _TrackingServer(Server):
    """grpclib's server, knowing its connections (private names of grpclib 0.4, held by a test)."""

    def __init__(self, handlers: Collection[Any]) -> None:
        super().__init__(handlers)
        self._connections: set[H2Protocol] = set()
        self._alone = asyncio.Event()
        self._alone.set()

    def _protocol_factory(self) -> H2Protocol:
        protocol = super()._protocol_factory()
        made, lost = protocol.connection_made, protocol.connection_lost

        def connection_made(transport: asyncio.BaseTransport) -> None:
            self._connections.add(protocol)
            self._alone.clear()
            made(transport)

        def connection_lost(exc: BaseException | None) -> None:
            self._connections.discard(protocol)
            if not self._connections:
                self._alone.set()
            lost(exc)

        protocol.connection_made = connection_made  # type: ignore[method-assign]
        protocol.connection_lost = connection_lost  # type: ignore[method-assign]
        return protocol

    def stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()

    async def wait_until_alone(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._alone.wait()
        except TimeoutError:
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        """GOAWAY to those that stay, then hang up."""
        for protocol in list(self._connections):
            try:
                protocol.processor.connection._connection.close_connection()
                protocol.processor.connection.flush()
            finally:
                protocol.processor.close()

    async def finish(self) -> None:
        self.close()
        try:
            async with asyncio.timeout(_HANG_UP_S):
                await self.wait_closed()
        except TimeoutError:
            pass


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_ERROR else text[: _LONGEST_ERROR - 1] + "…"


def options_of(offer: Offer) -> api_pb2.DevicePluginOptions:
    return api_pb2.DevicePluginOptions(get_preferred_allocation_available=offer.prefer is not None)


def list_of(devices: Collection[Device]) -> api_pb2.ListAndWatchResponse:
    return api_pb2.ListAndWatchResponse(devices=[_device_of(device) for device in devices])


def _device_of(device: Device) -> api_pb2.Device:
    health = HEALTHY if device.healthy else UNHEALTHY
    if device.numa_node is None:
        return api_pb2.Device(ID=device.id, health=health)
    topology = api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=device.numa_node)])
    return api_pb2.Device(ID=device.id, health=health, topology=topology)


def _message_of(answer: ContainerAnswer) -> api_pb2.ContainerAllocateResponse:
    return api_pb2.ContainerAllocateResponse(
        envs=answer.envs,
        mounts=[
            api_pb2.Mount(container_path=m.container_path, host_path=m.host_path, read_only=m.read_only)
            for m in answer.mounts
        ],
        devices=[
            api_pb2.DeviceSpec(
                container_path=d.container_path, host_path=d.host_path, permissions=d.permissions
            )
            for d in answer.devices
        ],
        annotations=answer.annotations,
        cdi_devices=[api_pb2.CDIDevice(name=name) for name in answer.cdi_devices],
    )
