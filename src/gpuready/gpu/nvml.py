"""NVML: the only module that touches pynvml and libnvidia-ml.

One `Nvml` at a time, used from one thread. The library is loaded by its path in a driver's tree, so that a
daemon talks to the driver it was told of; pynvml is imported when the first one is opened. A process that
must change to another library version starts anew: a loaded library cannot be replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CDLL, c_void_p, cast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuready.errors import HardwareError

DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
CORRUPTED_INFOROM = 14
GPU_IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 18
_NOT_SUPPORTED = 3
_NOT_FOUND = 6
_TIMEOUT = 10
_INVALID_ARGUMENT = 2

CODE_NAMES = {
    1: "Uninitialized",
    2: "InvalidArgument",
    3: "NotSupported",
    4: "NoPermission",
    6: "NotFound",
    9: "DriverNotLoaded",
    10: "Timeout",
    12: "LibraryNotFound",
    13: "FunctionNotFound",
    14: "CorruptedInfoRom",
    15: "GpuIsLost",
    16: "ResetRequired",
    17: "OperatingSystem",
    18: "DriverLibraryMismatch",
    19: "InUse",
    20: "Memory",
    27: "NotReady",
    28: "GpuNotFound",
    29: "InvalidState",
    999: "Unknown",
}

Handle = Any


class NvmlError(HardwareError):
    """NVML's answer to one call: `code` as in nvml.h and its name."""

    def __init__(self, code: int, call: str, detail: str = "") -> None:
        self.code = code
        self.name = CODE_NAMES.get(code, f"Code{code}")
        super().__init__(f"{call} answered {self.name} ({code})" + (f": {detail}" if detail else ""))


@dataclass(frozen=True)
class XidEvent:
    """One critical XID; `uuid` is "" when NVML could not say of which GPU."""

    uuid: str
    code: int


@dataclass(frozen=True)
class Partition:
    """A MIG device: uuid "MIG-…", index among those of its GPU, ids of its GPU and compute instance.

    product  the GPU's name with the profile: "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    """

    uuid: str
    index: int
    gpu_instance: int
    compute_instance: int
    product: str = ""


@dataclass(frozen=True)
class RemappedRows:
    pending: bool
    failed: bool


def _without_folder(exc: OSError, library: Path) -> str:
    """The loader's words; where we see the driver's tree is nothing to those who read them."""
    return str(exc).replace(str(library), library.name)


