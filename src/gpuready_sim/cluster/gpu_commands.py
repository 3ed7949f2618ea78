"""What `gpuready-sim gpu` and the GPU faults do to one GPU: answers as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuready_sim.cluster.machines import MachineError
from gpuready_sim.hardware import call_faults, mig, work
from gpuready_sim.hardware.course import Course
from gpuready_sim.hardware.state import GpuState

Args = Mapping[str, Any]


def load(gpus: GpuState, index: int, args: Args) -> object:
    """A load from words; of a GPU instance with `instance`. Memory in use beside it with `usedMib`."""
    course = Course.parse(args["words"])
    instance, used_mib = args.get("instance"), args.get("usedMib")
    if instance is None:
        work.set_load(gpus, index, course)
    else:
        mig.set_load(gpus, index, int(instance), course)
    if used_mib is not None:
        gpus.set_utilization(index, used_mib=int(used_mib))
    return {}


def layout(gpus: GpuState, index: int, args: Args) -> object:
    """MIG on with these profiles; off without any."""
    if busy := work.contexts(gpus, index):
        raise MachineError(
            f"MIG cannot be changed on GPU {index}",
            why=f"processes are on it: {', '.join(str(context.pid) for context in busy)}",
            next_step="end them first",
        )
    if not args["profiles"]:
        mig.disable(gpus, index)
        return {"devices": []}
    return {"devices": mig.layout(gpus, index, args["profiles"])}


def throttle(gpus: GpuState, index: int, args: Args) -> object:
    work.throttle(gpus, index, args["reasons"])
    return {}


def error(gpus: GpuState, index: int, args: Args) -> object:
    work.count_error(gpus, index, args["kind"], int(args.get("number", 1)))
    return {}


def flag(gpus: GpuState, index: int, args: Args) -> object:
    work.set_flag(gpus, index, args["flag"], bool(args.get("on", True)))
    return {}


def call(gpus: GpuState, index: int, args: Args) -> object:
    """One NVML function of this GPU fails with a code or hangs; all are mended without a function."""
    if not args.get("function"):
        return {"mended": call_faults.mend(gpus, gpu=index)}
    if args.get("seconds") is not None:
        call_faults.hang(gpus, args["function"], float(args["seconds"]), index)
    else:
        call_faults.fail(gpus, args["function"], int(args["code"]), index)
    return {}


def cuda(gpus: GpuState, index: int, args: Args) -> object:
    """CUDA programs go wrong on this GPU as the word says, until that is mended."""
    found = call_faults.CUDA_FAULTS.get(args["trouble"])
    if found is None:
        raise MachineError(
            f"there is no fault of CUDA called {args['trouble']!r}",
            next_step=f"name one of {', '.join(call_faults.CUDA_FAULTS)}",
        )
    function, code = found
    if not args.get("on", True):
        return {"mended": call_faults.mend(gpus, function, index)}
    if code:
        call_faults.fail(gpus, function, code, index)
    else:
        call_faults.hang(gpus, function, call_faults.MAX_HANG_S, index)
    return {"function": function, "code": code}


GPU_COMMANDS: Mapping[str, Callable[[GpuState, int, Args], object]] = {
    "gpu load": load,
    "gpu mig": layout,
    "fault throttle": throttle,
    "fault error": error,
    "fault flag": flag,
    "fault call": call,
    "fault cuda": cuda,
}
