"""Reads the world into one `View`: files, kernel, NVML's last answer, and what the API server has shown.

Nothing here waits for the network. Until the API server has answered once (or `patience_s` is over) and NVML
was asked once, there is no view: a restarted agent must not take a gate away because it knows nothing yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuready import names
from gpuready.chain import driver
from gpuready.chain.cdi_specs import SpecFacts, problems_of
from gpuready.kube.cache import WatchCache
from gpuready.kube.trimmed import Node
from gpuready.node import desired, gates, operand_records
from gpuready.node.links import cuda as proving
from gpuready.node.links import device_plugin as plugin_files
from gpuready.node.links import discovery as machine_files
from gpuready.node.links import toolkit as toolkit_files
from gpuready.node.links.cdi_specs import SpecLook
from gpuready.node.links.cuda import Asking, CudaChild, CudaLink
from gpuready.node.links.driver import DriverLink, KernelLook, Look, paths_to_watch
from gpuready.node.root import Root, boot_id
from gpuready.operands.node_agent import wishes as wishing
from gpuready.operands.node_agent.decision import View, driver_versions
from gpuready.operands.node_agent.discovery import source_of
from gpuready.operands.node_agent.settings import Settings
from gpuready.operands.node_agent.wishes import PLUGIN, TOOLKIT, Wishes

PATIENCE_S = 3.0
SPECS_SETTLE_S = 1.0
GpuNode = dict[str, Any]


@dataclass
class Settling:
    """Since when nothing has changed; `now` is passed in."""

    after_s: float
    _stamp: Any = None
    _since: float = float("-inf")

    def is_settled(self, stamp: Any, now: float) -> bool:
        if stamp != self._stamp:
            self._stamp, self._since = stamp, now
        return now - self._since >= self.after_s

    @property
    def due_at(self) -> float:
        return self._since + self.after_s


@dataclass
class SettledSpecs:
    """The CDI specs as they have been for a while: one that goes is back before anybody need hear of it."""

    settling: Settling
    _told: SpecFacts | None = None

    def take(self, found: SpecFacts, now: float) -> SpecFacts:
        """What counts now. The first look counts at once: a restarted agent does not forget a trouble."""
        is_settled = self.settling.is_settled(problems_of(found), now)
        if is_settled or self._told is None:
            self._told = found
        return self._told


class Observer:
    def __init__(
        self,
        root: Root,
        settings: Settings,
        link: DriverLink,
        nodes: WatchCache[Node],
        gpu_nodes: WatchCache[GpuNode],
        clock: Callable[[], float],
        cuda_child: CudaChild | None = None,
    ) -> None:
        self.boot_id = boot_id(root)
        self.link = link
        self._root, self._settings = root, settings
        self._host = root.host()
        self._nodes, self._gpu_nodes = nodes, gpu_nodes
        self._clock = clock
        self._started_at = clock()
        self._machine = machine_files.gather(self._host)
        self._kernel_look = KernelLook(self._host)
        self._kernel = self._kernel_look.stamp()
        self._settling = Settling(settings.settle_s)
        self._spec_look = SpecLook(self._host, self.records_dir)
        self._specs = SettledSpecs(Settling(SPECS_SETTLE_S))
        self._known_of_devices: Any = None
        child = cuda_child or CudaChild(deadline_s=settings.cuda_deadline_s)
        self.cuda = CudaLink(self._host, child, self.records_dir / proving.RECORD, self.boot_id, clock)

    # --- where things are --------------------------------------------------------------------------------

    @property
    def gates_dir(self) -> Path:
        return self._root.join(self._settings.gates_dir)

    @property
    def desired_dir(self) -> Path:
        return self._root.join(self._settings.desired_dir)

    @property
    def last_known_dir(self) -> Path:
        return self._root.join(self._settings.last_known_dir)

    @property
    def records_dir(self) -> Path:
        return self._root.join(self._settings.records_dir)

    @property
    def cdi_file(self) -> Path:
        return self._root.join(names.PLUGIN_CDI_FILE)

    @property
    def cdi_files(self) -> list[Path]:
        """All specs of the device plugin: GPUs, and what comes beside them."""
        vendor = names.PLUGIN_CDI_KIND.partition("/")[0]
        classes = [self.cdi_file.with_name(f"{vendor}-{each}.json") for each in names.PLUGIN_CDI_CLASSES]
        return [self.cdi_file, *classes]

    @property
    def toolkit_journal(self) -> Path:
        """There as long as the runtime's configuration holds something of ours."""
        return self._root.join(names.TOOLKIT_JOURNAL)

    def paths(self) -> list[Path]:
        """Files whose change is a reason to look again."""
        ours = (names.DRIVER_READY, names.TOOLKIT_READY, names.PLUGIN_READY, names.CUDA_READY)
        return [
            *paths_to_watch(self._host, self._settings.driver_install_dir),
            *(self.gates_dir / gate for gate in (*ours, names.DRIVER_CTR_READY)),
            *(gates.record_path(self.gates_dir, gate) for gate in ours),
            self.records_dir / plugin_files.RECORD,
            *(operand_records.path_of(self.records_dir, name) for name in operand_records.OPERANDS),
            self.records_dir / toolkit_files.RECORD,
            desired.path_of(self.desired_dir, PLUGIN),
            desired.path_of(self.desired_dir, TOOLKIT),
            self.toolkit_journal,
            self.cdi_file,
            *self._spec_look.paths(),
        ]

    # --- looking -----------------------------------------------------------------------------------------

    def kernel_has_changed(self) -> bool:
        """For the one-second look at what sends no event."""
        stamp = self._kernel_look.stamp()
        changed, self._kernel = stamp != self._kernel, stamp
        if changed:
            self._machine = machine_files.gather(self._host)
        return changed

    def look(self) -> Look:
        return self.link.look(self._machine.pci_addresses)

    def find_view(self, seen: Look) -> View | None:
        """None while too little is known to say anything."""
        if not self._api_is_known() or (self.link.wants_asking(seen) and not self.link.was_asked):
            return None
        record = plugin_files.find_record_row(self.records_dir, self.boot_id)
        self._ask_again_when_devices_change(record)
        toolkit = toolkit_files.find_record_row(self.records_dir, self.boot_id)
        node, gpu_node = self.node(), self.gpu_node()
        facts = self.link.facts(seen, self._wishes().driver_enabled, self._evidence(gpu_node))
        versions = driver_versions(facts)
        stamp = (
            _without_news(record),
            _without_news(toolkit),
            node and node.status.allocatable,
            *versions,
        )
        return View(
            node_name=self._settings.node_name,
            boot_id=self.boot_id,
            driver=facts,
            node=node,
            gpu_node=gpu_node is not None,
            wishes=self._wishes(),
            machine=self._machine,
            inventory=self.link.inventory(seen),
            record=record,
            operands=operand_records.find_rows(self.records_dir, self.boot_id),
            toolkit=toolkit,
            toolkit_gate=toolkit_files.has_gate(self.gates_dir),
            specs=self._specs.take(self._spec_look.look(), self._clock()),
            toolkit_installed=self.toolkit_journal.exists(),
            cuda=self._look_at_cuda(seen, record, node, versions),
            settled=self._settling.is_settled(stamp, self._clock()),
            label_source=source_of(self._settings.label_source, node.metadata.annotations if node else {}),
        )

    def _look_at_cuda(
        self, seen: Look, record: Mapping[str, Any] | None, node: Node | None, driver_: tuple[str, str]
    ) -> proving.Look:
        gate = proving.has_gate(self.gates_dir)
        inventory = self.link.inventory(seen)
        if inventory is None:
            return proving.Look(gate=gate)
        asked = node.metadata.annotations.get(names.PROVE_CUDA_ANNOTATION, "") if node else ""
        return self.cuda.look(Asking(proving.subjects_of(inventory, record), driver_, asked), gate)

    def node(self) -> Node | None:
        return self._nodes.get(self._settings.node_name)

    def gpu_node(self) -> GpuNode | None:
        return self._gpu_nodes.get(self._settings.node_name)

    @property
    def due_at(self) -> float:
        """When another look is worthwhile although nothing has happened."""
        settling = (self._settling.due_at, self._specs.settling.due_at)
        times = [*settling, self.link.asks_again_at, self.cuda.due_at, self._started_at + PATIENCE_S]
        return min((time for time in times if time > self._clock()), default=float("inf"))

    def _api_is_known(self) -> bool:
        synced = self._nodes.synced and self._gpu_nodes.synced
        return synced or self._clock() - self._started_at >= PATIENCE_S

    def _wishes(self) -> Wishes:
        if not self._gpu_nodes.synced:
            here = desired.find(self.desired_dir, PLUGIN, self.boot_id)
            return wishing.last_known(here or desired.find(self.last_known_dir, PLUGIN), boot_id=self.boot_id)
        found = self.gpu_node()
        generation = int(found["metadata"].get("generation") or 0) if found else 0
        return wishing.wishes_of(
            (found.get("spec") or {}) if found else None, generation=generation, boot_id=self.boot_id
        )

    def _evidence(self, gpu_node: GpuNode | None) -> tuple[str, ...]:
        status = (gpu_node or {}).get("status") or {}
        was_container = (status.get("driver") or {}).get("owner") == driver.Owner.CONTAINER
        return (
            ("this boot's driver is a container's",)
            if was_container and status.get("bootID") == self.boot_id
            else ()
        )

    def _ask_again_when_devices_change(self, record: Mapping[str, Any] | None) -> None:
        """The plugin, which holds NVML, sees a GPU change or NVML fall silent: ask ourselves."""
        if record is None:
            return
        told = ("uuid", "health", "reason", "migEnabled")
        health = [tuple(map(row.get, told)) for row in record.get("devices") or []]
        seen = (health, (record.get("problem") or {}).get("reason"))
        if self._known_of_devices is not None and health and seen != self._known_of_devices:
            self.link.forget()
        self._known_of_devices = seen


def _without_news(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Pods that come and go leave plugin and kubelet as settled as they were."""
    return None if record is None else {k: v for k, v in record.items() if k not in ("time", "allocations")}
