"""`gpu-hold`: opens NVML, says how many GPUs it sees, and holds the handle until it is told to end."""

from __future__ import annotations

import ctypes
import signal
import sys

NVML_SUCCESS = 0


def main() -> int:
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
    sys.stdout.write(f"holding {count.value} GPUs\n")
    sys.stdout.flush()
    signal.sigwait(signals)
    nvml.nvmlShutdown()
    return 0


def _fail(text: str) -> int:
    sys.stderr.write(f"gpu-hold: {text}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
