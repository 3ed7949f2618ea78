"""libdcgm.so.4 of the simulator, in C, and host engines to connect to.

The library reads the same GPUs as the simulated NVML, which is linked into it: a fault of an NVML call is
felt by both, and `gpuready-sim fault call` takes DCGM's functions as well. `build.py` of `nvml` compiles it.
"""
