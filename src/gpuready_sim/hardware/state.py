"""gpus.state from the other side: what the simulator does to the GPUs of a node.

Every change is one `with self._writing()`: an exclusive file lock, and for strings an odd sequence number
while they change. Processes that wait in NVML are woken through futexes in the file.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from gpuready_sim.errors import HardwareStateError
from gpuready_sim.hardware.catalogue import Model
from gpuready_sim.hardware.course import Course
from gpuready_sim.hardware.layout import constants, structures
from gpuready_sim.hardware.record import describe_gpu
from gpuready_sim.hardware.settle import restart, settle, write_course

EVENT_SINGLE_BIT_ECC = 1
EVENT_DOUBLE_BIT_ECC = 2
EVENT_XID = 8

RECOVERY_NONE = 0
RECOVERY_RESET = 1
RECOVERY_REBOOT = 2
# What our NVML asks for after an XID (nvmlDeviceGpuRecoveryAction). 48, 79 and 109 follow the cases that we
# test; the other codes are our reading of the vendor's catalogue. Codes that are not here ask for nothing.
RECOVERY_AFTER_XID = {
    **dict.fromkeys((48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156), RECOVERY_RESET),
    79: RECOVERY_REBOOT,
}
_RESETLESS_MIG = 9  # from this compute capability on MIG mode does not outlive a reboot; instances never do
FALLEN_OFF_THE_BUS = 79
DOUBLE_BIT_ECC = 48

_FUTEX_WAKE = 1
_SYS_FUTEX = {"x86_64": 202}
_SYS_FUTEX_GENERIC = 98  # aarch64, riscv64 and later


class Holder(NamedTuple):
    """A process that has NVML open."""

    pid: int
    command: str


@dataclass(frozen=True)
class GpuInfo:
    """One GPU of the node as it is now. `pci_address` in sysfs form: 0000:1a:00.0."""

    index: int
    uuid: str
    name: str
    minor: int
    pci_address: str
    pci_device_id: int
    pci_subsystem_id: int
    pci_class: int
    numa_node: int
    memory_mib: int
    lost: bool
    inforom_corrupt: bool
    recovery_action: int
    remap_pending: bool
    last_xid: int
    resets: int


class GpuState:
    """An open gpus.state. Cheap to open; close it, or use it in a `with`."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        layout = structures()["nvsim_state"]
        try:
            if os.fstat(self._file).st_size != ctypes.sizeof(layout):
                raise HardwareStateError(
                    f"{self.path} is no GPU state file of this version",
                    why=f"it has {os.fstat(self._file).st_size} bytes, not {ctypes.sizeof(layout)}",
                    next_step="create the cluster again",
                )
            self._map = mmap.mmap(self._file, 0)
        except BaseException:
            os.close(self._file)
            raise
        self._state: Any = layout.from_buffer(self._map)

    @classmethod
    def create(cls, path: Path | str, models: Sequence[Model], *, seed: str, boot_id: str = "") -> Self:
        """A new file with one healthy GPU per model and no driver loaded.

        seed      what UUIDs and serial numbers are made from: the node's name
        """
        limit = constants()["NVSIM_MAX_GPUS"]
        if len(models) > limit:
            raise HardwareStateError(
                f"{seed} has {len(models)} GPUs",
                why=f"a simulated node holds at most {limit}",
                next_step="spread them over several nodes",
            )
        image: Any = structures()["nvsim_state"]()
        image.magic = constants()["NVSIM_MAGIC"]
        image.version = constants()["NVSIM_VERSION"]
        image.size = ctypes.sizeof(image)
        image.gpu_count = len(models)
        image.boot_id = boot_id.encode()
        for index, model in enumerate(models):
            describe_gpu(image.gpus[index], model, index, seed)
        path = Path(path)
        cls._retire(path)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_bytes(bytes(image))
        fresh.replace(path)
        return cls(path)

    @classmethod
    def _retire(cls, path: Path) -> None:
        """Whoever still has the file mapped that is about to be replaced finds no driver in it."""
        try:
            with cls(path) as old:
                old._state.retired = 1
                old._wake("event_word")
                old._wake("hang_word")
        except (FileNotFoundError, HardwareStateError):
            pass

    def close(self) -> None:
        if self._file >= 0:
            del self._state
            # The frames of an error that is on its way hold on to a GPU of it; it goes with the last of them.
            with suppress(BufferError):
                self._map.close()
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the driver's module ---------------------------------------------------------------------------

    @property
    def module_version(self) -> str | None:
        """The loaded module's version, or None."""
        return self._state.driver_version.decode() if self._state.loaded else None

    @property
    def boot_id(self) -> str:
        text: bytes = self._state.boot_id
        return text.decode()

    def load_module(self, version: str) -> None:
        with self._writing(), self._changing_strings():
            self._state.driver_version = version.encode()
            self._state.generation += 1
            for gpu in self._gpus():
                restart(gpu, self.now_us)
            self._state.loaded = 1

    def unload_module(self) -> None:
        """Whoever still has NVML open gets "driver not loaded" from then on, also if it is loaded again."""
        with self._writing(), self._changing_strings():
            self._state.loaded = 0
            self._state.generation += 1
            self._state.driver_version = b""
        self._wake("event_word")

    def reboot(self, boot_id: str) -> None:
        """The machine starts anew: no module, no holders, no processes, every GPU back on the bus."""
        with self._writing(), self._changing_strings():
            self._state.loaded = 0
            self._state.generation += 1
            self._state.driver_version = b""
            self._state.boot_id = boot_id.encode()
            self._state.hang_ms = 0
            ctypes.memset(ctypes.byref(self._state.holders), 0, ctypes.sizeof(self._state.holders))
            for gpu in self._gpus():
                _clear_faults(gpu)
                gpu.lost = 0
                gpu.mig_enabled = gpu.mig_pending = (
                    gpu.mig_pending if gpu.compute_major < _RESETLESS_MIG else 0
                )
                for entry in (*gpu.instances, *gpu.compute):
                    entry.present = 0
                ctypes.memset(ctypes.byref(gpu.processes), 0, ctypes.sizeof(gpu.processes))
        self._wake("event_word")
        self._wake("hang_word")

    def holders(self) -> list[Holder]:
        """Processes with NVML open; those that were killed do not count."""
        return [
            Holder(entry.pid, _command_of(entry.pid))
            for entry in self._state.holders
            if entry.pid and _start_time_of(entry.pid) == entry.started
        ]

    # --- faults ----------------------------------------------------------------------------------------

    def raise_xid(
        self, index: int, code: int, *, gpu_instance: int | None = None, compute_instance: int | None = None
    ) -> None:
        """Log an XID: every registered event set gets it, and the GPU asks for what the code asks for."""
        with self._writing():
            gpu = self._gpu(index)
            gpu.last_xid = code
            gpu.recovery_action = max(gpu.recovery_action, RECOVERY_AFTER_XID.get(code, RECOVERY_NONE))
            if code == DOUBLE_BIT_ECC:
                gpu.remap_pending = 1
                gpu.ecc_uncorrected_volatile += 1
                gpu.ecc_uncorrected_aggregate += 1
            if code == FALLEN_OFF_THE_BUS:
                gpu.lost = 1
            self._add_event(index, EVENT_XID, code, (gpu_instance, compute_instance))
        self._wake("event_word")

    def raise_event(self, index: int, event_type: int, data: int = 0) -> None:
        """Any other NVML event, such as EVENT_SINGLE_BIT_ECC."""
        with self._writing():
            self._gpu(index)
            self._add_event(index, event_type, data)
        self._wake("event_word")

    def set_lost(self, index: int, lost: bool = True) -> None:
        """Take the GPU off the bus without an XID, or put it back."""
        with self._writing():
            gpu = self._gpu(index)
            gpu.lost = int(lost)
            gpu.recovery_action = RECOVERY_REBOOT if lost else RECOVERY_NONE
        self._wake("event_word")

    def reset(self, index: int) -> bool:
        """What `nvidia-smi --gpu-reset` does; False when the GPU is lost: only a reboot helps it."""
        with self._writing():
            gpu = self._gpu(index)
            if gpu.lost:
                return False
            if gpu.remap_pending:
                gpu.remap_uncorrectable += 1
            _clear_faults(gpu)
            gpu.resets += 1
        return True

    def set_inforom_corrupt(self, index: int, corrupt: bool = True) -> None:
        with self._writing():
            self._gpu(index).inforom_corrupt = int(corrupt)

    def set_remap_pending(self, index: int, pending: bool = True) -> None:
        with self._writing():
            self._gpu(index).remap_pending = int(pending)

    @property
    def hang_s(self) -> float:
        """How long each NVML call takes."""
        return int(self._state.hang_ms) / 1000

    def set_hang_s(self, seconds: float) -> None:
        """Each NVML call of every process takes this long; 0 lets even the waiting ones go."""
        with self._writing():
            self._state.hang_ms = int(seconds * 1000)
        self._wake("hang_word")

    # --- load ------------------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        """The machine's clock in microseconds since 1970."""
        stopped = int(self._state.clock_us)
        return stopped or time.time_ns() // 1000

    def stop_clock(self, at_us: int | None = None) -> None:
        """Let the machine's clock stand still, at this time or now."""
        with self._writing():
            self._state.clock_us = self.now_us if at_us is None else at_us

    def advance_clock(self, seconds: float) -> None:
        """Move a stopped clock."""
        with self._writing():
            self._state.clock_us = self.now_us + round(seconds * 1_000_000)

    @contextmanager
    def changing(self, index: int) -> Iterator[Any]:
        """The `nvsim_gpu`, settled, to change what drives its counters."""
        with self._writing():
            gpu = self._gpu(index)
            settle(gpu, self.now_us)
            yield gpu

    def set_utilization(
        self,
        index: int,
        *,
        gpu: int | None = None,
        memory: int | None = None,
        encoder: int | None = None,
        decoder: int | None = None,
        used_mib: int | None = None,
        power_w: float | None = None,
        temperature_c: int | None = None,
    ) -> None:
        """Percentages 0-100. Memory, power and temperature follow `gpu` unless set; 0: follow again."""
        changes = {
            "utilization_memory": memory,
            "utilization_encoder": encoder,
            "utilization_decoder": decoder,
            "memory_used_mib": used_mib,
            "power_mw": None if power_w is None else int(power_w * 1000),
            "temperature_c": temperature_c,
        }
        with self.changing(index) as record:
            if gpu is not None:
                write_course(record.load, Course.constant(gpu), self.now_us)
            for field, value in changes.items():
                if value is not None:
                    setattr(record, field, value)

    def set_processes(self, index: int, processes: Sequence[tuple[int, int]]) -> None:
        """Compute processes on the GPU as (pid, MiB); those that do not run are not reported."""
        with self._writing():
            record = self._gpu(index)
            ctypes.memset(ctypes.byref(record.processes), 0, ctypes.sizeof(record.processes))
            for slot, (pid, mib) in zip(record.processes, processes, strict=False):
                slot.pid = pid
                slot.memory_bytes = mib * 1024 * 1024

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """The whole `nvsim_state`, locked."""
        with self._writing():
            yield self._state

    def wake_hanging(self) -> None:
        """Let calls that sit out a hang look again how long it lasts."""
        self._wake("hang_word")

    def gpus(self) -> list[GpuInfo]:
        return [_info(index, record) for index, record in enumerate(self._gpus())]

    # --- inside ----------------------------------------------------------------------------------------

    def _gpus(self) -> list[Any]:
        return [self._state.gpus[index] for index in range(self._state.gpu_count)]

    def _gpu(self, index: int) -> Any:
        count = self._state.gpu_count
        if not 0 <= index < count:
            raise HardwareStateError(
                f"there is no GPU {index}",
                why=f"the node has {count}",
                next_step=f"use an index from 0 to {count - 1}" if count else "choose a node with GPUs",
            )
        return self._state.gpus[index]

    def _add_event(
        self, index: int, event_type: int, data: int, instances: tuple[int | None, int | None] = (None, None)
    ) -> None:
        nowhere = constants()["NVSIM_NO_INSTANCE"]
        event = self._state.events[self._state.event_head % constants()["NVSIM_MAX_EVENTS"]]
        event.gpu, event.type, event.data = index, event_type, data
        event.gpu_instance, event.compute_instance = (nowhere if i is None else i for i in instances)
        self._state.event_head = (self._state.event_head + 1) & 0xFFFFFFFF

    @contextmanager
    def _writing(self) -> Iterator[None]:
        # A descriptor of its own: flock belongs to the open file, so two threads exclude each other too.
        lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    @contextmanager
    def _changing_strings(self) -> Iterator[None]:
        self._state.sequence |= 1
        try:
            yield
        finally:
            self._state.sequence = (self._state.sequence + 1) & 0xFFFFFFFF

    def _wake(self, word: str) -> None:
        """Change a futex word and wake everybody who sleeps on it; not from within `_writing`."""
        with self._writing():  # a lost increment would be a lost wake-up
            setattr(self._state, word, (getattr(self._state, word) + 1) & 0xFFFFFFFF)
        offset = getattr(type(self._state), word).offset
        address = ctypes.addressof(self._state) + offset
        number = _SYS_FUTEX.get(platform.machine(), _SYS_FUTEX_GENERIC)
        ctypes.CDLL(None, use_errno=True).syscall(
            ctypes.c_long(number), ctypes.c_void_p(address), _FUTEX_WAKE, 2**31 - 1, None, None, 0
        )


