"""Which resources a node offers, with which devices.

Pure: GPUs and the effective configuration in, resources out, in an order that never changes by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuready import names
from gpuready.gpu.sharing import expand
from gpuready.node.kubelet.model import Device
from gpuready.operands.device_plugin.allocation import Target
from gpuready.operands.device_plugin.config import Effective


@dataclass(frozen=True)
class Card:
    """A physical GPU as the plugin knows it, also while it does not answer."""

    uuid: str
    index: int
    minor: int
    product: str
    memory_mib: int
    pci_address: str = ""
    numa_node: int | None = None
    mig_enabled: bool = False


@dataclass(frozen=True)
class Resource:
    """One extended resource.

    devices   as told to the kubelet
    targets   advertised id -> the GPU behind it
    replicas  shares per GPU; 1 = exclusive
    """

    name: str
    devices: tuple[Device, ...]
    targets: Mapping[str, Target]
    replicas: int

    @property
    def is_shared(self) -> bool:
        return self.replicas > 1


def resources_of(cards: Sequence[Card], healthy: Mapping[str, bool], config: Effective) -> list[Resource]:
    """Every resource with at least one device; all replicas of a GPU have its health.

    Source: k8s-device-plugin v0.19.3, internal/rm/device_map.go, api/config/v1/replicas.go.
    """
    ordered = sorted(cards, key=lambda card: (card.index, card.uuid))
    if not ordered:
        return []
    devices: list[Device] = []
    targets: dict[str, Target] = {}
    for card in ordered:
        for device_id in _ids_of(card, config.replicas):
            devices.append(Device(device_id, healthy.get(card.uuid, True), card.numa_node))
            targets[device_id] = Target(card.uuid, card.index, card.minor)
    return [Resource(resource_name(config), tuple(devices), targets, config.replicas)]


def resource_name(config: Effective) -> str:
    suffix = names.SHARED_SUFFIX if config.replicas > 1 and config.rename_by_default else ""
    return names.GPU_RESOURCE + suffix


def _ids_of(card: Card, replicas: int) -> list[str]:
    return expand([card.uuid], replicas) if replicas > 1 else [card.uuid]
