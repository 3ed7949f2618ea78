"""The one thread of a daemon that holds NVML; it tells what it sees and is asked nothing.

NVML calls can hang for as long as a driver is stuck, so nobody waits for this thread: facts arrive through
`tell`, and `silent_for` says how long the library has not answered. `release` gives the driver up, so that
its kernel module can be replaced; a library of another version cannot be loaded into the same process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpuready.gpu.driver_files import find_nvml_library
from gpuready.gpu.health import Probe
from gpuready.gpu.inventory import GPU, Inventory, take_inventory
from gpuready.gpu.nvml import (
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    RESET_REQUIRED,
    Handle,
    Nvml,
    NvmlError,
)
from gpuready.gpu.tree import Tree

_OUR_FAULT = -1  # no NVML code


@dataclass(frozen=True)
class Pace:
    """event_wait_ms  longest wait in one call: also how soon `release` is heard
    inventory_s    between two looks at all GPUs
    probe_s        between two looks at the GPUs under suspicion
    inforom_s      between two looks at the infoROMs, whose corruption no event announces
    retry_s        after NVML refused
    """

    event_wait_ms: int = 2000
    inventory_s: float = 60.0
    probe_s: float = 1.0
    inforom_s: float = 10.0
    retry_s: float = 2.0


@dataclass(frozen=True)
class InventoryTaken:
    inventory: Inventory
    library: str


@dataclass(frozen=True)
class XidSeen:
    """`uuid` is "" when NVML could not say which GPU."""

    uuid: str
    code: int
    time: float


@dataclass(frozen=True)
class Probed:
    uuid: str
    probe: Probe


@dataclass(frozen=True)
class Unavailable:
    """NVML as a whole refused."""

    code: int
    name: str
    message: str


@dataclass(frozen=True)
class LibraryReplaced:
    """The driver's tree now holds another library than this process has loaded: only a new process helps."""

    loaded: str
    found: str


Fact = InventoryTaken | XidSeen | Probed | Unavailable | LibraryReplaced