def _clear_faults(gpu: Any) -> None:
    gpu.recovery_action = RECOVERY_NONE
    gpu.remap_pending = 0
    gpu.last_xid = 0
    gpu.ecc_corrected_volatile = 0
    gpu.ecc_uncorrected_volatile = 0


def _info(index: int, gpu: Any) -> GpuInfo:
    return GpuInfo(
        index=index,
        uuid=gpu.uuid.decode(),
        name=gpu.name.decode(),
        minor=gpu.minor,
        pci_address=f"{gpu.pci_domain:04x}:{gpu.pci_bus:02x}:{gpu.pci_device:02x}.0",
        pci_device_id=gpu.pci_device_id >> 16,
        pci_subsystem_id=gpu.pci_subsystem_id >> 16,
        pci_class=gpu.pci_class,
        numa_node=gpu.numa_node,
        memory_mib=gpu.memory_mib,
        lost=bool(gpu.lost),
        inforom_corrupt=bool(gpu.inforom_corrupt),
        recovery_action=gpu.recovery_action,
        remap_pending=bool(gpu.remap_pending),
        last_xid=gpu.last_xid,
        resets=gpu.resets,
    )


def _start_time_of(pid: int) -> int:
    """Field 22 of /proc/<pid>/stat, 0 when the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] in "ZX" else int(fields[19])


def _command_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return "?"
    return b" ".join(words).decode(errors="replace")
