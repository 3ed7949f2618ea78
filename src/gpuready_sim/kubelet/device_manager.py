"""The kubelet's device manager: plugins register, list devices, and are asked when a pod is admitted.

`allocation.py` decides which ids; this module talks. Errors carry the real kubelet's texts.

Source: kubernetes v1.36, pkg/kubelet/cm/devicemanager (manager.go, plugin/v1beta1/{server,handler}.go).
"""

from __future__ import annotations

import asyncio
import logging
import random
import stat
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from gpuready_sim.kubelet import allocation, checkpoint
from gpuready_sim.kubelet.allocation import Demand, Refused
from gpuready_sim.kubelet.checkpoint import NO_NUMA, Entry
from gpuready_sim.kubelet.identity import Timing
from gpuready_sim.kubelet.plugin_client import Devices, PluginClient, PluginError
from gpuready_sim.kubelet.protos.deviceplugin.v1beta1 import api_grpc, api_pb2
from gpuready_sim.kubelet.quantities import is_extended_resource_name, limits_of
from gpuready_sim.kubelet.sockets import Directory, UnixServer

log = logging.getLogger(__name__)

API_VERSION = "v1beta1"
SOCKET = "kubelet.sock"
HEALTHY = "Healthy"


@dataclass
class _Pool:
    """What one resource's plugin last listed; `stopped_at` once its stream was lost."""

    healthy: set[str] = field(default_factory=set)
    unhealthy: set[str] = field(default_factory=set)
    numa: dict[str, tuple[int, ...]] = field(default_factory=dict)
    stopped_at: float | None = None
    expiry: asyncio.TimerHandle | None = None


@dataclass(frozen=True)
class RunOptions:
    """What the plugins want in one container, conflicts resolved."""

    envs: Mapping[str, str]
    mounts: tuple[api_pb2.Mount, ...]
    devices: tuple[api_pb2.DeviceSpec, ...]
    annotations: Mapping[str, str]
    cdi_devices: tuple[str, ...]


