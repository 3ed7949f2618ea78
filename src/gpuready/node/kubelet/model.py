"""What an operand says to the kubelet, without gRPC."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


@dataclass(frozen=True)
class Device:
    """One schedulable device; `numa_node` None means no affinity."""

    id: str
    healthy: bool = True
    numa_node: int | None = None


@dataclass(frozen=True)
class Mount:
    container_path: str
    host_path: str
    read_only: bool = False


@dataclass(frozen=True)
class DeviceNode:
    container_path: str
    host_path: str
    permissions: str = "rw"


@dataclass(frozen=True)
class ContainerAnswer:
    """What one container gets for its devices."""

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Offer:
    """One resource as offered now; a new value replaces the old one while the plugin keeps running.

    devices   all of them, in a stable order
    allocate  (device ids) -> answer; raises AllocationError with a text for the pod's user
    prefer    (available, must include, size) -> ids, [] for no preference; None when there is none to give
    """

    devices: tuple[Device, ...]
    allocate: Callable[[Sequence[str]], ContainerAnswer]
    prefer: Callable[[Sequence[str], Sequence[str], int], list[str]] | None = None
