"""The node's GPUs as the plugin knows them: which were ever seen in this boot, and how each is.

Pure: each fact of the feed makes a new `Fleet`. A GPU that no longer answers stays in it, unhealthy, so that
the node's capacity does not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuready.gpu import health as engine
from gpuready.gpu.health import Health, Probe
from gpuready.gpu.inventory import GPU, Failure, Inventory
from gpuready.gpu.nvml import GPU_IS_LOST, RESET_REQUIRED
from gpuready.gpu.xid import Policy
from gpuready.operands.device_plugin.resources import Card


@dataclass(frozen=True)
class Fleet:
    """gpus   what NVML last told of each, lost ones included
    absent  uuids that neither answer nor are listed as failing: they left the bus
    taken   NVML has answered in this process
    """

    cards: Mapping[str, Card] = field(default_factory=dict)
    health: Mapping[str, Health] = field(default_factory=dict)
    gpus: Mapping[str, GPU] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=Inventory)
    absent: frozenset[str] = frozenset()
    taken: bool = False

    @property
    def suspects(self) -> frozenset[str]:
        """Those to probe often."""
        return frozenset(uuid for uuid, health in self.health.items() if not health.healthy)

    @property
    def corrupted_inforom(self) -> list[str]:
        return [gpu.uuid for gpu in self.inventory.gpus if gpu.inforom_valid is False]

    def sentences(self) -> tuple[str, ...]:
        """What NVML or the bus does not show, for people."""
        failed = [
            f"GPU {f.index} {f.pci_address}: {f.message}".replace(" :", ":") for f in self.inventory.failures
        ]
        gone = [
            f"GPU at {address} is on the PCI bus but not in NVML's list" for address in self.inventory.missing
        ]
        return (*failed, *gone)


def after_inventory(fleet: Fleet, inventory: Inventory, now: float, policy: Policy) -> Fleet:
    """NVML told of all GPUs."""
    present = {gpu.uuid: gpu for gpu in inventory.gpus}
    cards = {**fleet.cards, **{gpu.uuid: _card_of(gpu) for gpu in inventory.gpus}}
    failing = {
        uuid: f for uuid, card in cards.items() if uuid not in present and (f := _failure_of(card, inventory))
    }
    absent = frozenset(cards) - frozenset(present) - frozenset(failing)
    health = {uuid: fleet.health.get(uuid, Health(since=now)) for uuid in cards}
    for uuid, gpu in present.items():
        known = engine.after_reenumeration(health[uuid], now) if uuid in fleet.absent else health[uuid]
        # Suspects have their own probes, once a second: counting these too would end a trial early.
        known = known if not known.healthy else engine.after_probe(known, engine.probe_of(gpu), now, policy)
        health[uuid] = known
    for uuid, failure in failing.items():
        health[uuid] = engine.after_probe(health[uuid], _probe_of(failure), now, policy)
    for uuid in absent:
        health[uuid] = engine.after_probe(health[uuid], Probe(error="NotFound", lost=True), now, policy)
    return Fleet(cards, health, {**fleet.gpus, **present}, inventory, absent, taken=True)


def after_xid(fleet: Fleet, uuid: str, code: int, now: float, policy: Policy) -> Fleet:
    """A GPU raised an XID; when NVML could not say which, every one is meant."""
    hit = [uuid] if uuid else list(fleet.cards)
    changed = {u: engine.after_xid(fleet.health[u], code, now, policy) for u in hit if u in fleet.health}
    return replace(fleet, health={**fleet.health, **changed})


def after_probe(fleet: Fleet, uuid: str, probe: Probe, now: float, policy: Policy) -> Fleet:
    """A suspect was looked at. One that left the bus comes back through the inventory only."""
    if uuid not in fleet.health or uuid in fleet.absent:
        return fleet
    changed = engine.after_probe(fleet.health[uuid], probe, now, policy)
    return replace(fleet, health={**fleet.health, uuid: changed})


def _card_of(gpu: GPU) -> Card:
    return Card(
        uuid=gpu.uuid,
        index=gpu.index,
        minor=gpu.minor,
        product=gpu.product,
        memory_mib=gpu.memory_mib,
        pci_address=gpu.pci_address,
        numa_node=gpu.numa_node,
        mig_enabled=bool(gpu.mig_enabled),
    )


def _failure_of(card: Card, inventory: Inventory) -> Failure | None:
    """The failing place of this GPU: by address where NVML or the bus gave one, else by index."""
    for failure in inventory.failures:
        if failure.pci_address == card.pci_address if failure.pci_address else failure.index == card.index:
            return failure
    return None


def _probe_of(failure: Failure) -> Probe:
    return Probe(
        error=failure.name, lost=failure.code == GPU_IS_LOST, reset_required=failure.code == RESET_REQUIRED
    )
