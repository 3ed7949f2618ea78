"""`gpu-hold [--memory MIB] [--sm PERCENT]`: a workload that does nothing but hold its GPUs.

Opens NVML and says how many GPUs it sees. Where the container has libcuda too, it makes a context on each of
them, so that it shows in their process lists, with so much memory and, while the GPU is that busy, so much of
its time (equal shares without --sm). It ends when it is told to.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
from typing import Any

NVML_SUCCESS = 0
CONTEXT_MIB = 450  # what an idle context takes (nvml/libcuda.c)
MIB = 1024 * 1024


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpu-hold")
    parser.add_argument(
        "--memory", type=int, default=0, metavar="MIB", help="of each GPU, its context included"
    )
    parser.add_argument("--sm", type=int, default=0, metavar="PERCENT", help="of each GPU's time")
    asked = parser.parse_args(argv)
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as exc:
        return _fail(f"no NVML in this container: {exc}")
    code = nvml.nvmlInit_v2()
    if code != NVML_SUCCESS:
        return _fail(f"nvmlInit answered {code}")
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    _make_contexts(asked.memory)
    if asked.sm:
        _take_share(asked.sm)
    sys.stdout.write(f"holding {count.value} GPUs\n")
    sys.stdout.flush()
    signal.sigwait(signals)
    nvml.nvmlShutdown()
    return 0


def _make_contexts(memory_mib: int) -> None:
    """One on every GPU that CUDA shows; a GPU that gives none is passed over."""
    try:
        cuda: Any = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    count, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return
    for device in range(count.value):
        if cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0 and memory_mib > CONTEXT_MIB:
            cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t((memory_mib - CONTEXT_MIB) * MIB))


def _take_share(percent: int) -> None:
    from gpuready_sim.hardware import work
    from gpuready_sim.hardware.state import GpuState

    with GpuState(os.environ["NVSIM_STATE"]) as state:
        work.set_share_everywhere(state, os.getpid(), percent)


def _fail(text: str) -> int:
    sys.stderr.write(f"gpu-hold: {text}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
