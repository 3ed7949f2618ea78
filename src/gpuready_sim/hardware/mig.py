"""MIG on a simulated GPU: what its model can hold, where an instance goes, and the making of instances.

    enable(state, 0); add(state, 0, "1g.10gb"); add(state, 0, "3g.40gb")
    disable(state, 0)

GPU instance ids are given out from 1 on (7 for the
first 1g, as drivers do, is not reproduced).
"""

from __future__ import annotations

import ctypes
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from gpuready_sim.errors import HardwareStateError
from gpuready_sim.hardware.course import Course
from gpuready_sim.hardware.settle import write_course
from gpuready_sim.hardware.state import GpuState

COMPUTE_SLICES = 7


def enable(state: GpuState, index: int) -> None:
    """MIG on, without instances; refused while processes are on the GPU, as by the driver."""
    with state.changing(index) as gpu:
        _refuse_without_mig(gpu, index)
        gpu.mig_enabled = gpu.mig_pending = 1


def _refuse_without_mig(gpu: Any, index: int) -> None:
    if not gpu.mig_capable:
        raise HardwareStateError(f"GPU {index} has no MIG", next_step="choose an A100 or an H100")


def disable(state: GpuState, index: int) -> None:
    """All instances away, MIG off."""
    with state.changing(index) as gpu:
        _clear(gpu)
        gpu.mig_enabled = gpu.mig_pending = 0


def add(state: GpuState, index: int, name: str) -> str:
    """Make a GPU instance of this profile with one compute instance in it; the MIG device's UUID.

    raises HardwareStateError when MIG is off, the profile unknown, or there is no room
    """
    with state.changing(index) as gpu:
        if not gpu.mig_enabled:
            raise HardwareStateError(f"MIG is off on GPU {index}", next_step="enable it first")
        kind = _kind_of(gpu, index, name)
        place = _free_place(gpu.instances)
        start = find_start(gpu, kind)
        if start is None or place is None:
            raise HardwareStateError(
                f"there is no room for {name} on GPU {index}",
                why=f"it holds {', '.join(_names(gpu)) or 'nothing'}",
                next_step="ask for fewer or smaller profiles",
            )
        return _make(gpu, place, kind, start)


def layout(state: GpuState, index: int, names: Sequence[str]) -> list[str]:
    """MIG on with exactly these instances, largest first; their devices' UUIDs in the order given.

    raises HardwareStateError, and the GPU is as it was
    """
    with state.changing(index) as gpu:
        _refuse_without_mig(gpu, index)
        for name in names:
            _kind_of(gpu, index, name)
        images = bytes(gpu.instances), bytes(gpu.compute)
        before = gpu.mig_enabled, gpu.mig_pending
    try:
        return _laid_out(state, index, names)
    except HardwareStateError:
        with state.changing(index) as gpu:
            for entries, image in zip((gpu.instances, gpu.compute), images, strict=True):
                ctypes.memmove(entries, image, len(image))
            gpu.mig_enabled, gpu.mig_pending = before
        raise


def _laid_out(state: GpuState, index: int, names: Sequence[str]) -> list[str]:
    enable(state, index)
    with state.changing(index) as gpu:
        _clear(gpu)
    made: dict[int, str] = {}
    for place in sorted(range(len(names)), key=lambda i: (-int(names[i].partition("g")[0]), i)):
        made[place] = add(state, index, names[place])
    return [made[place] for place in range(len(names))]


def set_load(state: GpuState, index: int, gpu_instance: int, course: Course) -> None:
    """How busy one GPU instance is."""
    with state.changing(index) as gpu:
        for instance in _present(gpu):
            if instance.id == gpu_instance:
                write_course(instance.load, course, state.now_us)
                return
        there = ", ".join(str(instance.id) for instance in _present(gpu))
    raise HardwareStateError(
        f"GPU {index} has no GPU instance {gpu_instance}",
        why=f"it has {there}" if there else "it has none",
        next_step="choose one of them" if there else f"make one: gpuready-sim gpu mig NODE/{index} PROFILE",
    )


def find_start(gpu: Any, kind: int) -> int | None:
    """The last free start of a profile (drivers fill from there so that large ones keep their place)."""
    profile = gpu.profiles[kind]
    taken, used, same = 0, 0, 0
    for instance in _present(gpu):
        other = gpu.profiles[instance.kind]
        taken |= ((1 << other.size) - 1) << instance.start
        used += other.slices
        same += instance.kind == kind
    if used + profile.slices > COMPUTE_SLICES or same >= profile.most:
        return None
    mask = (1 << profile.size) - 1
    fits = [start for start in range(8) if profile.starts >> start & 1 and not taken & mask << start]
    return fits[-1] if fits else None


def _make(gpu: Any, place: int, kind: int, start: int) -> str:
    profile, instance = gpu.profiles[kind], gpu.instances[place]
    instance.id = next(i for i in range(1, 16) if i not in {other.id for other in _present(gpu)})
    instance.kind, instance.start, instance.memory_used_mib, instance.busy = kind, start, 0, 0
    instance.load.count = 0
    compute = gpu.compute[_free_place(gpu.compute)]
    made_from = f"{gpu.uuid.decode()}/{instance.id}/0/{profile.name.decode()}/{start}"
    compute.uuid = f"MIG-{uuid.uuid5(uuid.NAMESPACE_DNS, made_from)}".encode()
    compute.name = profile.name
    compute.id, compute.gpu_instance, compute.start = 0, instance.id, 0
    compute.profile = profile.profile if profile.profile < 7 else 0
    compute.slices, compute.multiprocessors = profile.slices, profile.multiprocessors
    instance.present = compute.present = 1
    uuid_text: bytes = compute.uuid
    return uuid_text.decode()


def _clear(gpu: Any) -> None:
    for entry in (*gpu.compute, *gpu.instances):
        entry.present = 0


def _kind_of(gpu: Any, index: int, name: str) -> int:
    known = [gpu.profiles[i].name.decode() for i in range(gpu.profile_count)]
    if name not in known:
        raise HardwareStateError(
            f"GPU {index} has no profile {name!r}",
            why=f"it has {', '.join(known)}",
            next_step="choose one of them",
        )
    return known.index(name)


def _free_place(entries: Any) -> int | None:
    return next((place for place, entry in enumerate(entries) if not entry.present), None)


def _present(gpu: Any) -> Iterator[Any]:
    return (instance for instance in gpu.instances if instance.present)


def _names(gpu: Any) -> list[str]:
    return [gpu.profiles[instance.kind].name.decode() for instance in _present(gpu)]
