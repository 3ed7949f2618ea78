"""Facts about the driver: files below the places where it can live, the kernel's word, and NVML's answer.

`look` reads files and is cheap enough for every pass. NVML is asked by a short-lived child with a deadline
(`NvmlChild`), only when something that could change its answer has changed: a driver that hangs, crashes or
corrupts memory takes the child with it and nothing else, and nobody holds the driver between two questions.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuready import names
from gpuready.chain.driver import DriverFacts, DriverTree, ListedGpu, NvmlAnswer, Probe
from gpuready.gpu import driver_files
from gpuready.gpu.driver_files import NvmlLibrary
from gpuready.gpu.inventory import Inventory
from gpuready.gpu.tree import Tree

DEADLINE_S = 10.0
SMI_PATHS = tuple(
    f"{folder}/nvidia-smi"
    for folder in ("/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/lib/wsl/lib", "/opt/bin")
)
MODULE = "/sys/module/nvidia"
# Traces of a driver container that installs or has installed; /run is empty after a boot.
CONTAINER_TRACES = ("/run/nvidia/nvidia-driver.pid", "/run/nvidia/nvidia-driver.state")
_KILL_GRACE_S = 1.0
_DEVICES_EACH = 5


@dataclass(frozen=True)
class Place:
    """A driver root: `root` as the host names it, `tree` where we see it."""

    root: str
    tree: Tree


@dataclass(frozen=True)
class Look:
    """What files and kernel say now.

    stamp   changes when NVML's answer may have changed; its last part holds what cannot turn a right answer
            into a wrong one
    """

    facts: DriverFacts
    stamp: tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """The child's answer: for the verdict, and the inventory for labels and status (None without one)."""

    nvml: NvmlAnswer
    inventory: Inventory | None = None


def look(host: Tree, pci_addresses: Sequence[str], *, install_dir: str = names.DRIVER_INSTALL_DIR) -> Look:
    """Read everything but NVML. What cannot be read counts as not there."""
    places = places_of(host, install_dir)
    libraries = [driver_files.find_nvml_library(place.tree) for place in places]
    facts = DriverFacts(
        pci_addresses=tuple(pci_addresses),
        module_loaded=host.exists(MODULE),
        module_version=driver_files.find_module_version(host),
        host=_tree_at(places[0], libraries[0]),
        container=_tree_at(places[1], libraries[1]),
        container_evidence=tuple(path for path in CONTAINER_TRACES if host.exists(path)),
        container_finished=host.exists(f"{names.GATES_DIR}/{names.DRIVER_CTR_READY}"),
    )
    stamp = (
        facts.pci_addresses,
        facts.module_loaded,
        facts.module_version,
        *map(_file_stamp, libraries),
        (device_nodes(host), facts.container_finished),
    )
    return Look(facts, stamp)


def places_of(host: Tree, install_dir: str) -> tuple[Place, Place]:
    """The host's own tree, and the driver container's."""
    return Place("/", host), Place(install_dir, Tree(host.resolve(install_dir)))


class KernelLook:
    """The facts for which the kernel sends no event, as cheap to read as can be: once a second, for ever.

    The module is looked at each time, devices (which do not come and go by themselves) each fifth time.
    Plain joins: nothing below /proc, /sys and /dev leads out of the host's tree.
    """

    def __init__(self, host: Tree) -> None:
        base = os.path.realpath(host.base)
        self._module = f"{base}{MODULE}"
        self._version = f"{base}{driver_files.MODULE_VERSION_FILES[0]}"
        self._pci = f"{base}/sys/bus/pci/devices"
        self._dev = f"{base}/dev"
        self._looks = 0
        self._devices: tuple[list[str], list[str]] = ([], [])

    def stamp(self) -> tuple[Any, ...]:
        if self._looks % _DEVICES_EACH == 0:
            nodes = [name for name in _names_in(self._dev) if name.startswith("nvidia")]
            self._devices = (_names_in(self._pci), sorted(nodes))
        self._looks += 1
        return os.path.exists(self._module), _bytes_of(self._version), self._devices


