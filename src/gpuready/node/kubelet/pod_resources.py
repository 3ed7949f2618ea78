"""Which pod holds which device, as the kubelet tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError

from gpuready.errors import GPUReadyError
from gpuready.node.kubelet.sockets import Directory
from gpuready.protos.podresources.v1 import api_grpc, api_pb2

_DEADLINE_S = 5.0


class PodResourcesUnavailable(GPUReadyError):
    """The kubelet does not answer now; ask again later."""


@dataclass(frozen=True, order=True)
class Holder:
    """One container that holds devices."""

    namespace: str
    pod: str
    container: str


class PodResources:
    """A client that connects when asked and again after a kubelet restart; ask from one place only.

    The kubelet answers about 100 questions a second and refuses the rest.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def list(self) -> Mapping[Holder, Mapping[str, tuple[str, ...]]]:
        """Device ids by resource of every container that holds some.

        raises  PodResourcesUnavailable
        """
        answer = await self._ask()
        held: dict[Holder, dict[str, tuple[str, ...]]] = {}
        for pod in answer.pod_resources:
            for container in pod.containers:
                ids = ids_of(container)
                if ids:
                    held[Holder(pod.namespace, pod.name, container.name)] = ids
        return held

    async def _ask(self) -> api_pb2.ListPodResourcesResponse:
        try:
            with Directory(self._socket.parent) as directory:
                channel = Channel(path=directory.short(self._socket.name))
                try:
                    stub = api_grpc.PodResourcesListerStub(channel)
                    return await stub.List(api_pb2.ListPodResourcesRequest(), timeout=_DEADLINE_S)
                finally:
                    channel.close()
        except GRPCError as exc:
            busy = exc.status is Status.RESOURCE_EXHAUSTED
            why = "it limits how often it may be asked" if busy else exc.message or exc.status.name
            raise PodResourcesUnavailable("the kubelet refused to list pod resources", why=why) from exc
        except (OSError, StreamTerminatedError, TimeoutError) as exc:
            raise PodResourcesUnavailable("the kubelet does not list pod resources", why=str(exc)) from exc


def ids_of(container: api_pb2.ContainerResources) -> dict[str, tuple[str, ...]]:
    """The kubelet lists a device once for each of its NUMA nodes: gather by name, each id once."""
    ids: dict[str, list[str]] = {}
    for devices in container.devices:
        ids.setdefault(devices.resource_name, []).extend(devices.device_ids)
    return {resource: tuple(sorted(set(found))) for resource, found in ids.items()}
