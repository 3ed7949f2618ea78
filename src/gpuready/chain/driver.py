"""Is there a working NVIDIA driver on the node, whose is it, and if not: why not.

Pure. `node/links/driver.py` gathers the facts: files below the two places where a driver can live, what the
kernel says, and the answer of a short-lived NVML child. The verdict rests on that answer, the files explain
it. Never does a broken host driver count as an absent one.

Source: node-chain.md §1.7 (gpu-operator issues 3085, 2596), §2.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuready.chain.device_plugin import Problem, advice
from gpuready.chain.verdict import Link, State, Verdict
from gpuready.chain.wording import counted

# The driver works and is not the one that the policy asks for.
OUTDATED, POD_FAILING = "DriverOutdated", "DriverPodFailing"
NOT_AS_ASKED = (OUTDATED, POD_FAILING)
# NVML return codes (nvml.h): the ones that tell us something by themselves.
NVML_DRIVER_NOT_LOADED = 9
NVML_LIBRARY_NOT_FOUND = 12
NVML_GPU_IS_LOST = 15
NVML_RESET_REQUIRED = 16
NVML_LIB_RM_VERSION_MISMATCH = 18


class DriverClass(StrEnum):
    """What the node-chain reference asks us to tell apart."""

    ABSENT = "absent"  # neither program nor library nor module: only here may a container driver be installed
    NOT_LOADED = "not-loaded"
    OK = "ok"
    WARN = "warn"
    BROKEN = "broken"
    WAITING = "waiting"


class Owner(StrEnum):
    HOST = "host"
    CONTAINER = "container"
    NONE = "none"


class Probe(StrEnum):
    """How the NVML child ended."""

    NOT_RUN = "not-run"
    ANSWERED = "answered"
    FAILED = "failed"
    TIMED_OUT = "timed-out"


@dataclass(frozen=True)
class DriverTree:
    """One place where a driver's user-space files can be.

    root      as the host names it: "/" or "/run/nvidia/driver"
    library   path of libnvidia-ml.so.1 there ("" = none); version from the real file's suffix ("" = unknown)
    smi       path of nvidia-smi there ("" = none)
    searched  the places looked at, for messages
    """

    root: str
    library: str = ""
    version: str = ""
    smi: str = ""
    searched: tuple[str, ...] = ()

    @property
    def is_present(self) -> bool:
        return bool(self.library or self.smi)


@dataclass(frozen=True)
class ListedGpu:
    """One GPU as the NVML child saw it; `problem` is empty and `code` (NVML's) 0 when it answers."""

    index: int
    uuid: str
    pci_address: str
    problem: str = ""
    code: int = 0
    info_rom_corrupt: bool = False
    answers: bool = True


@dataclass(frozen=True)
class NvmlAnswer:
    """What came back from the child that opened NVML; `code` and `text` are NVML's."""

    probe: Probe = Probe.NOT_RUN
    code: int = 0
    text: str = ""
    waited_s: float = 0.0
    gpus: tuple[ListedGpu, ...] = ()


@dataclass(frozen=True)
class DriverFacts:
    """Everything that `judge` may know.

    pci_addresses        NVIDIA display and 3D controllers that the kernel shows, "0000:1a:00.0"
    driver_wanted        the policy wants a driver container here; None while no GPUNode says so
    container_evidence   files that a driver container of this boot left (pid file, state, .driver-ctr-ready)
    container_finished   the driver container's startup probe has succeeded in this boot
    trouble              what the control plane knows of the driver's pod: OUTDATED or POD_FAILING
    kept_away            the taint for which no pod of the driver comes here
    """

    pci_addresses: tuple[str, ...] = ()
    module_loaded: bool = False
    module_version: str = ""
    host: DriverTree = DriverTree("/")
    container: DriverTree = DriverTree("/run/nvidia/driver")
    driver_wanted: bool | None = None
    container_evidence: tuple[str, ...] = ()
    container_finished: bool = False
    nvml: NvmlAnswer = NvmlAnswer()
    trouble: Problem | None = None
    kept_away: Problem | None = None


def owner_of(facts: DriverFacts) -> Owner:
    """Whose driver this node runs, or is to run.

    A host driver comes first, also a broken one: nothing may be installed over it. A module without any
    files belongs to the host unless a driver container left its traces in this boot.
    """
    if facts.host.is_present:
        return Owner.HOST
    if facts.container.is_present:
        return Owner.CONTAINER
    if facts.container_evidence and (facts.module_loaded or facts.driver_wanted):
        return Owner.CONTAINER
    if facts.module_loaded:
        return Owner.HOST
    return Owner.CONTAINER if facts.driver_wanted else Owner.NONE


def tree_of(facts: DriverFacts) -> DriverTree:
    return facts.container if owner_of(facts) is Owner.CONTAINER else facts.host


def class_of(facts: DriverFacts) -> DriverClass:
    """The class of node-chain.md §1.7, from the same verdict that everybody sees."""
    if owner_of(facts) is not Owner.HOST and not facts.container.is_present and not facts.module_loaded:
        return DriverClass.ABSENT
    verdict = judge(facts)
    if verdict.state is State.BROKEN and verdict.reason == "DriverNotLoaded":
        return DriverClass.NOT_LOADED
    by_state: dict[str, DriverClass] = {
        State.OK: DriverClass.OK,
        State.DEGRADED: DriverClass.WARN,
        State.WAITING: DriverClass.WAITING,
    }
    return by_state.get(verdict.state, DriverClass.BROKEN)


def judge(facts: DriverFacts) -> Verdict:
    if not facts.pci_addresses:
        return _verdict(State.NOT_CHECKED, "NoGpus", "this node has no NVIDIA GPU")
    owner = owner_of(facts)
    if owner is Owner.NONE:
        return _missing(facts)
    if owner is Owner.CONTAINER and not facts.container.is_present:
        unwanted = facts.driver_wanted is False
        return _missing(facts) if unwanted else _installing(facts, "its libraries are not there yet")
    if not tree_of(facts).library:
        return _library_missing(facts)
    if not tree_of(facts).version:
        return _version_unknown(facts)
    if facts.nvml.probe is Probe.ANSWERED:
        return _answered(facts)
    return _no_answer(facts)


def _no_answer(facts: DriverFacts) -> Verdict:
    """NVML was not asked, refused or hung: the cause in the order in which it can be known."""
    in_progress = owner_of(facts) is Owner.CONTAINER and not facts.container_finished
    if not facts.module_loaded:
        return (
            _installing(facts, "the kernel module is not loaded yet") if in_progress else _not_loaded(facts)
        )
    if _versions_differ(facts) or facts.nvml.code == NVML_LIB_RM_VERSION_MISMATCH:
        return _installing(facts, _both_versions(facts)) if in_progress else _mismatch(facts)
    if facts.nvml.probe is Probe.TIMED_OUT:
        return _timed_out(facts)
    if facts.nvml.probe is Probe.NOT_RUN:
        return _verdict(State.WAITING, "DriverProbing", "asking the driver which GPUs it lists")
    if in_progress:
        return _installing(facts, f"NVML says: {facts.nvml.text}")
    return _failed(facts)


def _answered(facts: DriverFacts) -> Verdict:
    listed = facts.nvml.gpus
    missing = missing_addresses(facts)
    silent = [gpu for gpu in listed if not gpu.answers]
    if not listed or len(silent) == len(listed):
        return _no_devices(facts, missing, silent)
    remarks = [
        *_trouble_remarks(facts),
        *_missing_remarks(missing),
        *_silent_remarks(silent),
        *_info_rom_remarks(listed),
    ]
    version = facts.module_version or tree_of(facts).version
    if not remarks:
        count = counted(len(listed), "GPU")
        return _verdict(State.OK, "DriverReady", f"{version}; module and library agree; {count}")
    reasons, messages, steps = zip(*remarks, strict=True)
    usable, all_gpus = len(listed) - len(silent), len(listed) + len(missing)
    return _verdict(
        State.DEGRADED,
        reasons[0],
        f"{version} works with {usable} of {counted(all_gpus, 'GPU')}; {'; '.join(messages)}",
        evidence=_evidence(facts),
        next_step="; ".join(dict.fromkeys(steps)),
    )


def missing_addresses(facts: DriverFacts) -> list[str]:
    """GPUs that the PCI bus shows and NVML does not list; none while a silent GPU's address is unknown."""
    if any(not gpu.pci_address for gpu in facts.nvml.gpus):
        return []
    listed = {gpu.pci_address for gpu in facts.nvml.gpus}
    return [address for address in facts.pci_addresses if address not in listed]


def _trouble_remarks(facts: DriverFacts) -> list[tuple[str, str, str]]:
    """Of a container's driver only: what the policy asks for does not touch a host's."""
    trouble = facts.trouble
    if trouble is None or owner_of(facts) is not Owner.CONTAINER:
        return []
    return [(trouble.reason, trouble.message, trouble.next_step)]


def _missing_remarks(missing: Sequence[str]) -> list[tuple[str, str, str]]:
    if not missing:
        return []
    said = f"NVML does not list the GPU at PCI address {', '.join(missing)}"
    step = (
        f"look for NVRM messages about {missing[0]} in the kernel log, reseat or reset the card, then reboot"
    )
    return [("GpuMissing", said, step)]


# What brings a silent GPU back, in the words of the health engine, so that both say the same of one GPU.
_RECOVERY_OF = {NVML_GPU_IS_LOST: "RebootNode", NVML_RESET_REQUIRED: "ResetGpu"}


def _silent_remarks(silent: Sequence[ListedGpu]) -> list[tuple[str, str, str]]:
    return [
        (
            "GpuNotAnswering",
            f"{_named(gpu)} does not answer ({gpu.problem})",
            advice(_RECOVERY_OF.get(gpu.code, "Observe"), gpu.index),
        )
        for gpu in silent
    ]


def _info_rom_remarks(listed: Sequence[ListedGpu]) -> list[tuple[str, str, str]]:
    return [
        (
            "InfoRomCorrupted",
            f"the infoROM of {_named(gpu)} is corrupted",
            f"plan to have GPU {gpu.index} serviced; it keeps working until then",
        )
        for gpu in listed
        if gpu.info_rom_corrupt
    ]


def _missing(facts: DriverFacts) -> Verdict:
    shown = counted(len(facts.pci_addresses), "NVIDIA GPU")
    if facts.driver_wanted is None:
        said = f"{shown} and no driver on the host; the operator has not said yet whether it installs one"
        return _verdict(State.WAITING, "DriverUndecided", said)
    return _verdict(
        State.BROKEN,
        "DriverMissing",
        f"{shown} on the PCI bus but no NVIDIA driver, and the policy installs none",
        evidence=(
            *_searched(facts.host),
            *_searched(facts.container),
            _module_line(facts),
        ),
        next_step="install a driver on the host, or set driver.enabled: true in the ClusterPolicy",
    )


def _installing(facts: DriverFacts, detail: str) -> Verdict:
    if facts.trouble and facts.trouble.reason == POD_FAILING:
        text, step = facts.trouble.message, facts.trouble.next_step
        return _verdict(State.BROKEN, POD_FAILING, text, evidence=(_module_line(facts),), next_step=step)
    if kept := facts.kept_away:
        return _verdict(
            State.BROKEN, kept.reason, kept.message, evidence=(_module_line(facts),), next_step=kept.next_step
        )
    seen = facts.container_evidence or (f"nothing in {facts.container.root} yet",)
    return _verdict(
        State.WAITING,
        "DriverInstalling",
        f"the driver container is not finished: {detail}",
        evidence=(*seen, _module_line(facts)),
        next_step="read the driver pod's log if this lasts more than some minutes",
    )


def _library_missing(facts: DriverFacts) -> Verdict:
    tree = tree_of(facts)
    found = f"{tree.smi} is there" if tree.smi else _module_line(facts)
    return _verdict(
        State.BROKEN,
        "LibraryMissing",
        f"{found}, but libnvidia-ml.so.1 is in none of the places a driver keeps it",
        evidence=(*_searched(tree), _module_line(facts)),
        next_step="complete the driver's user-space packages of the same version as the module",
    )


def _not_loaded(facts: DriverFacts) -> Verdict:
    tree = tree_of(facts)
    return _verdict(
        State.BROKEN,
        "DriverNotLoaded",
        f"driver {tree.version or 'files'} is under {tree.root}, but kernel module nvidia is not loaded",
        evidence=("/sys/module/nvidia does not exist", f"library {tree.library}"),
        next_step="modprobe nvidia and read the kernel log; the module may be built for another kernel, "
        "or Secure Boot or nouveau keep it out",
    )


def _version_unknown(facts: DriverFacts) -> Verdict:
    """NVML may even answer; but which files belong to the driver is told by its version alone."""
    library = tree_of(facts).library
    return _verdict(
        State.BROKEN,
        "LibraryVersionUnknown",
        f"the name of the driver's library {library} carries no version: a container could not be given "
        "the files that belong to it",
        evidence=(_module_line(facts),),
        next_step="reinstall the driver's user-space files, so that libnvidia-ml.so.1 leads to "
        f"libnvidia-ml.so.{facts.module_version or 'VERSION'}",
    )


def _mismatch(facts: DriverFacts) -> Verdict:
    tree = tree_of(facts)
    return _verdict(
        State.BROKEN,
        "DriverLibraryMismatch",
        f"driver/library version mismatch: {_both_versions(facts)}",
        evidence=(f"library {tree.library}", _module_line(facts), *_nvml_line(facts)),
        next_step="reload the NVIDIA modules once nothing uses the GPUs, or reboot the node",
    )


def _timed_out(facts: DriverFacts) -> Verdict:
    return _verdict(
        State.BROKEN,
        "NvmlTimeout",
        f"the driver is hanging: NVML gave no answer within {facts.nvml.waited_s:g} s",
        evidence=(_module_line(facts), f"library {tree_of(facts).library}"),
        next_step="look for Xid and hung-task messages in the kernel log; reset the GPU or reboot the node",
    )


def _failed(facts: DriverFacts) -> Verdict:
    """NVML refused although module and library agree."""
    if facts.nvml.code == NVML_DRIVER_NOT_LOADED:
        said = "the kernel module nvidia is loaded but does not serve: NVML reports that no driver is loaded"
        return _broken_by_nvml(facts, "DriverNotLoaded", said)
    if facts.nvml.code == NVML_LIBRARY_NOT_FOUND:
        return _library_missing(facts)
    return _broken_by_nvml(facts, "NvmlFailed", f"NVML cannot be opened: {facts.nvml.text}")


def _broken_by_nvml(facts: DriverFacts, reason: str, message: str) -> Verdict:
    return _verdict(
        State.BROKEN,
        reason,
        message,
        evidence=_evidence(facts),
        next_step="read the kernel log for NVRM messages; reload the NVIDIA modules or reboot the node",
    )


def _no_devices(facts: DriverFacts, missing: Sequence[str], silent: Sequence[ListedGpu]) -> Verdict:
    if silent:
        said = (
            f"none of {counted(len(silent), 'GPU')} answers: {'; '.join(_silent_line(gpu) for gpu in silent)}"
        )
    else:
        said = f"the driver lists no GPU although the PCI bus shows {', '.join(missing)}"
    return _broken_by_nvml(facts, "NoDevices", said)


def _silent_line(gpu: ListedGpu) -> str:
    return f"{_named(gpu)} {gpu.problem}"


def _evidence(facts: DriverFacts) -> tuple[str, ...]:
    return (_module_line(facts), f"library {tree_of(facts).library}", *_nvml_line(facts))


def _module_line(facts: DriverFacts) -> str:
    if not facts.module_loaded:
        return "/sys/module/nvidia does not exist"
    return f"module nvidia {facts.module_version or 'of unknown version'} is loaded"


def _nvml_line(facts: DriverFacts) -> tuple[str, ...]:
    if facts.nvml.probe is not Probe.FAILED:
        return ()
    return (f"NVML answered {facts.nvml.code}: {facts.nvml.text}",)


def _searched(tree: DriverTree) -> tuple[str, ...]:
    return (f"searched {' '.join(tree.searched)}",) if tree.searched else ()


def _versions_differ(facts: DriverFacts) -> bool:
    library = tree_of(facts).version
    return bool(library and facts.module_version and library != facts.module_version)


def _both_versions(facts: DriverFacts) -> str:
    return f"library {tree_of(facts).version or 'unknown'}, module {facts.module_version or 'unknown'}"


def _named(gpu: ListedGpu) -> str:
    return f"GPU {gpu.index} ({gpu.uuid or gpu.pci_address})"


def _verdict(
    state: State, reason: str, message: str, *, evidence: tuple[str, ...] = (), next_step: str = ""
) -> Verdict:
    return Verdict(Link.DRIVER, state, reason, message, evidence, next_step)