def _names_in(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _bytes_of(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def device_nodes(host: Tree) -> tuple[str, ...]:
    return tuple(name for name in host.names_in("/dev") if name.startswith("nvidia"))


def paths_to_watch(host: Tree, install_dir: str) -> list[Path]:
    """Files whose change makes another look worthwhile."""
    found = []
    for place in places_of(host, install_dir):
        folders = [*driver_files.LIBRARY_DIRS]
        found += [place.tree.resolve(folder) / driver_files.NVML_SONAME for folder in folders]
        found += [place.tree.resolve(os.path.dirname(path)) / "nvidia-smi" for path in SMI_PATHS]
    found += [host.resolve(path) for path in CONTAINER_TRACES]
    return list(dict.fromkeys(found))


def _tree_at(place: Place, library: NvmlLibrary | None) -> DriverTree:
    prefix = place.root.rstrip("/")
    return DriverTree(
        root=place.root,
        library=f"{prefix}{place.tree.inside(library.path)}" if library else "",
        version=library.version if library else "",
        smi=f"{prefix}{smi}" if (smi := _find_smi(place.tree)) else "",
        searched=tuple(f"{prefix}{folder}" for folder in driver_files.LIBRARY_DIRS),
    )


def _find_smi(tree: Tree) -> str:
    for path in SMI_PATHS:
        try:
            file = tree.resolve(path)
            if file.is_file() and file.stat().st_size:
                return path
        except OSError:
            continue
    return ""


def _file_stamp(library: NvmlLibrary | None) -> tuple[Any, ...]:
    if library is None:
        return ()
    try:
        info = library.path.stat()
    except OSError:
        return (library.version,)
    return (str(library.path), library.version, info.st_ino, info.st_size, info.st_mtime_ns)


class NvmlChild:
    """Asks NVML in a child process; one question at a time, never longer than the deadline."""

    def __init__(self, *, deadline_s: float = DEADLINE_S, command: Sequence[str] | None = None) -> None:
        self._deadline_s = deadline_s
        self._command = tuple(command or (sys.executable, "-m", "gpuready.gpu.inventory_child"))
        self._stuck: asyncio.subprocess.Process | None = None

    async def ask(self, driver_root: Path, kernel_root: Path) -> Answer:
        if self._stuck is not None and self._stuck.returncode is None:
            # Killed, and still not gone: it sleeps inside the driver. A second one would only join it.
            return self._timed_out()
        child = await asyncio.create_subprocess_exec(
            *self._command,
            "--driver-root",
            str(driver_root),
            "--kernel-root",
            str(kernel_root),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(self._deadline_s):
                printed, complaints = await child.communicate()
        except TimeoutError:
            await self._end(child)
            return self._timed_out()
        except BaseException:
            await self._end(child)
            raise
        return parse(printed, complaints, child.returncode or 0)

    async def _end(self, child: asyncio.subprocess.Process) -> None:
        if child.returncode is None:
            child.kill()
        try:
            async with asyncio.timeout(_KILL_GRACE_S):
                await child.wait()
        except TimeoutError:
            self._stuck = child

    def _timed_out(self) -> Answer:
        return Answer(NvmlAnswer(Probe.TIMED_OUT, waited_s=self._deadline_s))


def parse(printed: bytes, complaints: bytes, exit_status: int) -> Answer:
    """What the child printed, as facts."""
    try:
        row = json.loads(printed)
        inventory, error = row["inventory"], row["error"]
    except (ValueError, KeyError, TypeError):
        return Answer(NvmlAnswer(Probe.FAILED, text=_crash(complaints, exit_status)))
    if inventory is None:
        return Answer(NvmlAnswer(Probe.FAILED, code=int(error["code"]), text=str(error["message"])))
    found = Inventory.from_json(inventory)
    return Answer(NvmlAnswer(Probe.ANSWERED, gpus=listed_of(found)), found)


def listed_of(inventory: Inventory) -> tuple[ListedGpu, ...]:
    """Every GPU that NVML lists, the silent ones too, in index order."""
    answering = [
        ListedGpu(gpu.index, gpu.uuid, gpu.pci_address, info_rom_corrupt=gpu.inforom_valid is False)
        for gpu in inventory.gpus
    ]
    silent = [
        ListedGpu(
            failure.index, "", failure.pci_address, problem=failure.message, code=failure.code, answers=False
        )
        for failure in inventory.failures
    ]
    return tuple(sorted([*answering, *silent], key=lambda gpu: gpu.index))


def _crash(complaints: bytes, exit_status: int) -> str:
    ended = f"signal {-exit_status}" if exit_status < 0 else f"status {exit_status}"
    lines = complaints.decode(errors="replace").strip().splitlines()
    return f"the process that asked NVML ended with {ended}" + (f": {lines[-1]}" if lines else "")


class DriverLink:
    """Remembers the last answer and knows when it is out of date.

    A whole driver is asked again only when files, kernel or devices change, or when somebody asks
    (`forget`); one that did not answer well is asked again after a wait that doubles up to `longest_wait_s`.
    """

    def __init__(
        self,
        host: Tree,
        child: NvmlChild,
        *,
        install_dir: str = names.DRIVER_INSTALL_DIR,
        clock: Callable[[], float],
        first_wait_s: float = 1.0,
        longest_wait_s: float = 60.0,
    ) -> None:
        self._host = host
        self._child = child
        self._install_dir = install_dir
        self._clock = clock
        self._first_wait_s, self._longest_wait_s = first_wait_s, longest_wait_s
        self._answer = Answer(NvmlAnswer())
        self._stamp: tuple[Any, ...] | None = None
        self._wait_s = first_wait_s
        self._again_at = float("inf")

    def look(self, pci_addresses: Sequence[str]) -> Look:
        return look(self._host, pci_addresses, install_dir=self._install_dir)

    def facts(self, seen: Look, driver_wanted: bool | None, evidence: Sequence[str] = ()) -> DriverFacts:
        """`seen` with the last answer, if it still speaks of this driver."""
        return replace(
            seen.facts,
            nvml=self._answer.nvml if self._speaks_of(seen) else NvmlAnswer(),
            driver_wanted=driver_wanted,
            container_evidence=(*seen.facts.container_evidence, *evidence),
        )

    def inventory(self, seen: Look) -> Inventory | None:
        return self._answer.inventory if self._speaks_of(seen) else None

    def wants_asking(self, seen: Look) -> bool:
        """There is a library to ask, and no answer that holds."""
        if not (seen.facts.pci_addresses and (seen.facts.host.library or seen.facts.container.library)):
            return False
        return self._stamp != seen.stamp or self._clock() >= self._again_at

    @property
    def asks_again_at(self) -> float:
        """By the clock; infinity when only a change makes us ask."""
        return self._again_at

    @property
    def was_asked(self) -> bool:
        return self._stamp is not None

    def forget(self) -> None:
        """The last answer may be wrong: ask again at the next pass."""
        self._again_at = self._clock()

    def driver_root(self, seen: Look) -> Path:
        """Where we see the tree of the driver that `seen` found."""
        host_place, container_place = places_of(self._host, self._install_dir)
        return (host_place if seen.facts.host.library else container_place).tree.base

    async def ask(self, seen: Look) -> None:
        """Ask about the driver that `seen` found: the host's if it has a library, else the container's."""
        self._answer = await self._child.ask(self.driver_root(seen), self._host.base)
        self._wait_s = self._first_wait_s if self._stamp != seen.stamp else self._wait_s
        self._stamp = seen.stamp
        self._plan_next(seen)

    def _plan_next(self, seen: Look) -> None:
        if self._is_sound(seen):
            self._again_at, self._wait_s = float("inf"), self._first_wait_s
            return
        self._again_at = self._clock() + self._wait_s
        self._wait_s = min(self._wait_s * 2, self._longest_wait_s)

    def _is_sound(self, seen: Look) -> bool:
        """Every GPU of the bus is listed and answers."""
        listed = self._answer.nvml.gpus
        addresses = {gpu.pci_address for gpu in listed}
        return all(gpu.answers for gpu in listed) and addresses.issuperset(seen.facts.pci_addresses)

    def _speaks_of(self, seen: Look) -> bool:
        """Same library and module: when only the last part changed, the old answer stands meanwhile."""
        return self._stamp is not None and self._stamp[:-1] == seen.stamp[:-1]