class Feed:
    """start() once, stop() and join() once; `release` and `resume` as often as the driver comes and goes.

    driver  gives the tree to look for libnvidia-ml in, asked anew each time NVML is opened
    kernel  the tree with the host's /sys
    tell    called in the feed's thread with each fact
    """

    def __init__(
        self, driver: Callable[[], Tree], kernel: Tree, tell: Callable[[Fact], None], pace: Pace | None = None
    ) -> None:
        self._driver = driver
        self._kernel = kernel
        self._tell = tell
        self._pace = pace or Pace()
        self._wake = threading.Condition()
        self._stopping = False
        self._released = False
        self._look_now = False
        self._poked = False
        self._suspects: frozenset[str] = frozenset()
        self._owes_since: float | None = None
        self._library = ""
        self._inventory: Inventory | None = None
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
        self.holds_nvml = False

    # --- from the daemon's thread -----------------------------------------------------------------------
    def start(self) -> None:
        self._thread.start()

    def release(self) -> None:
        self._set(_released=True)

    def resume(self) -> None:
        self._set(_released=False)

    def look_now(self) -> None:
        """Take the inventory, or try NVML again, without waiting for the next turn."""
        self._set(_look_now=True)

    def suspect(self, uuids: Iterable[str]) -> None:
        """Probe these GPUs often from now on."""
        wanted = frozenset(uuids)
        if wanted != self._suspects:
            self._set(_suspects=wanted)

    def stop(self) -> None:
        """Give NVML up for good; `join` waits for it."""
        self._set(_stopping=True)

    def join(self, timeout_s: float) -> bool:
        """False when the thread still hangs in NVML; it ends with the process."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def silent_for(self) -> float:
        """Seconds for which NVML owes an answer; a wait for events owes none before its time is over."""
        since = self._owes_since
        return 0.0 if since is None else max(0.0, time.monotonic() - since)

    @property
    def loaded_library(self) -> str:
        """Path of the library in this process; "" before the first."""
        return self._library

    def _set(self, **flags: object) -> None:
        with self._wake:
            for name, value in flags.items():
                setattr(self, name, value)
            self._poked = True
            self._wake.notify()

    # --- the thread -------------------------------------------------------------------------------------
    def _run(self) -> None:
        while not self._stopping:
            if self._released:
                self._rest(None)
                continue
            try:
                self._hold()
            except NvmlError as exc:
                self._tell(Unavailable(exc.code, exc.name, exc.what))
                self._rest(self._pace.retry_s)
            except Exception as exc:  # a thread that ends says nothing: better a reason and another try
                said = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
                self._tell(Unavailable(_OUR_FAULT, type(exc).__name__, f"asking NVML failed: {said}"))
                self._rest(self._pace.retry_s)

    def _hold(self) -> None:
        """Open NVML and follow the GPUs until we are told to let go or NVML fails."""
        library = find_nvml_library(self._driver())
        if library is None:
            raise NvmlError(LIBRARY_NOT_FOUND, "search", "no libnvidia-ml.so.1 in the driver's tree")
        if self._library and self._library != str(library.path):
            self._tell(LibraryReplaced(self._library, str(library.path)))
            self._rest(None)
            return
        self._library = str(library.path)
        self._owes_since = time.monotonic()
        try:
            self.holds_nvml = True  # before it does: who asks in between is not told that the driver is free
            nvml = Nvml(library.path)
            try:
                self._follow(nvml)
            finally:
                nvml.close()
        finally:
            self.holds_nvml = False
            self._owes_since = None

    def _follow(self, nvml: Nvml) -> None:
        watched: frozenset[str] | None = None
        while self._is_wanted():
            handles = self._take_inventory(nvml)
            if frozenset(handles) != watched:
                nvml.watch_xids(handles)
                watched = frozenset(handles)
            if not self._wait_for_events(nvml):
                watched = None
                self._rest(0.2)

    def _take_inventory(self, nvml: Nvml) -> dict[str, Handle]:
        self._owes_since = time.monotonic()
        self._inventory = take_inventory(nvml, self._kernel, self._inventory)
        self._tell(InventoryTaken(self._inventory, self._library))
        return {
            gpu.uuid: nvml.handle_by_uuid(gpu.uuid) for gpu in self._inventory.gpus if _is_there(nvml, gpu)
        }

    def _wait_for_events(self, nvml: Nvml) -> bool:
        """Tell XIDs and probe suspects until the next inventory is due; False when a GPU broke the wait."""
        now = time.monotonic()
        inventory_due, probe_due = now + self._pace.inventory_s, now + self._pace.probe_s
        inforom_due = now + self._pace.inforom_s
        suspects = self._suspects
        while self._is_wanted() and not self._takes_look() and now < inventory_due:
            wait_ms = self._wait_ms()
            self._owes_since = now + wait_ms / 1000
            try:
                event = nvml.next_xid(wait_ms)
            except NvmlError as exc:
                if exc.code != GPU_IS_LOST:
                    raise
                return False
            if event is not None:
                self._tell(XidSeen(event.uuid, event.code, time.time()))
            now = time.monotonic()
            if self._suspects and (now >= probe_due or self._suspects != suspects):
                suspects = self._suspects
                self._probe(nvml, suspects)
                probe_due = now + self._pace.probe_s
            if now >= inforom_due:
                if self._inforom_has_changed(nvml):
                    return True
                inforom_due = now + self._pace.inforom_s
        return True

    def _inforom_has_changed(self, nvml: Nvml) -> bool:
        """One call for each GPU that has an infoROM; the inventory, which asks for everything, is rare."""
        known = self._inventory.gpus if self._inventory else ()
        for gpu in known:
            if gpu.inforom_valid is None:
                continue
            self._owes_since = time.monotonic()
            try:
                valid = nvml.is_inforom_valid(nvml.handle_by_uuid(gpu.uuid))
            except NvmlError:
                continue  # a GPU that is lost shows by its events and in the inventory
            if valid is not None and valid != gpu.inforom_valid:
                return True
        return False

    def _probe(self, nvml: Nvml, uuids: Iterable[str]) -> None:
        for uuid in sorted(uuids):
            self._owes_since = time.monotonic()
            self._tell(Probed(uuid, probe(nvml, uuid)))

    def _wait_ms(self) -> int:
        due_s = self._pace.probe_s if self._suspects else self._pace.inventory_s
        return min(self._pace.event_wait_ms, int(due_s * 1000))

    def _is_wanted(self) -> bool:
        return not (self._stopping or self._released)

    def _takes_look(self) -> bool:
        wanted, self._look_now = self._look_now, False
        return wanted

    def _rest(self, timeout_s: float | None) -> None:
        """Until the time is over or the daemon wants something."""
        self._owes_since = None
        with self._wake:
            self._wake.wait_for(lambda: self._poked, timeout_s)
            self._poked = self._look_now = False


def probe(nvml: Nvml, uuid: str) -> Probe:
    """Look at one GPU: does it answer, and what does the driver say it needs?"""
    try:
        handle = nvml.handle_by_uuid(uuid)
        nvml.memory_mib(handle)
        rows = nvml.remapped_rows(handle)
        return Probe(
            recovery_action=nvml.recovery_action(handle),
            remap_pending=rows.pending if rows else None,
            remap_failed=rows.failed if rows else None,
            energy_mj=nvml.energy_mj(handle),
        )
    except NvmlError as exc:
        return Probe(error=exc.name, lost=exc.code == GPU_IS_LOST, reset_required=exc.code == RESET_REQUIRED)


def _is_there(nvml: Nvml, gpu: GPU) -> bool:
    try:
        nvml.handle_by_uuid(gpu.uuid)
    except NvmlError:
        return False
    return True
