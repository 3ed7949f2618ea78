"""Faults of single calls: an error code, or a wait, for one function of NVML, of one GPU or of all.

DCGM's functions name no GPU, and their codes have no minus here: 21 is DCGM_ST_CONNECTION_NOT_VALID. CUDA's
codes are CUDA's own; its function "result" is none: while it fails, what a kernel has computed is wrong.

fail(state, "nvmlDeviceGetPowerUsage", code=999, gpu=3)
hang(state, "*", seconds=30, gpu=3)      every call that names GPU 3
mend(state)
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from gpuready_sim.errors import HardwareStateError
from gpuready_sim.hardware.layout import constants
from gpuready_sim.hardware.state import GpuState

EVERY_CALL = "*"
MAX_HANG_S = 3600
# What may go wrong with CUDA on one GPU, by a word: function, and CUDA's code that it answers (0: it hangs).
CUDA_FAULTS = {
    "system-not-ready": ("cuInit", 802),
    "no-device": ("cuInit", 100),
    "unavailable": ("cuDevicePrimaryCtxRetain", 46),
    "out-of-memory": ("cuDevicePrimaryCtxRetain", 2),
    "no-compiler": ("cuModuleLoadData", 221),
    "unsupported-ptx": ("cuModuleLoadData", 222),
    "launch-failed": ("cuCtxSynchronize", 719),
    "ecc": ("cuCtxSynchronize", 214),
    "hang": ("cuCtxSynchronize", 0),
    "wrong-result": ("result", 999),
}
# What errors are called on the command line: NVML's numbers.
CODES = {
    "uninitialized": 1,
    "invalid-argument": 2,
    "not-supported": 3,
    "no-permission": 4,
    "not-found": 6,
    "driver-not-loaded": 9,
    "timeout": 10,
    "gpu-is-lost": 15,
    "reset-required": 16,
    "in-use": 19,
    "no-data": 21,
    "not-ready": 27,
    "unknown": 999,
}


@dataclass(frozen=True)
class CallFault:
    """`gpu` None: every GPU. `code` 0: only the wait."""

    call: str
    gpu: int | None
    code: int
    hang_s: float


def fail(state: GpuState, call: str, code: int, gpu: int | None = None) -> None:
    """Let a call answer with this code."""
    _set(state, CallFault(call, gpu, code, 0))


def hang(state: GpuState, call: str, seconds: float, gpu: int | None = None) -> None:
    """Let a call wait so long, then answer; 0 ends the wait, also of those that are in it."""
    if not 0 <= seconds <= MAX_HANG_S:
        raise HardwareStateError(
            f"a hang of {seconds:g} s", why=f"it can last 0 to {MAX_HANG_S} s", next_step="give less"
        )
    _set(state, CallFault(call, gpu, 0, seconds))


def mend(state: GpuState, call: str = "", gpu: int | None = None) -> int:
    """End the faults of this call (all by default) and this GPU (None: any); how many there were."""
    ended = 0
    with state.writing() as record:
        for slot in record.call_faults:
            if not slot.active or call not in ("", slot.call.decode()):
                continue
            if gpu is not None and slot.gpu != gpu:
                continue
            slot.active, slot.hang_ms = 0, 0
            ended += 1
        _count(record)
    state.wake_hanging()
    return ended


def call_faults(state: GpuState) -> list[CallFault]:
    with state.writing() as record:
        return [
            CallFault(slot.call.decode(), _gpu_of(slot.gpu), slot.code, slot.hang_ms / 1000)
            for slot in record.call_faults
            if slot.active
        ]


def known_calls() -> frozenset[str]:
    """Every function of the libraries for NVML, DCGM and CUDA."""
    places = (("nvml", "symbols.txt"), ("dcgm", "symbols.txt"), ("nvml", "cuda_symbols.txt"))
    lists = (files(f"gpuready_sim.{library}").joinpath(name) for library, name in places)
    return frozenset(name for each in lists for name in each.read_text().split())


def _set(state: GpuState, fault: CallFault) -> None:
    if fault.call != EVERY_CALL and fault.call not in known_calls():
        raise HardwareStateError(
            f"neither NVML nor DCGM nor CUDA has a function {fault.call!r}",
            next_step="name one such as nvmlDeviceGetPowerUsage, or *",
        )
    with state.writing() as record:
        if fault.gpu is not None and not 0 <= fault.gpu < record.gpu_count:
            raise HardwareStateError(
                f"there is no GPU {fault.gpu}",
                why=f"the node has {record.gpu_count}",
                next_step="name one by index or uuid",
            )
        number = constants()["NVSIM_NO_INSTANCE"] if fault.gpu is None else fault.gpu
        slot = _slot_for(record, fault.call, number)
        slot.active = 0
        slot.call = fault.call.encode()
        slot.gpu, slot.code, slot.hang_ms = number, fault.code, int(fault.hang_s * 1000)
        slot.active = int(bool(fault.code or fault.hang_s))
        _count(record)
    state.wake_hanging()


def _slot_for(record: Any, call: str, gpu: int) -> Any:
    free = None
    for slot in record.call_faults:
        if slot.active and (slot.call.decode(), slot.gpu) == (call, gpu):
            return slot
        if not slot.active and free is None:
            free = slot
    if free is None:
        raise HardwareStateError(f"{len(record.call_faults)} calls fail already", next_step="mend one first")
    return free


def _count(record: Any) -> None:
    record.call_fault_count = sum(slot.active for slot in record.call_faults)


def _gpu_of(number: int) -> int | None:
    return None if number == constants()["NVSIM_NO_INSTANCE"] else number
