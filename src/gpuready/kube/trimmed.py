"""What we keep of Nodes, Pods, DaemonSets and ConfigMaps: a few fields, with strings shared between objects.

Fields that nobody reads are skipped by the decoder without being built. Equal texts and maps are one object:
nobody may change a map that comes from here. `decode_node` and its siblings are the `decode` of a WatchCache.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any, TypeVar

import msgspec

from gpuready.kube.quantity import find_whole

KEPT_ANNOTATIONS = ("nvidia.com/", "gpuready.dev/", "nfd.node.kubernetes.io/")


class OwnerReference(msgspec.Struct, gc=False, rename="camel"):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()

    def __post_init__(self) -> None:
        self.namespace = shared(self.namespace)
        self.labels = shared_map(self.labels)
        self.annotations = shared_map(
            {key: value for key, value in self.annotations.items() if key.startswith(KEPT_ANNOTATIONS)}
        )

    @property
    def deleting(self) -> bool:
        return self.deletion_timestamp is not None

    def controller_uid(self) -> str:
        """uid of the object that controls this one, "" for none."""
        return next((ref.uid for ref in self.owner_references if ref.controller), "")

    def controller_name(self) -> str:
        return next((ref.name for ref in self.owner_references if ref.controller), "")


class Condition(msgspec.Struct, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None

    def __post_init__(self) -> None:
        self.type, self.status = shared(self.type), shared(self.status)
        self.reason, self.message = shared(self.reason), shared(self.message)


# --- Node -----------------------------------------------------------------------------------------------


class Taint(msgspec.Struct, gc=False, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(msgspec.Struct, gc=False, rename="camel"):
    unschedulable: bool = False
    taints: list[Taint] = []


class NodeInfo(msgspec.Struct, gc=False, rename="camel"):
    boot_id: str = msgspec.field(name="bootID", default="")
    architecture: str = ""
    operating_system: str = ""
    os_image: str = ""
    kernel_version: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""

    def __post_init__(self) -> None:
        self.architecture, self.operating_system = shared(self.architecture), shared(self.operating_system)
        self.os_image, self.kernel_version = shared(self.os_image), shared(self.kernel_version)
        self.kubelet_version = shared(self.kubelet_version)
        self.container_runtime_version = shared(self.container_runtime_version)


class NodeAddress(msgspec.Struct, gc=False):
    type: str = ""
    address: str = ""


class NodeStatus(msgspec.Struct, gc=False, rename="camel"):
    conditions: list[Condition] = []
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    addresses: list[NodeAddress] = []
    node_info: NodeInfo = msgspec.field(default_factory=NodeInfo)

    def __post_init__(self) -> None:
        self.capacity = shared_map(self.capacity)
        self.allocatable = shared_map(self.allocatable)


class Node(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    def condition(self, type_: str) -> Condition | None:
        return find_condition(self.status.conditions, type_)

    @property
    def ready(self) -> bool:
        condition = self.condition("Ready")
        return condition is not None and condition.status == "True"


# --- Pod ------------------------------------------------------------------------------------------------


class ContainerStatus(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: str = ""  # waiting, running, terminated
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    last_reason: str = ""  # of the previous run
    image: str = ""


class Pod(msgspec.Struct, gc=False):
    metadata: Metadata
    node_name: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    limits: dict[str, int] = {}
    node_selector: dict[str, str] = {}
    conditions: list[Condition] = []
    containers: list[ContainerStatus] = []
    init_containers: list[ContainerStatus] = []
    pod_ip: str = ""
    service_account: str = ""
    controller: str = ""  # name of the object that controls it

    def condition(self, type_: str) -> Condition | None:
        return find_condition(self.conditions, type_)

    @property
    def ready(self) -> bool:
        condition = self.condition("Ready")
        return condition is not None and condition.status == "True"

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


# --- DaemonSet, ConfigMap -------------------------------------------------------------------------------


class DaemonSetStatus(msgspec.Struct, gc=False, rename="camel"):
    observed_generation: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_ready: int = 0
    number_unavailable: int = 0
    number_misscheduled: int = 0


class DaemonSet(msgspec.Struct):
    metadata: Metadata
    status: DaemonSetStatus = msgspec.field(default_factory=DaemonSetStatus)


class ConfigMap(msgspec.Struct):
    metadata: Metadata
    data: dict[str, str] = {}


# --- decoding -------------------------------------------------------------------------------------------


class _WireResources(msgspec.Struct):
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}


class _WireContainer(msgspec.Struct, rename="camel"):
    resources: _WireResources = msgspec.field(default_factory=_WireResources)
    restart_policy: str = ""


class _WirePodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    service_account_name: str = ""
    node_selector: dict[str, str] = {}
    containers: list[_WireContainer] = []
    init_containers: list[_WireContainer] = []


class _WireState(msgspec.Struct, rename="camel"):
    reason: str = ""
    message: str = ""
    exit_code: int | None = None


class _WireStates(msgspec.Struct):
    waiting: _WireState | None = None
    running: _WireState | None = None
    terminated: _WireState | None = None


class _WireContainerStatus(msgspec.Struct, rename="camel"):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    state: _WireStates = msgspec.field(default_factory=_WireStates)
    last_state: _WireStates = msgspec.field(default_factory=_WireStates)


class _WirePodStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: list[Condition] = []
    container_statuses: list[_WireContainerStatus] = []
    init_container_statuses: list[_WireContainerStatus] = []


class _WirePod(msgspec.Struct):
    metadata: Metadata
    spec: _WirePodSpec = msgspec.field(default_factory=_WirePodSpec)
    status: _WirePodStatus = msgspec.field(default_factory=_WirePodStatus)


decode_node = msgspec.json.Decoder(Node).decode
decode_daemonset = msgspec.json.Decoder(DaemonSet).decode
decode_configmap = msgspec.json.Decoder(ConfigMap).decode
_decode_pod = msgspec.json.Decoder(_WirePod).decode


def decode_pod(raw: bytes) -> Pod:
    wire = _decode_pod(raw)
    return Pod(
        metadata=wire.metadata,
        node_name=shared(wire.spec.node_name),
        phase=shared(wire.status.phase),
        reason=shared(wire.status.reason),
        message=wire.status.message,
        limits=_extended_limits(wire.spec),
        node_selector=shared_map(wire.spec.node_selector),
        conditions=wire.status.conditions,
        containers=[_container_status(each) for each in wire.status.container_statuses],
        init_containers=[_container_status(each) for each in wire.status.init_container_statuses],
        pod_ip=wire.status.pod_ip,
        service_account=shared(wire.spec.service_account_name),
        controller=shared(wire.metadata.controller_name()),
    )


def find_condition(conditions: list[Condition], type_: str) -> Condition | None:
    for each in conditions:  # asked for every node and pod at every pass: no generator
        if each.type == type_:
            return each
    return None


def _extended_limits(spec: _WirePodSpec) -> dict[str, int]:
    """As the scheduler counts: containers and sidecars add up, an init container needs its own at most."""
    total: dict[str, int] = {}
    for container in (*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always")):
        for name, count in _extended(container).items():
            total[name] = total.get(name, 0) + count
    for container in spec.init_containers:
        for name, count in _extended(container).items():
            total[name] = max(total.get(name, 0), count)
    return total


def _extended(container: _WireContainer) -> dict[str, int]:
    limits = container.resources.limits or container.resources.requests
    counts = {name: find_whole(value) for name, value in limits.items() if "/" in name}
    return {shared(name): count for name, count in counts.items() if count is not None}


def _container_status(wire: _WireContainerStatus) -> ContainerStatus:
    name = next((s for s in ("waiting", "running", "terminated") if getattr(wire.state, s) is not None), "")
    now: _WireState = getattr(wire.state, name) if name else _WireState()
    last = wire.last_state.terminated or _WireState()
    return ContainerStatus(
        name=shared(wire.name),
        ready=wire.ready,
        restart_count=wire.restart_count,
        state=name,
        reason=shared(now.reason),
        message=now.message,
        exit_code=now.exit_code,
        last_reason=shared(last.reason),
        image=shared(wire.image),
    )


# --- sharing strings ------------------------------------------------------------------------------------

_POOL_LIMIT = 50_000
_pool: dict[Hashable, Any] = {}
H = TypeVar("H", bound=Hashable)


def find_shared(value: H) -> H | None:
    """The object that all share for this value, None for one that nobody has shared yet."""
    return _pool.get(value)


def shared(value: H) -> H:
    """The same text or frozen value as one object for all; forgetting the pool only costs memory.

    Two values that are equal must be of one type: 1 and True would be confused.
    """
    known: H | None = _pool.get(value)
    if known is not None:
        return known
    if len(_pool) >= _POOL_LIMIT:
        _pool.clear()
    _pool[value] = value
    return value


_MAPS_LIMIT = 200  # 2 KB each: a node whose labels change all the time would keep all that they ever were
_maps: dict[int, dict[str, str]] = {}
_NOTHING: dict[str, str] = {}


def shared_map(values: dict[str, str]) -> dict[str, str]:
    """The same pairs as one map for all that have them; maps that differ share their texts at least."""
    if not values:
        return _NOTHING
    mark = hash(tuple(values.items()))
    known = _maps.get(mark)
    if known is not None and known == values:
        return known
    if len(_maps) >= _MAPS_LIMIT:
        _maps.clear()
    made = _maps[mark] = {sys.intern(key): shared(value) for key, value in values.items()}
    return made
