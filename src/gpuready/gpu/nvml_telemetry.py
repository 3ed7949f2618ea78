"""NVML for telemetry: values of any getter, field values, GPM, processes and MIG devices of one GPU.

With `gpu/nvml.py` the only module that touches pynvml. NVML counts its users: each reader opens its own
`TelemetryNvml` and gives up its own only. Used from one thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ctypes import byref
from dataclasses import dataclass
from typing import Any

from gpuready.gpu.nvml import FUNCTION_NOT_FOUND, Handle, Nvml, NvmlError

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, INVALID_ARGUMENT = 3, 4, 6, 2
NEVER = frozenset({NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, INVALID_ARGUMENT, FUNCTION_NOT_FOUND})
# Answers that will be the same next time: this GPU or driver does not tell.

_NO_INSTANCE = 0xFFFFFFFF
_MEMORY_V2 = 0x02000028  # sizeof(nvmlMemory_v2_t) | version << 24
_PROFILE = re.compile(r"MIG (?:\d+c\.)?(\d+g\.\d+gb\S*)$")

Number = int | float


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes. `reserved` is None where the driver counts it as used (before 510)."""

    total: int
    free: int
    used: int
    reserved: int | None


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    gpu_instance_id: int | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class MigDevice:
    """`profile` of its GPU instance, "1g.10gb"."""

    handle: Handle
    uuid: str
    gpu_instance_id: int
    profile: str


