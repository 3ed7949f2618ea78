"""Which pod holds which device, as the kubelet tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import CDLL
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from gpuready.errors import GPUReadyError
from gpuready.node.kubelet.calls import alone
from gpuready.node.kubelet.sockets import Directory
from gpuready.protos.podresources.v1 import api_grpc, api_pb2

_DEADLINE_S = 5.0
_LARGE = 2**20  # bytes of an answer after which the memory that it took is given back

Wanted = Callable[[str, str], bool]  # resource, id of a device


class PodResourcesUnavailable(GPUReadyError):
    """The kubelet does not answer now; ask again later."""


@dataclass(frozen=True, order=True)
class Holder:
    """One container that holds devices."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, order=True)
class Claim:
    """One device of a ResourceClaim, as its driver calls it."""

    driver: str
    pool: str
    device: str
    name: str = ""
    namespace: str = ""


@dataclass(frozen=True)
class Held:
    """What one container holds: ids by resource from device plugins, and devices of claims."""

    holder: Holder
    devices: Mapping[str, tuple[str, ...]]
    claims: tuple[Claim, ...] = ()


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
        connection = Connection(self._socket)
        try:
            held = await connection.list()
        finally:
            connection.close()
        return {each.holder: each.devices for each in held if each.devices}


class Connection:
    """Connects at the first question, stays connected, and connects anew after a question that failed.

    wanted  which devices of plugins are worth to be kept; claims all are
    """

    def __init__(
        self, socket: Path, *, wanted: Wanted = lambda resource, id_: True, deadline_s: float = _DEADLINE_S
    ) -> None:
        self._socket = socket
        self._wanted = wanted
        self._deadline_s = deadline_s
        self._directory: Directory | None = None
        self._channel: Channel | None = None

    async def list(self) -> list[Held]:
        """Every container that holds a device, in the order of namespace, pod and container.

        raises  PodResourcesUnavailable
        """
        answer = await self._ask()
        held = (
            Held(
                Holder(pod.namespace, pod.name, container.name),
                ids_of(container, self._wanted),
                claims_of(container),
            )
            for pod in answer.pod_resources
            for container in pod.containers
            if container.devices or container.dynamic_resources
        )
        kept = sorted((each for each in held if each.devices or each.claims), key=lambda each: each.holder)
        if answer.ByteSize() > _LARGE:
            del held, answer
            _give_back_memory()
        return kept

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._directory is not None:
            self._directory.close()
        self._channel = self._directory = None

    async def _ask(self) -> api_pb2.ListPodResourcesResponse:
        try:
            stub = api_grpc.PodResourcesListerStub(self._connected())
            return await alone(stub.List(api_pb2.ListPodResourcesRequest(), timeout=self._deadline_s))
        except GRPCError as exc:
            busy = exc.status is Status.RESOURCE_EXHAUSTED
            why = "it limits how often it may be asked" if busy else exc.message or exc.status.name
            raise PodResourcesUnavailable("the kubelet refused to list pod resources", why=why) from exc
        except TimeoutError as exc:
            self.close()
            why = f"no answer within {self._deadline_s:g} s"
            raise PodResourcesUnavailable("the kubelet does not list pod resources", why=why) from exc
        except (OSError, StreamTerminatedError, ProtocolError, DecodeError) as exc:
            self.close()
            why = getattr(exc, "strerror", None) or str(exc)
            raise PodResourcesUnavailable("the kubelet does not list pod resources", why=why) from exc

    def _connected(self) -> Channel:
        if self._channel is None:
            self._directory = Directory(self._socket.parent)
            self._channel = Channel(path=self._directory.short(self._socket.name))
        return self._channel


def ids_of(
    container: api_pb2.ContainerResources, wanted: Wanted = lambda resource, id_: True
) -> dict[str, tuple[str, ...]]:
    """The kubelet lists a device once for each of its NUMA nodes: gather by name, each id once."""
    ids: dict[str, list[str]] = {}
    for devices in container.devices:
        resource = devices.resource_name
        if found := [each for each in devices.device_ids if wanted(resource, each)]:
            ids.setdefault(resource, []).extend(found)
    return {resource: tuple(sorted(set(found))) for resource, found in ids.items()}


def _give_back_memory() -> None:
    """The C library keeps what was freed for itself; another one than glibc is left alone."""
    try:
        CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        pass


def claims_of(container: api_pb2.ContainerResources) -> tuple[Claim, ...]:
    """By pool and device: the CDI names of a claim's devices accumulate (container_manager_linux.go:1071)."""
    return tuple(
        sorted(
            Claim(each.driver_name, each.pool_name, each.device_name, row.claim_name, row.claim_namespace)
            for row in container.dynamic_resources
            for each in row.claim_resources
        )
    )
