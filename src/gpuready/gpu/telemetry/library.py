"""Which libnvidia-ml this process uses, for all of its threads.

A loaded library cannot be replaced: when the driver's tree holds another one, only a new process helps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from gpuready.gpu.driver_files import find_nvml_library
from gpuready.gpu.nvml import LIBRARY_NOT_FOUND, VERSION_MISMATCH, NvmlError
from gpuready.gpu.nvml_telemetry import TelemetryNvml
from gpuready.gpu.tree import Tree


class Library:
    """driver  gives the tree to look for libnvidia-ml in, asked anew at each `open`"""

    def __init__(self, driver: Callable[[], Tree]) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._loaded: Path | None = None
        self._outdated = ""

    def open(self) -> TelemetryNvml:
        """A session of one's own. raises  NvmlError"""
        found = find_nvml_library(self._driver())
        if found is None:
            raise NvmlError(LIBRARY_NOT_FOUND, "search", "no libnvidia-ml.so.1 in the driver's tree")
        with self._lock:
            if self._loaded not in (None, found.path):
                self._outdated = (
                    f"this process has loaded {self._loaded.name}, the driver's is {found.path.name}"
                )
                raise NvmlError(VERSION_MISMATCH, "dlopen", self._outdated)
            before, self._loaded = self._loaded, found.path
        try:
            return TelemetryNvml(found.path)
        except NvmlError as exc:
            if exc.code == VERSION_MISMATCH and before is not None:
                self._outdated = "the kernel module is no longer of the version that this process has loaded"
            raise

    @property
    def outdated(self) -> str:
        """Why only a new process can go on; "" while this one can."""
        return self._outdated