class Nvml:
    """An initialised library. Values come back in our units; errors are `NvmlError`.

    Getters that a model may lack return None for "not supported".
    """

    def __init__(self, library: Path) -> None:
        """raises NvmlError: LibraryNotFound, DriverNotLoaded, DriverLibraryMismatch, ..."""
        import pynvml

        self._pynvml = pynvml
        self.library = library
        if pynvml.nvmlLib is None:
            try:
                pynvml.nvmlLib = CDLL(str(library))
            except OSError as exc:
                raise NvmlError(LIBRARY_NOT_FOUND, "dlopen", _without_folder(exc, library)) from exc
        self._call("nvmlInitWithFlags", 0)
        self._event_set: Any = None
        self._uuids: dict[int, str] = {}
        self._left_over: list[XidEvent] = []

    def close(self) -> None:
        """Give up the driver: after this nothing of ours keeps the kernel module busy."""
        if self._event_set is not None:
            self._try("nvmlEventSetFree", self._event_set)
            self._event_set = None
        self._try("nvmlShutdown")

    # --- the node ---------------------------------------------------------------------------------------
    def driver_version(self) -> str:
        return _text(self._call("nvmlSystemGetDriverVersion"))

    def cuda_version(self) -> tuple[int, int]:
        value = int(self._call("nvmlSystemGetCudaDriverVersion_v2"))
        return value // 1000, value % 1000 // 10

    def count(self) -> int:
        return int(self._call("nvmlDeviceGetCount"))

    # --- one GPU ----------------------------------------------------------------------------------------
    def handle(self, index: int) -> Handle:
        return self._call("nvmlDeviceGetHandleByIndex", index)

    def handle_by_uuid(self, uuid: str) -> Handle:
        return self._call("nvmlDeviceGetHandleByUUID", uuid)

    def uuid(self, handle: Handle) -> str:
        return _text(self._call("nvmlDeviceGetUUID", handle))

    def product(self, handle: Handle) -> str:
        return _text(self._call("nvmlDeviceGetName", handle))

    def minor(self, handle: Handle) -> int:
        return int(self._call("nvmlDeviceGetMinorNumber", handle))

    def pci_address(self, handle: Handle) -> str:
        """As sysfs writes it: "0000:1a:00.0"."""
        return short_pci_address(_text(self._call("nvmlDeviceGetPciInfo", handle).busId))

    def memory_mib(self, handle: Handle) -> int:
        return int(self._call("nvmlDeviceGetMemoryInfo", handle).total) // 2**20

    def compute_capability(self, handle: Handle) -> tuple[int, int]:
        major, minor = self._call("nvmlDeviceGetCudaComputeCapability", handle)
        return int(major), int(minor)

    def mig_mode(self, handle: Handle) -> bool | None:
        """True when MIG is on, False when it is off, None when the GPU has no MIG."""
        modes = self._supported("nvmlDeviceGetMigMode", handle)
        return None if modes is None else bool(modes[0])

    def partitions(self, handle: Handle) -> list[Partition]:
        """The MIG devices of a GPU by their index, which may have gaps; [] where there are none."""
        found = []
        for index in range(int(self._supported("nvmlDeviceGetMaxMigDeviceCount", handle) or 0)):
            try:
                mig = self._call("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
            except NvmlError as exc:
                if exc.code in (_NOT_FOUND, _NOT_SUPPORTED, _INVALID_ARGUMENT):
                    continue
                raise
            gpu_instance = int(self._call("nvmlDeviceGetGpuInstanceId", mig))
            compute_instance = int(self._call("nvmlDeviceGetComputeInstanceId", mig))
            found.append(Partition(self.uuid(mig), index, gpu_instance, compute_instance, self.product(mig)))
        return found

    def is_inforom_valid(self, handle: Handle) -> bool | None:
        try:
            self._supported("nvmlDeviceValidateInforom", handle)
        except NvmlError as exc:
            if exc.code == CORRUPTED_INFOROM:
                return False
            raise
        return True

    def remapped_rows(self, handle: Handle) -> RemappedRows | None:
        rows = self._supported("nvmlDeviceGetRemappedRows", handle)
        return None if rows is None else RemappedRows(pending=bool(rows[2]), failed=bool(rows[3]))

    def recovery_action(self, handle: Handle) -> int | None:
        """0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset; None where the driver does not tell."""
        field = self._pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
        values = self._supported("nvmlDeviceGetFieldValues", handle, [field])
        if values is None or values[0].nvmlReturn != 0:
            return None
        return int(values[0].value.uiVal)

    def compute_mode(self, handle: Handle) -> int:
        """0 default, 2 prohibited, 3 exclusive process; of a MIG device its GPU's."""
        gpu = self._supported("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle) or handle
        return int(self._supported("nvmlDeviceGetComputeMode", gpu) or 0)

    def compute_processes(self, handle: Handle) -> int:
        """How many hold a context there, as far as this container may know of them."""
        return len(self._supported("nvmlDeviceGetComputeRunningProcesses", handle) or ())

    def memory_use_mib(self, handle: Handle) -> tuple[int, int]:
        """(used, free); what the driver keeps for itself counts as neither where it says how much that is."""
        info = self._supported("nvmlDeviceGetMemoryInfo", handle, self._pynvml.nvmlMemory_v2)
        if info is None:
            info = self._call("nvmlDeviceGetMemoryInfo", handle)
        return int(info.used) // 2**20, int(info.free) // 2**20

    def energy_mj(self, handle: Handle) -> int | None:
        """Consumed since the driver was loaded or the GPU was reset: it goes back only then."""
        value = self._supported("nvmlDeviceGetTotalEnergyConsumption", handle)
        return None if value is None else int(value)

    def common_ancestor(self, one: Handle, other: Handle) -> int | None:
        """0 same board, 10 one switch, 20 several, 30 host bridge, 40 NUMA node, 50 system."""
        value = self._supported("nvmlDeviceGetTopologyCommonAncestor", one, other)
        return None if value is None else int(value)

    def nvlink_peers(self, handle: Handle) -> list[str]:
        """PCI address at the far end of each active link; a switch has one too."""
        peers = []
        for link in range(self._pynvml.NVML_NVLINK_MAX_LINKS):
            try:
                if not self._call("nvmlDeviceGetNvLinkState", handle, link):
                    continue
                info = self._call("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
            except NvmlError:
                break
            peers.append(short_pci_address(_text(info.busId)))
        return peers

    # --- events -----------------------------------------------------------------------------------------
    def watch_xids(self, handles: dict[str, Handle]) -> dict[str, NvmlError]:
        """Register for critical XIDs of these GPUs (by uuid); returns those that refused, with why.

        Replaces an earlier registration without losing what was raised meanwhile: see `next_xid`.
        """
        fresh = self._call("nvmlEventSetCreate")
        kind = self._pynvml.nvmlEventTypeXidCriticalError
        refused: dict[str, NvmlError] = {}
        for uuid, handle in handles.items():
            self._uuids[_address(handle)] = uuid
            try:
                self._call("nvmlDeviceRegisterEvents", handle, kind, fresh)
            except NvmlError as exc:
                refused[uuid] = exc
        self._drain_old_set()
        self._event_set = fresh
        return refused

    def next_xid(self, timeout_ms: int) -> XidEvent | None:
        """Wait for one event; None after the timeout.

        raises  NvmlError, among them GpuIsLost when a watched GPU has gone
        """
        if self._left_over:
            return self._left_over.pop(0)
        return self._wait(timeout_ms)

    def _wait(self, timeout_ms: int) -> XidEvent | None:
        try:
            data = self._call("nvmlEventSetWait_v2", self._event_set, timeout_ms)
        except NvmlError as exc:
            if exc.code == _TIMEOUT:
                return None
            raise
        if data.eventType != self._pynvml.nvmlEventTypeXidCriticalError:
            return None
        return XidEvent(self._uuid_of_event(data.device), int(data.eventData))

    def _drain_old_set(self) -> None:
        if self._event_set is None:
            return
        try:
            while event := self._wait(0):
                self._left_over.append(event)
        except NvmlError:
            pass
        self._try("nvmlEventSetFree", self._event_set)

    def _uuid_of_event(self, handle: Handle) -> str:
        """A GPU that is lost no longer tells its uuid, but its handle is the one that was registered."""
        known = self._uuids.get(_address(handle))
        if known:
            return known
        try:
            return self.uuid(handle)
        except NvmlError:
            return ""

    # --- calling ----------------------------------------------------------------------------------------
    def _call(self, name: str, *args: Any) -> Any:
        function: Callable[..., Any] = getattr(self._pynvml, name)
        try:
            return function(*args)
        except self._pynvml.NVMLError as exc:
            raise NvmlError(exc.value, name) from exc

    def _supported(self, name: str, *args: Any) -> Any:
        try:
            return self._call(name, *args)
        except NvmlError as exc:
            if exc.code in (_NOT_SUPPORTED, FUNCTION_NOT_FOUND, _INVALID_ARGUMENT):
                return None
            raise

    def _try(self, name: str, *args: Any) -> None:
        try:
            self._call(name, *args)
        except NvmlError:
            pass


def short_pci_address(bus_id: str) -> str:
    """NVML's "00000000:1B:00.0" as sysfs writes it, "0000:1b:00.0"."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _address(handle: Handle) -> int:
    return cast(handle, c_void_p).value or 0


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