class TelemetryNvml(Nvml):
    """Errors are `NvmlError`."""

    def ask(self, call: str, *args: Any) -> Any:
        """The answer of any pynvml function, as pynvml gives it."""
        return self._call(call, *args)

    def field_values(
        self, handle: Handle, wanted: Sequence[tuple[int, int]]
    ) -> Mapping[tuple[int, int], Number | NvmlError]:
        """All in one call; wanted: (id, scope). A value's own refusal stands in its place."""
        if not wanted:
            return {}
        values = self._call("nvmlDeviceGetFieldValues", handle, list(wanted))
        return {key: self._field_value(value) for key, value in zip(wanted, values, strict=True)}

    def _field_value(self, value: Any) -> Number | NvmlError:
        if value.nvmlReturn != 0:
            return NvmlError(value.nvmlReturn, f"field value {value.fieldId}")
        member = _MEMBERS.get(value.valueType, "ullVal")
        number: Number = getattr(value.value, member)
        return number

    def memory(self, handle: Handle) -> Memory:
        try:
            info = self._call("nvmlDeviceGetMemoryInfo", handle, _MEMORY_V2)
            return Memory(int(info.total), int(info.free), int(info.used), int(info.reserved))
        except NvmlError as exc:
            if exc.code not in (FUNCTION_NOT_FOUND, NOT_SUPPORTED, _VERSION_MISMATCH):
                raise
        info = self._call("nvmlDeviceGetMemoryInfo", handle)
        return Memory(int(info.total), int(info.free), int(info.used), None)

    def fabric_state(self, handle: Handle) -> int:
        info = self._pynvml.c_nvmlGpuFabricInfo_t()
        self._call("nvmlDeviceGetGpuFabricInfo", handle, byref(info))
        return int(info.state)

    def is_vgpu_licensed(self, handle: Handle) -> bool:
        features = self._call("nvmlDeviceGetGridLicensableFeatures_v4", handle)
        if not features.isGridLicenseSupported:
            raise NvmlError(NOT_SUPPORTED, "nvmlDeviceGetGridLicensableFeatures")
        listed = features.gridLicensableFeatures[: features.licensableFeaturesCount]
        return any(feature.featureState for feature in listed)

    # --- who computes -----------------------------------------------------------------------------------
    def processes(self, handle: Handle) -> list[Process]:
        """Compute, graphics and MPS processes, each once, by pid."""
        found: dict[tuple[int, int | None], Process] = {}
        for kind in ("Compute", "Graphics", "MPSCompute"):
            for each in self._running(kind, handle):
                instance = getattr(each, "gpuInstanceId", _NO_INSTANCE)
                memory = None if each.usedGpuMemory is None else int(each.usedGpuMemory)
                process = Process(int(each.pid), None if instance == _NO_INSTANCE else int(instance), memory)
                key = (process.pid, process.gpu_instance_id)
                if key not in found or (found[key].memory_bytes or 0) < (memory or 0):
                    found[key] = process
        return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1] or 0))]

    def _running(self, kind: str, handle: Handle) -> Iterable[Any]:
        for version in ("_v3", "_v2"):
            try:
                return list(self._call(f"nvmlDeviceGet{kind}RunningProcesses{version}", handle))
            except AttributeError:
                continue  # pynvml does not wrap it
            except NvmlError as exc:
                if exc.code == FUNCTION_NOT_FOUND:
                    continue
                if kind != "Compute" and exc.code in NEVER:
                    return ()
                raise
        return ()

    def process_use(self, handle: Handle, since_us: int) -> Mapping[int, float]:
        """pid -> its mean share of the SMs since then, 0-100; empty when nothing ran."""
        try:
            samples = self._call("nvmlDeviceGetProcessUtilization", handle, since_us)
        except NvmlError as exc:
            if exc.code == NOT_FOUND:
                return {}
            raise
        shares: dict[int, list[int]] = {}
        for sample in samples:
            if sample.timeStamp > since_us and sample.smUtil <= 100:
                shares.setdefault(int(sample.pid), []).append(int(sample.smUtil))
        return {pid: sum(values) / len(values) for pid, values in shares.items()}

    # --- MIG --------------------------------------------------------------------------------------------
    def mig_devices(self, handle: Handle) -> list[MigDevice]:
        """In NVML's order; those that vanish while we look are left out."""
        found = []
        for index in range(int(self._call("nvmlDeviceGetMaxMigDeviceCount", handle))):
            try:
                mig = self._call("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
                instance = int(self._call("nvmlDeviceGetGpuInstanceId", mig))
                found.append(MigDevice(mig, self.uuid(mig), instance, self._profile(mig)))
            except NvmlError as exc:
                if exc.code not in (NOT_FOUND, INVALID_ARGUMENT):
                    raise
        return found

    def placement(self, handle: Handle, gpu_instance_id: int) -> int | None:
        """The memory slice that a GPU instance begins at; None if it is gone, or we may not ask."""
        try:
            instance = self._call("nvmlDeviceGetGpuInstanceById", handle, gpu_instance_id)
            return int(self._call("nvmlGpuInstanceGetInfo", instance).placement.start)
        except NvmlError as exc:
            if exc.code in NEVER:
                return None
            raise

    def _profile(self, mig: Handle) -> str:
        """Of its instance, from its name: "1g.5gb" of "… MIG 1g.5gb", "2g.10gb" of "… MIG 1c.2g.10gb"."""
        if match := _PROFILE.search(self.product(mig)):
            return match[1]
        attributes = self._call("nvmlDeviceGetAttributes_v2", mig)
        memory_gib = (int(attributes.memorySizeMB) + 1023) // 1024
        return f"{int(attributes.gpuInstanceSliceCount)}g.{memory_gib}gb"

    # --- GPM --------------------------------------------------------------------------------------------
    def has_gpm(self, handle: Handle) -> bool:
        try:
            return bool(self._call("nvmlGpmQueryDeviceSupport", handle).isSupportedDevice)
        except NvmlError as exc:
            if exc.code in NEVER:
                return False
            raise

    def gpm_sample(self, handle: Handle, gpu_instance_id: int | None) -> Any:
        """A new sample, to be freed with `free_gpm_sample`."""
        sample = self._call("nvmlGpmSampleAlloc")
        try:
            if gpu_instance_id is None:
                self._call("nvmlGpmSampleGet", handle, sample)
            else:
                self._call("nvmlGpmMigSampleGet", handle, gpu_instance_id, sample)
        except NvmlError:
            self.free_gpm_sample(sample)
            raise
        return sample

    def free_gpm_sample(self, sample: Any) -> None:
        self._try("nvmlGpmSampleFree", sample)

    def gpm_metrics(self, before: Any, after: Any, metrics: Sequence[int]) -> Mapping[int, float | NvmlError]:
        """Over the time between two samples of the same GPU or instance."""
        asked = self._pynvml.c_nvmlGpmMetricsGet_t()
        asked.version = self._pynvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(metrics)
        asked.sample1, asked.sample2 = before, after
        for slot, metric in enumerate(metrics):
            asked.metrics[slot].metricId = metric
        answer = self._call("nvmlGpmMetricsGet", asked)
        entries = zip(metrics, answer.metrics[: len(metrics)], strict=True)
        return {metric: _gpm_value(metric, entry) for metric, entry in entries}


def _gpm_value(metric: int, entry: Any) -> float | NvmlError:
    if entry.nvmlReturn != 0:
        return NvmlError(entry.nvmlReturn, f"GPM metric {metric}")
    return float(entry.value)


_VERSION_MISMATCH = 25  # NVML_ERROR_ARGUMENT_VERSION_MISMATCH
_MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
