"""libnvidia-ml.so.1, libcuda.so.1 and the container launcher of the simulator, in C.

state.h      the layout of a node's gpus.state; hardware/layout.py reads it too
abi.h        the part of the NVML ABI that is implemented
session.c    opening and closing: state file, driver version, visible GPUs, holders, hangs
device.c     what the GPUs are          load.c    what they do
health.c     how they are               events.c  event sets
symbols.txt  every public name; those without code answer "not supported" (build.py writes stubs)
libcuda.c    the CUDA calls of a proof  ptx.c     runs its kernel
launch.c     the first process of a container
build.py     compiles all that
"""
