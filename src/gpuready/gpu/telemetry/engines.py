"""Opening a session with an engine of DCGM, over and over while it is away, and not too often."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuready.gpu.dcgm import LIBRARY_NOT_FOUND, SONAMES, Dcgm, DcgmError, HostEngine, load
from gpuready.gpu.driver_files import find_library, find_nvml_library
from gpuready.gpu.telemetry.device_reader import Clock
from gpuready.gpu.tree import Tree

FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 60.0


class Engines:
    """engine  None: one in this process
    trees   where libdcgm may be, asked anew each time; driver: where an embedded engine finds libnvidia-ml
    """

    def __init__(
        self,
        engine: HostEngine | None,
        trees: Callable[[], Iterable[Tree]],
        driver: Callable[[], Tree],
        clock: Clock,
    ) -> None:
        self._engine, self._trees, self._driver, self._clock = engine, trees, driver, clock
        self._delay_s = 0.0
        self._not_before = 0.0
        self._refusal: DcgmError | None = None
        self.opened = self.failed = 0

    def open(self) -> Dcgm:
        """raises  DcgmError: the last one again while it is too early for another try"""
        if self._refusal is not None and self._clock.monotonic() < self._not_before:
            raise self._refusal
        try:
            session = self._open()
        except DcgmError as exc:
            self.failed += 1
            self._delay_s = min(max(2 * self._delay_s, FIRST_DELAY_S), LONGEST_DELAY_S)
            self._not_before = self._clock.monotonic() + self._delay_s
            self._refusal = exc
            raise
        self.opened += 1
        self._delay_s, self._refusal = 0.0, None
        return session

    def _open(self) -> Dcgm:
        library = find_library(self._trees(), SONAMES)
        if library is None:
            sonames = " or ".join(SONAMES)
            raise DcgmError(LIBRARY_NOT_FOUND, "search", f"no {sonames} on the node or in this container")
        if self._engine is None:
            self._load_nvml()
        return Dcgm(library, self._engine)

    def _load_nvml(self) -> None:
        """DCGM asks the loader for libnvidia-ml.so.1, which takes what this process has under that name."""
        found = find_nvml_library(self._driver())
        if found is not None:
            try:
                load(found.path)
            except DcgmError:
                pass  # DCGM's own attempt fails as well, and says so