class DeviceManager:
    """Resources of device plugins on one node.

    directory    the node's var/lib/kubelet/device-plugins
    active_pods  uids whose containers still hold devices
    is_running   (pod uid, container): admitted before a kubelet restart and running on
    on_change    called when capacity or allocatable may have changed
    """

    def __init__(
        self,
        directory: Path,
        *,
        timing: Timing | None = None,
        active_pods: Callable[[], Set[str]] = frozenset,
        is_running: Callable[[str, str], bool] = lambda uid, container: False,
        on_change: Callable[[], None] = lambda: None,
        order: allocation.Order | None = None,
    ) -> None:
        self._path = directory
        self._timing = timing or Timing()
        self._active_pods = active_pods
        self._is_running = is_running
        self._on_change = on_change
        self._order = order or _random_order
        self._pools: dict[str, _Pool] = {}
        self._removed: set[str] = set()
        self._clients: dict[str, PluginClient] = {}  # whose end counts as the end of the name's plugin
        self._endpoints: dict[str, PluginClient] = {}  # who is asked
        self._entries: dict[tuple[str, str, str], Entry] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._admission = asyncio.Lock()
        self._server: UnixServer | None = None
        self._directory: Directory | None = None
        self.registrations: dict[str, int] = {}  # kubelet_device_plugin_registration_total

    # --- life -------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """As the kubelet starts: remembered devices, other sockets swept away, kubelet.sock served."""
        self._recall()
        self._path.mkdir(parents=True, exist_ok=True, mode=0o750)
        _remove_sockets(self._path)
        self._directory = Directory(self._path)
        self._server = UnixServer([_Registration(self)], self._directory, SOCKET)
        await self._server.start()

    async def stop(self) -> None:
        """As the kubelet ends: its connections break, its socket file and checkpoint stay."""
        if self._server is None or self._directory is None:
            return
        await self._server.close()
        for task in self._tasks:  # first: a process that ends does not notice that its streams do
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._endpoints.values():
            client.close()
        for pool in self._pools.values():
            if pool.expiry:
                pool.expiry.cancel()
        self._clients, self._endpoints, self._pools, self._entries = {}, {}, {}, {}
        self._directory.close()
        self._server = self._directory = None

    def _recall(self) -> None:
        """Remembered resources have no devices until their plugin comes back."""
        entries, resources = checkpoint.read(self._path)
        self._entries = {(e.pod_uid, e.container, e.resource): e for e in entries}
        for resource in {*resources, *(entry.resource for entry in entries)}:
            self._pools[resource] = _Pool(stopped_at=asyncio.get_running_loop().time())
            self._schedule_expiry(resource)

    # --- registration -----------------------------------------------------------------------------------
    async def register(self, request: api_pb2.RegisterRequest) -> None:
        """Connect back to the plugin and follow its list; raises GRPCError with the kubelet's words."""
        resource = request.resource_name
        self.registrations[resource] = self.registrations.get(resource, 0) + 1
        if request.version != API_VERSION:
            raise GRPCError(
                Status.UNKNOWN,
                f'requested API version "{request.version}" is not supported by kubelet. '
                f'Supported version is ["{API_VERSION}"]',
            )
        if not is_extended_resource_name(resource):
            raise GRPCError(Status.UNKNOWN, f'the ResourceName "{resource}" is invalid')
        assert self._directory is not None
        try:
            client = await PluginClient.connect(
                resource, self._directory, request.endpoint, self._timing.dial_timeout_s
            )
        except PluginError as exc:
            log.info("cannot connect to device plugin: resource=%s error=%s", resource, exc)
            # The kubelet forgets the name, also when a plugin of that name works: its end goes unnoticed.
            self._clients.pop(resource, None)
            raise GRPCError(Status.UNKNOWN, str(exc)) from exc
        self._clients[resource] = self._endpoints[resource] = client
        self._start(self._follow(client))

    async def _follow(self, client: PluginClient) -> None:
        why = await client.follow(lambda devices: self._take(client, devices))
        log.info("listAndWatch ended: resource=%s why=%s", client.resource, why)
        # The kubelet disconnects whichever client has the name now, even one that registered meanwhile.
        current = self._clients.pop(client.resource, None)
        client.close()
        if current is not None:
            current.close()
            self._disconnected(current.resource)

    def _take(self, client: PluginClient, devices: Devices) -> None:
        # Also from a client that was registered over: the kubelet goes by the name alone.
        pool = self._pools.get(client.resource)
        if pool and pool.expiry:
            pool.expiry.cancel()
        self._pools[client.resource] = _Pool(
            healthy={device.ID for device in devices if device.health == HEALTHY},
            unhealthy={device.ID for device in devices if device.health != HEALTHY},
            numa={d.ID: tuple(node.ID for node in d.topology.nodes) for d in devices if d.topology.nodes},
        )
        self._removed.discard(client.resource)
        self._write_checkpoint()
        self._on_change()

    def _disconnected(self, resource: str) -> None:
        pool = self._pools.setdefault(resource, _Pool())
        pool.unhealthy |= pool.healthy
        pool.healthy = set()
        pool.stopped_at = asyncio.get_running_loop().time()
        self._schedule_expiry(resource)
        self._write_checkpoint()
        self._on_change()

    def _schedule_expiry(self, resource: str) -> None:
        pool = self._pools[resource]
        if pool.expiry:
            pool.expiry.cancel()
        loop = asyncio.get_running_loop()
        pool.expiry = loop.call_later(self._timing.plugin_grace_s, self._expire, resource)

    def _expire(self, resource: str) -> None:
        """The plugin stayed away: the name is forgotten, the Node says 0."""
        self._pools.pop(resource, None)
        self._endpoints.pop(resource, None)
        self._removed.add(resource)
        self._write_checkpoint()
        self._on_change()

    # --- what the node has ------------------------------------------------------------------------------
    def capacity(self) -> dict[str, int]:
        """Devices by resource, healthy or not; 0 for those whose plugin is gone for good."""
        present = {name: len(pool.healthy) + len(pool.unhealthy) for name, pool in self._pools.items()}
        return dict.fromkeys(self._removed, 0) | present

    def allocatable(self) -> dict[str, int]:
        present = {name: len(pool.healthy) for name, pool in self._pools.items()}
        return dict.fromkeys(self._removed, 0) | present

    def healthy_ids(self) -> dict[str, set[str]]:
        return {name: set(pool.healthy) for name, pool in self._pools.items()}

    def numa_of(self, resource: str, device_id: str) -> tuple[int, ...]:
        pool = self._pools.get(resource)
        return pool.numa.get(device_id, ()) if pool else ()

    def numa_held(self, pod_uid: str, container: str, resource: str) -> Mapping[str, tuple[int, ...]]:
        """NUMA nodes of a container's devices, by id, as they were when it got them."""
        entry = self._entries.get((pod_uid, container, resource))
        return entry.numa if entry else {}

    def is_healthy(self, resource: str, device_id: str) -> bool | None:
        """None when no plugin lists the device."""
        pool = self._pools.get(resource)
        if pool is None or device_id not in pool.healthy | pool.unhealthy:
            return None
        return device_id in pool.healthy

    def held_by(self, pod_uid: str, container: str) -> dict[str, tuple[str, ...]]:
        """Ids by resource that a container holds."""
        return {
            entry.resource: entry.device_ids
            for entry in self._entries.values()
            if (entry.pod_uid, entry.container) == (pod_uid, container)
        }

    def in_use(self) -> dict[str, int]:
        """Devices held by containers, by resource."""
        held: dict[str, set[str]] = {}
        for entry in self._entries.values():
            held.setdefault(entry.resource, set()).update(entry.device_ids)
        return {resource: len(ids) for resource, ids in held.items()}

    # --- admission --------------------------------------------------------------------------------------
    async def admit(self, pod: Mapping[str, Any]) -> None:
        """Allocate for every container of a pod, init containers first.

        raises Refused with the text that follows "Allocate failed due to"
        """
        async with self._admission:
            self._release_inactive(pod["metadata"]["uid"])
            reusable: dict[str, set[str]] = {}
            try:
                for container in pod["spec"].get("initContainers", []):
                    await self._allocate_container(pod, container, reusable)
                    keep = container.get("restartPolicy") == "Always"
                    self._note_reusable(pod, container, reusable, keep=keep)
                for container in pod["spec"]["containers"]:
                    await self._allocate_container(pod, container, reusable)
                    self._note_reusable(pod, container, reusable, keep=True)
            finally:
                self._write_checkpoint()

    async def _allocate_container(
        self, pod: Mapping[str, Any], container: Mapping[str, Any], reusable: Mapping[str, set[str]]
    ) -> None:
        uid, name = pod["metadata"]["uid"], container["name"]
        for resource, required in limits_of(container).items():
            if resource not in self._pools or required == 0:
                continue
            demand = self._demand(uid, name, resource, required, reusable.get(resource, set()))
            if allocation.is_nothing_to_do(demand):
                continue
            try:
                await self._allocate(demand)
            except PluginError as exc:
                raise Refused(str(exc)) from exc

    async def _allocate(self, demand: Demand) -> None:
        client = self._endpoints.get(demand.resource)
        if client is None:
            raise Refused(f"unknown Device Plugin {demand.resource}")
        ids = allocation.reused(demand, self._order)
        if len(ids) < demand.required:
            free = allocation.available(demand, ids)
            offered = self._order({*free, *ids})
            preferred = await client.prefer(offered, self._order(ids), demand.required)
            ids = allocation.complete(demand, ids, free, preferred, self._order)
        response = await client.allocate(self._order(ids))
        pool = self._pools.get(demand.resource, _Pool())
        numa = {one: nodes for one in ids if (nodes := pool.numa.get(one, NO_NUMA)) != NO_NUMA}
        key = (demand.pod_uid, demand.container, demand.resource)
        self._entries[key] = Entry(*key, tuple(ids), response.SerializeToString(), numa)

    def _demand(self, uid: str, container: str, resource: str, required: int, reusable: set[str]) -> Demand:
        pool = self._pools.get(resource)
        entry = self._entries.get((uid, container, resource))
        used = {i for e in self._entries.values() if e.resource == resource for i in e.device_ids}
        return Demand(
            resource=resource,
            required=required,
            healthy=None if pool is None else frozenset(pool.healthy),
            pod_uid=uid,
            container=container,
            in_use=frozenset(used),
            held=frozenset(entry.device_ids if entry else ()),
            reusable=frozenset(reusable),
            running=self._is_running(uid, container),
        )

    def _note_reusable(
        self,
        pod: Mapping[str, Any],
        container: Mapping[str, Any],
        reusable: dict[str, set[str]],
        *,
        keep: bool,
    ) -> None:
        """Devices of an init container may serve a later container; one that keeps them takes them out."""
        for resource, ids in self.held_by(pod["metadata"]["uid"], container["name"]).items():
            pool = reusable.setdefault(resource, set())
            if keep:
                pool.difference_update(ids)
            else:
                pool.update(ids)

    def _release_inactive(self, admitting: str) -> None:
        active = {*self._active_pods(), admitting}
        self._entries = {key: entry for key, entry in self._entries.items() if entry.pod_uid in active}

    # --- containers -------------------------------------------------------------------------------------
    async def pre_start(self, pod_uid: str, container: str) -> None:
        """PreStartContainer where the plugin asked for it; raises PluginError."""
        for resource, ids in self.held_by(pod_uid, container).items():
            client = self._endpoints.get(resource)
            if client is not None:
                await client.pre_start(self._order(ids))

    def run_options(self, pod_uid: str, container: str) -> RunOptions:
        """The cached answers of the plugins; for the same key, path or name the first resource wins."""
        envs: dict[str, str] = {}
        annotations: dict[str, str] = {}
        mounts: dict[str, api_pb2.Mount] = {}
        devices: dict[str, api_pb2.DeviceSpec] = {}
        cdi: dict[str, None] = {}
        for entry in self._entries.values():
            if (entry.pod_uid, entry.container) != (pod_uid, container):
                continue
            answer = api_pb2.ContainerAllocateResponse.FromString(entry.response)
            envs = {**answer.envs, **envs}
            annotations = {**answer.annotations, **annotations}
            mounts = {mount.container_path: mount for mount in answer.mounts} | mounts
            devices = {device.container_path: device for device in answer.devices} | devices
            cdi |= dict.fromkeys(device.name for device in answer.cdi_devices)
        return RunOptions(envs, tuple(mounts.values()), tuple(devices.values()), annotations, tuple(cdi))

    # --- the rest ---------------------------------------------------------------------------------------
    def _write_checkpoint(self) -> None:
        checkpoint.write(self._path, self._entries.values(), self.healthy_ids())

    def _start(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Registration(api_grpc.RegistrationBase):
    def __init__(self, manager: DeviceManager) -> None:
        self._manager = manager

    async def Register(self, stream: Any) -> None:
        request = await stream.recv_message()
        await self._manager.register(request)
        await stream.send_message(api_pb2.Empty())


def _random_order(ids: Iterable[str]) -> list[str]:
    """The kubelet's sets have no order; plugins that rely on one must fail here too."""
    shuffled = list(ids)
    random.shuffle(shuffled)
    return shuffled


def _remove_sockets(directory: Path) -> None:
    for path in directory.iterdir():
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
