"""Which GPU instances a model can hold: the table in its record that NVML and mig.py read.

Geometry and figures are those of the vendor's listings (nvidia-smi mig -lgip): eight memory slices and seven
of compute, the starts of each size fixed. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Profile:
    """One kind of GPU instance: NVML's number of the kind, the id that creating takes, memory slices."""

    profile: int
    id: int
    slices: int
    size: int
    starts: tuple[int, ...]
    most: int
    copy_engines: int
    suffix: str = ""


# NVML profile, id, compute slices, memory slices, starts, most, copy engines
_KINDS = (
    Profile(0, 19, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, 1),
    Profile(7, 20, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1, 1, "+me"),
    Profile(9, 15, 1, 2, (0, 2, 4, 6), 4, 1),
    Profile(1, 14, 2, 2, (0, 2, 4), 3, 2),
    Profile(2, 9, 3, 4, (0, 4), 2, 3),
    Profile(3, 5, 4, 4, (0,), 1, 4),
    Profile(4, 0, 7, 8, (0,), 1, 7),
)
# MiB by memory slices, multiprocessors by compute slices
_FIGURES = {
    "A100-SXM4-40GB": ({1: 4864, 2: 9856, 4: 19968, 8: 40192}, {1: 14, 2: 28, 3: 42, 4: 56, 7: 98}),
    "H100-SXM5-80GB": ({1: 9984, 2: 20096, 4: 40448, 8: 81152}, {1: 16, 2: 32, 3: 60, 4: 64, 7: 132}),
}


def write_profiles(gpu: Any, model_key: str) -> None:
    """Fill an `nvsim_gpu`'s table of profiles; a model without MIG has none."""
    if model_key not in _FIGURES:
        return
    memory, multiprocessors = _FIGURES[model_key]
    total_gib = -(-gpu.memory_mib // 1024)
    for place, kind in enumerate(_KINDS):
        slot = gpu.profiles[place]
        gb = round(kind.size / 8 * total_gib)
        slot.name = f"{kind.slices}g.{gb}gb{kind.suffix}".encode()
        slot.profile, slot.id, slot.slices, slot.size = kind.profile, kind.id, kind.slices, kind.size
        slot.starts = sum(1 << start for start in kind.starts)
        slot.most = kind.most
        slot.memory_mib = memory[kind.size]
        slot.multiprocessors = multiprocessors[kind.slices]
        slot.copy_engines = kind.copy_engines
        slot.decoders = slot.jpegs = kind.slices if model_key.startswith("H100") else kind.slices // 2
    gpu.profile_count = len(_KINDS)
