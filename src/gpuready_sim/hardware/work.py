"""What a GPU is made to do, and what happens to it: load, processes, throttling, errors that are counted."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from gpuready_sim.errors import HardwareStateError
from gpuready_sim.hardware.course import Course
from gpuready_sim.hardware.settle import REASONS, write_course
from gpuready_sim.hardware.state import GpuState

# What error counters are called -> the fields of an nvsim_gpu that grow.
ERRORS = {
    "ecc-corrected": ("ecc_corrected_volatile", "ecc_corrected_aggregate"),
    "ecc-uncorrected": ("ecc_uncorrected_volatile", "ecc_uncorrected_aggregate"),
    "pcie-replay": ("pcie_replays",),
    "pcie-correctable": ("pcie_correctable_errors",),
    "nvlink-crc-flit": ("nvlink_crc_flit_errors",),
    "nvlink-crc-data": ("nvlink_crc_data_errors",),
    "nvlink-replay": ("nvlink_replays",),
    "nvlink-recovery": ("nvlink_recoveries",),
    "row-remap-correctable": ("remap_correctable",),
    "row-remap-uncorrectable": ("remap_uncorrectable",),
    "page-retired-single": ("retired_single_bit",),
    "page-retired-double": ("retired_double_bit",),
}

FLAGS = {
    "row-remap-pending": "remap_pending",
    "row-remap-failed": "remap_failed",
    "memory-unrepairable": "memory_unrepairable",
    "page-retirement-pending": "retired_pending",
}


@dataclass(frozen=True)
class Context:
    """A process with memory on a GPU. `sm_percent` 0: an equal share; `gpu_instance`: inside this one."""

    pid: int
    mib: int
    sm_percent: int = 0
    gpu_instance: int | None = None


def set_load(state: GpuState, index: int, course: Course) -> None:
    """How busy the GPU is from now on."""
    with state.changing(index) as gpu:
        write_course(gpu.load, course, state.now_us)


def throttle(state: GpuState, index: int, reasons: Sequence[str]) -> None:
    """What holds the clocks back from now on, by the names in settle.REASONS; none lets them go."""
    for reason in reasons:
        if reason not in REASONS:
            raise HardwareStateError(
                f"{reason!r} is no reason to hold clocks back",
                why=f"there are {', '.join(REASONS)}",
                next_step="choose of them",
            )
    with state.changing(index) as gpu:
        gpu.clocks_reasons = sum({REASONS[reason] for reason in reasons})


def set_contexts(state: GpuState, index: int, contexts: Sequence[Context]) -> None:
    """Exactly these processes on the GPU; those that do not run are not reported."""
    with state.changing(index) as gpu:
        room = len(gpu.processes)
        if len(contexts) > room:
            raise HardwareStateError(
                f"{len(contexts)} processes on GPU {index}",
                why=f"there is room for {room}",
                next_step="end some",
            )
        ctypes.memset(ctypes.byref(gpu.processes), 0, ctypes.sizeof(gpu.processes))
        for slot, context in zip(gpu.processes, contexts, strict=False):
            slot.memory_bytes = context.mib * 1024 * 1024
            slot.sm_percent = context.sm_percent
            if context.gpu_instance is not None:
                slot.in_partition, slot.gpu_instance, slot.compute_instance = 1, context.gpu_instance, 0
            slot.pid = context.pid


def contexts(state: GpuState, index: int) -> list[Context]:
    """The processes on the GPU, those that have ended since included."""
    with state.changing(index) as gpu:
        return [
            Context(
                slot.pid,
                slot.memory_bytes // (1024 * 1024),
                slot.sm_percent,
                slot.gpu_instance if slot.in_partition else None,
            )
            for slot in gpu.processes
            if slot.pid
        ]


def set_share_everywhere(state: GpuState, pid: int, sm_percent: int) -> None:
    """How much of their time one process takes of the GPUs it is on; 0: an equal share of the rest."""
    for gpu in state.gpus():
        with state.changing(gpu.index) as record:
            for slot in record.processes:
                if slot.pid == pid:
                    slot.sm_percent = sm_percent


def count_error(state: GpuState, index: int, kind: str, number: int = 1) -> None:
    """Let one of ERRORS have happened so many times more."""
    if kind not in ERRORS:
        raise HardwareStateError(
            f"there is no error {kind!r}",
            why=f"there are {', '.join(ERRORS)}",
            next_step="choose one of them",
        )
    with state.changing(index) as gpu:
        for field in ERRORS[kind]:
            setattr(gpu, field, getattr(gpu, field) + number)


def set_flag(state: GpuState, index: int, name: str, on: bool = True) -> None:
    """Let one of FLAGS be so, or no longer."""
    if name not in FLAGS:
        raise HardwareStateError(
            f"there is no flag {name!r}", why=f"there are {', '.join(FLAGS)}", next_step="choose one of them"
        )
    with state.changing(index) as gpu:
        setattr(gpu, FLAGS[name], int(on))
