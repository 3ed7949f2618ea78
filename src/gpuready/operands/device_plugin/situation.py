"""What the plugin should do and say, given everything it knows: the decision behind the daemon.

Pure. The daemon observes (`Facts`), `decide` answers (`Plan`), the daemon acts and writes the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuready.chain.cdi_support import Support
from gpuready.chain.device_plugin import IGNORES_CDI
from gpuready.gpu.health import Health
from gpuready.operands.device_plugin.config import Chosen
from gpuready.operands.device_plugin.resources import Card, Resource, resources_of

MISMATCH = "DriverLibraryMismatch"


@dataclass(frozen=True)
class Problem:
    """Why the link is not whole; WAITING in the record when it may end by itself."""

    reason: str
    message: str
    next_step: str = ""
    evidence: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "reason": self.reason,
            "message": self.message,
            "nextStep": self.next_step,
            "evidence": list(self.evidence),
        }


INFOROM_CORRUPTED = Problem(
    "InfoRomCorrupted",
    "the GPU's infoROM is corrupted; it works, but may not keep its settings and error records",
    "have the card looked at; GPUREADY_INFOROM=exclude takes it out of use",
)
WAITING_FOR_RUNTIME = Problem("WaitingForRuntime", "waiting for the container runtime to say who it is")
DEVICE_NODE_MISSING = Problem(
    "DeviceNodeMissing",
    "the GPU's device node does not exist on the host",
    "create it: nvidia-modprobe -c <minor>, or run nvidia-smi on the host",
)


def ignored_by(runtime: Support) -> Problem | None:
    """No strategy would reach a container; None while one does."""
    if runtime.usable:
        return None
    return Problem(IGNORES_CDI, runtime.why[0], runtime.next_step, runtime.why[1:])


@dataclass(frozen=True)
class NvmlTrouble:
    code: int
    name: str
    message: str


@dataclass(frozen=True)
class Facts:
    """Everything that the decision rests on.

    gate_waiting     what the driver gate lacks; "" when it is open or not waited for
    module, library  versions of the loaded kernel module and of the libraries in the driver's tree
    loaded           version of the library in this process; "" before the first
    loaded_path …    to see that another file is to be loaded now
    cards            every GPU ever seen in this boot
    health           by uuid
    inventory_taken  NVML has answered in this process
    flagged          uuid -> what is wrong with a GPU that may be handed out all the same
    excluded         uuid -> why a GPU that answers is not handed out
    failures         sentences about GPUs that NVML or the bus does not show
    silent_s         for how long NVML has not answered, from `silent_limit_s` on; 0 before
    runtime_problem  why the runtime would start containers without the GPUs that are handed out
    cdi_missing      host paths that the CDI spec needs and that do not exist
    """

    chosen: Chosen
    gate_waiting: str = ""
    module: str = ""
    library: str = ""
    loaded_path: str = ""
    library_path: str = ""
    searched: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    health: Mapping[str, Health] = field(default_factory=dict)
    inventory_taken: bool = False
    flagged: Mapping[str, Problem] = field(default_factory=dict)
    excluded: Mapping[str, Problem] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    trouble: NvmlTrouble | None = None
    silent_s: float = 0.0
    runtime_problem: Problem | None = None
    cdi_missing: tuple[str, ...] = ()
    cdi_error: str = ""


@dataclass(frozen=True)
class Plan:
    """hold_nvml  the feed may have NVML open; restart  only a new process can load the library.

    resources  to offer; empty: register nothing
    healthy    by uuid, what the kubelet is told
    reasons    uuid -> what is to be said of a GPU beyond its own health
    """

    hold_nvml: bool
    restart: bool = False
    resources: tuple[Resource, ...] = ()
    healthy: Mapping[str, bool] = field(default_factory=dict)
    reasons: Mapping[str, Problem] = field(default_factory=dict)
    problem: Problem | None = None


def decide(facts: Facts) -> Plan:
    driver = _driver_problem(facts)
    may_hold = driver is None and not facts.gate_waiting
    another = bool(facts.loaded_path) and facts.loaded_path != facts.library_path
    common = driver or _nvml_problem(facts) or _spec_problem(facts)
    healthy = {card.uuid: common is None and _is_healthy(card, facts) for card in facts.cards}
    return Plan(
        hold_nvml=may_hold and not another,
        restart=may_hold and another,
        resources=tuple(_resources(facts, healthy)),
        healthy=healthy,
        reasons=_reasons(facts, common),
        problem=_problem(facts, driver),
    )


def _is_healthy(card: Card, facts: Facts) -> bool:
    return facts.health.get(card.uuid, Health()).healthy and card.uuid not in facts.excluded


def _reasons(facts: Facts, common: Problem | None) -> dict[str, Problem]:
    if common:
        return {card.uuid: common for card in facts.cards}
    return {**facts.flagged, **facts.excluded}


def _resources(facts: Facts, healthy: Mapping[str, bool]) -> list[Resource]:
    """Offered once the configuration is known and NVML has shown GPUs.

    A driver that goes away later makes them unhealthy but never takes them back: a node's capacity stays.
    """
    effective = facts.chosen.effective
    if effective is None or not facts.inventory_taken or facts.runtime_problem:
        return []
    return resources_of(facts.cards, healthy, effective)


def _problem(facts: Facts, driver: Problem | None) -> Problem | None:
    """The first thing that explains the rest."""
    if facts.chosen.effective is None:
        return _config_problem(facts.chosen)
    if facts.runtime_problem:
        return facts.runtime_problem
    if facts.gate_waiting:
        return Problem("WaitingForDriver", f"waiting for the driver: {facts.gate_waiting}")
    if driver:
        return driver
    if facts.silent_s:
        return Problem(
            "NvmlNotAnswering",
            f"NVML has not answered for more than {facts.silent_s:.0f} s; devices keep their last health",
            "look at the kernel log; a stuck driver needs a reboot",
        )
    if trouble := _nvml_problem(facts):
        return trouble
    if not facts.inventory_taken:
        return Problem("WaitingForNvml", "waiting for NVML's first answer")
    if not facts.cards:
        return Problem("NoGpus", "NVML lists no GPU", "check the PCI bus and the driver", facts.failures)
    return _spec_problem(facts)


def _nvml_problem(facts: Facts) -> Problem | None:
    if facts.trouble is None:
        return None
    reason = _KNOWN_CODES.get(facts.trouble.code, f"Nvml{facts.trouble.name}")
    return Problem(reason, facts.trouble.message, "look at the driver and the kernel log")


_KNOWN_CODES = {9: "DriverNotLoaded", 12: "NvmlLibraryNotFound", 18: MISMATCH}


def _config_problem(chosen: Chosen) -> Problem:
    if chosen.error:
        return Problem(chosen.error.reason, chosen.error.message, chosen.error.next_step)
    return Problem("WaitingForConfig", f"waiting for {chosen.waiting or 'a configuration'}")


def _driver_problem(facts: Facts) -> Problem | None:
    if not facts.library:
        return Problem(
            "NvmlLibraryNotFound",
            "no libnvidia-ml.so.1 in the driver's directories",
            "install the NVIDIA driver, or let the operator do it",
            tuple(facts.searched),
        )
    if not facts.module:
        return Problem(
            "DriverNotLoaded",
            f"the nvidia kernel module is not loaded; libraries of {facts.library} are there",
            "load the driver (modprobe nvidia) or wait for the driver container",
        )
    if facts.module != facts.library:
        return Problem(
            MISMATCH,
            f"the driver's libraries are {facts.library}, the loaded kernel module is {facts.module}",
            "reload the driver's kernel module or reboot the node",
            (f"library {facts.library}", f"module {facts.module}"),
        )
    return None


def _spec_problem(facts: Facts) -> Problem | None:
    if facts.cdi_error:
        return Problem("CdiSpecNotWritten", facts.cdi_error, "check /var/run/cdi on the node")
    if facts.cdi_missing:
        return Problem(
            "CdiHostPathMissing",
            f"the CDI spec would name {facts.cdi_missing[0]}, which does not exist on the host",
            "reinstall the driver's files",
            facts.cdi_missing,
        )
    return None
