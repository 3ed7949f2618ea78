"""Everything a look at one GPU takes, through one NVML session in one thread.

`values.py` reads the fields; here is who the GPU is, which instances it has, who computes on it, and whether.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from gpuready.gpu.nvml import Handle, NvmlError
from gpuready.gpu.nvml_telemetry import MigDevice, TelemetryNvml
from gpuready.gpu.telemetry.fields import sources_of
from gpuready.gpu.telemetry.gpm import Profiler
from gpuready.gpu.telemetry.looks import Look
from gpuready.gpu.telemetry.model import Absent, Device, Field, Instance, ProcessUse, Sample
from gpuready.gpu.telemetry.sources import Gpm
from gpuready.gpu.telemetry.values import Gpu, Values, refusal

HELD_BY = {
    "power_cap": 74, "thermal": 75, "sync_boost": 76, "board_limit": 77, "low_utilization": 78,
    "reliability": 79, "sw_thermal": 269, "hw_thermal": 270, "hw_power_brake": 271,
}  # fmt: skip
# reason -> field value with the time, in ns, for which it held the clocks back
HEALTH = {"double_bit": 4, "remap_pending": 144, "remap_failed": 145, "recovery_action": 230}
# fact for DCGM_EXP_GPU_HEALTH_STATUS -> field value
_ENGINE_BUSY = 1  # GPM metric: share of time the graphics or compute engine is busy
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
_MOST_LINKS = 18


class Clock(Protocol):
    def monotonic(self) -> float: ...
    def time(self) -> float: ...


class DeviceReader:
    def __init__(self, nvml: TelemetryNvml, index: int, clock: Clock, uuid: str = "") -> None:
        """uuid: of the GPU, once it is known: NVML's numbers shift when another one is lost.

        raises  NvmlError when the GPU does not tell who it is
        """
        handle = nvml.handle_by_uuid(uuid) if uuid else nvml.handle(index)
        self._clock = clock
        self._looked_at: float | None = None
        self._gpu = Gpu(
            nvml,
            handle,
            _identify(nvml, index, handle),
            Profiler(nvml, handle, clock),
            links=_links(nvml, handle),
        )

    @property
    def handle(self) -> Handle:
        return self._gpu.handle

    @property
    def device(self) -> Device:
        return self._gpu.device

    def read(self, fields: Sequence[Field], interval_s: float) -> Look:
        """raises  NvmlError when the GPU is lost or the driver is gone: nothing of this look counts"""
        gpu, started = self._gpu, self._clock.monotonic()
        self._find_partitions()
        gpu.profiler.look(self._metrics(fields))
        values = Values(gpu, fields, started, (*HELD_BY.values(), *HEALTH.values()))
        told = [values.tell(of, entity) for of in fields for entity in gpu.entities(of)]
        values.keep_counters(fields)
        processes = self._processes(interval_s)
        return Look(
            device=gpu.device,
            samples=tuple(each for each in told if isinstance(each, Sample)),
            absent=tuple(each for each in told if isinstance(each, Absent)),
            processes=processes or (),
            clock_reasons=_clock_reasons(values),
            held_ns=_numbers(values, HELD_BY),
            busy={gi: self._is_busy(gi, processes, values) for gi in self._parts()},
            health=_numbers(values, HEALTH),
            started_at=started,
            ended_at=self._clock.monotonic(),
        )

    def close(self) -> None:
        self._gpu.profiler.close()

    # --- instances --------------------------------------------------------------------------------------
    def _find_partitions(self) -> None:
        gpu = self._gpu
        enabled = bool(gpu.nvml.mig_mode(gpu.handle))
        partitions = gpu.nvml.mig_devices(gpu.handle) if enabled else []
        gpu.handles = {each.gpu_instance_id: each.handle for each in reversed(partitions)}
        instances = tuple(map(self._placed, _instances(partitions)))
        gpu.device = replace(gpu.device, mig_enabled=enabled, instances=instances)

    def _placed(self, instance: Instance) -> Instance:
        """Asked once in the life of an instance."""
        known = [each for each in self.device.instances if each.mig_uuids == instance.mig_uuids]
        if known:
            return known[0]
        return replace(instance, start=self._gpu.nvml.placement(self.handle, instance.id))

    def _parts(self) -> list[int | None]:
        """What computes on its own: the instances, or the GPU as a whole."""
        return [each.id for each in self.device.instances] or [None]

    def _metrics(self, fields: Iterable[Field]) -> dict[int | None, list[int]]:
        """GPM metrics to look at, of the GPU (None) and of its instances."""
        asked: dict[int | None, set[int]] = {part: {_ENGINE_BUSY} for part in self._parts()}
        for of in fields:
            metrics = {source.metric for source in sources_of(of) if isinstance(source, Gpm)}
            for entity in self._gpu.entities(of) if metrics else ():
                asked.setdefault(entity.instance.id if entity.instance else None, set()).update(metrics)
        return {part: sorted(metrics) for part, metrics in asked.items()}

    # --- who computes -----------------------------------------------------------------------------------
    def _processes(self, interval_s: float) -> tuple[ProcessUse, ...] | None:
        """None when NVML does not tell."""
        nvml, handle, now = self._gpu.nvml, self._gpu.handle, self._clock.time()
        since, self._looked_at = self._looked_at or now - interval_s, now
        try:
            processes = nvml.processes(handle)
        except NvmlError as exc:
            refusal(exc)
            return None
        shares: Mapping[int, float] | None = None
        try:
            shares = nvml.process_use(handle, int(since * 1e6))
        except NvmlError as exc:
            refusal(exc)
        uuid = self.device.uuid
        return tuple(
            ProcessUse(uuid, each.gpu_instance_id, each.pid, each.memory_bytes, _share(shares, each.pid))
            for each in processes
        )

    def _is_busy(self, part: int | None, processes: Sequence[ProcessUse] | None, values: Values) -> bool:
        """Whether anything computed there; where nothing tells, whoever has a process counts as busy."""
        here = [each for each in processes or () if part in (None, each.gpu_instance_id)]
        signs: list[float] = [each.sm_percent for each in here if each.sm_percent is not None]
        engine, _ = self._gpu.profiler.told(part, _ENGINE_BUSY)
        if isinstance(engine, float):
            signs.append(engine)
        if part is None:
            try:
                signs.append(values.ask("nvmlDeviceGetUtilizationRates").gpu)
            except NvmlError as exc:
                refusal(exc)
        if any(sign > 0 for sign in signs):
            return True
        return not signs and (processes is None or bool(here))


def _identify(nvml: TelemetryNvml, index: int, handle: Handle) -> Device:
    bus_id = nvml.ask("nvmlDeviceGetPciInfo", handle).busId
    return Device(
        uuid=nvml.uuid(handle),
        index=index,
        minor=nvml.minor(handle),
        pci_bus_id=(bus_id if isinstance(bus_id, str) else bus_id.decode(errors="replace")).upper(),
        model=nvml.product(handle),
    )


def _links(nvml: TelemetryNvml, handle: Handle) -> tuple[int, ...]:
    """Numbers of the active NVLinks."""
    active = []
    for link in range(_MOST_LINKS):
        try:
            if nvml.ask("nvmlDeviceGetNvLinkState", handle, link):
                active.append(link)
        except NvmlError as exc:
            refusal(exc)
            break
    return tuple(active)


def _instances(partitions: Sequence[MigDevice]) -> tuple[Instance, ...]:
    """Of their MIG devices, by id."""
    grouped: dict[int, list[MigDevice]] = {}
    for each in partitions:
        grouped.setdefault(each.gpu_instance_id, []).append(each)
    return tuple(
        Instance(gi, parts[0].profile, tuple(part.uuid for part in parts))
        for gi, parts in sorted(grouped.items())
    )


def _clock_reasons(values: Values) -> int | None:
    for call in _REASONS:
        try:
            return int(values.ask(call))
        except NvmlError as exc:
            refusal(exc)
    return None


def _numbers(values: Values, wanted: Mapping[str, int]) -> dict[str, int]:
    told = {name: values.number(field_value) for name, field_value in wanted.items()}
    return {name: int(number) for name, number in told.items() if number is not None}


def _share(shares: Mapping[int, float] | None, pid: int) -> float | None:
    return None if shares is None else shares.get(pid, 0.0)
