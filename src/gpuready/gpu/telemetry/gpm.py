"""GPM of one GPU: each look takes a sample, and tells what was between it and the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gpuready.gpu.nvml import NvmlError
from gpuready.gpu.nvml_telemetry import TelemetryNvml

NO_GPM = "the GPU has no GPM, which profiling fields need: Hopper or newer"


class _Clock(Protocol):
    def monotonic(self) -> float: ...


class Profiler:
    """Of the GPU (None) and of its instances (by id). Keeps one sample of each."""

    def __init__(self, nvml: TelemetryNvml, handle: Any, clock: _Clock) -> None:
        self._nvml = nvml
        self._handle = handle
        self._clock = clock
        self._samples: dict[int | None, Any] = {}
        self._told: dict[int | None, Mapping[int, float | NvmlError] | NvmlError] = {}
        self._at: dict[int | None, float] = {}
        self.supported = nvml.has_gpm(handle)

    def look(self, asked: Mapping[int | None, Sequence[int]]) -> None:
        """Take samples of those that are asked for, and forget those that are not."""
        self._told = {}
        if not self.supported:
            return
        for gone in self._samples.keys() - asked.keys():
            self._nvml.free_gpm_sample(self._samples.pop(gone))
        for gi, metrics in asked.items():
            try:
                self._sample(gi, metrics)
            except NvmlError as exc:
                self._told[gi] = exc

    def told(self, gi: int | None, metric: int) -> tuple[float | NvmlError | None, float]:
        """The metric, as GPM gives it, and when its sample was taken; None after the first sample only."""
        at = self._at.get(gi, self._clock.monotonic())
        told = self._told.get(gi)
        if told is None or isinstance(told, NvmlError):
            return told, at
        return told.get(metric), at

    def close(self) -> None:
        for sample in self._samples.values():
            self._nvml.free_gpm_sample(sample)
        self._samples = {}

    def _sample(self, gi: int | None, metrics: Sequence[int]) -> None:
        fresh = self._nvml.gpm_sample(self._handle, gi)
        self._at[gi] = self._clock.monotonic()
        before = self._samples.get(gi)
        self._samples[gi] = fresh
        if before is None:
            return
        try:
            self._told[gi] = self._nvml.gpm_metrics(before, fresh, metrics)
        finally:
            self._nvml.free_gpm_sample(before)
