"""The two kinds of threads: one for each GPU, and one for what the node tells as a whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpuready.gpu.nvml import NvmlError
from gpuready.gpu.nvml_telemetry import TelemetryNvml
from gpuready.gpu.telemetry.device_reader import Clock, DeviceReader
from gpuready.gpu.telemetry.library import Library
from gpuready.gpu.telemetry.looks import Look
from gpuready.gpu.telemetry.model import Device, Value
from gpuready.gpu.telemetry.turns import Order, Turns

TellXid = Callable[[str, int], None]  # uuid, code


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """facts: of fields of scope NODE, by the name of their source: "driver_version", "count", ..."""

    count: int = 0
    facts: Mapping[str, Value] = field(default_factory=dict)
    error: str = ""
    at: float = 0.0


class NodeThread(Turns[NodeFacts]):
    """Asks nothing of a single GPU, so that none of them can hang it."""

    def look(self, nvml: TelemetryNvml, order: Order) -> NodeFacts:
        count = nvml.count()
        major, minor = nvml.cuda_version()
        facts: dict[str, Value] = {
            "count": count,
            "driver_version": nvml.driver_version(),
            "cuda_version": major * 1000 + minor * 10,
        }
        try:
            version = nvml.ask("nvmlSystemGetNVMLVersion")
            facts["nvml_version"] = version if isinstance(version, str) else version.decode()
        except NvmlError:
            pass  # an old library: the field is left out
        return NodeFacts(count, facts, at=self._clock.monotonic())

    def failed(self, reason: str) -> NodeFacts:
        return NodeFacts(error=reason, at=self._clock.monotonic())


class GpuThread(Turns[Look]):
    """One GPU: looks when it is due, and between two looks waits for its XIDs."""

    def __init__(
        self, index: int, library: Library, clock: Clock, done: Callable[[], None], tell_xid: TellXid
    ) -> None:
        super().__init__(f"gpu-{index}", library, clock, done)
        self.index = index
        self._tell_xid = tell_xid
        self._reader: DeviceReader | None = None
        self._hears_xids = False
        self.device: Device | None = None

    def look(self, nvml: TelemetryNvml, order: Order) -> Look:
        if self._reader is None:
            known = self.device.uuid if self.device else ""
            self._reader = DeviceReader(nvml, self.index, self._clock, known)
        reader = self._reader
        self.device = self.device or reader.device
        if not self._hears_xids:
            self._hears_xids = not nvml.watch_xids({reader.device.uuid: reader.handle})
        self._drain(nvml)
        look = reader.read(order.fields, order.interval_s)
        self.device = look.device
        return look

    def failed(self, reason: str) -> Look:
        return Look(self.device, error=reason, started_at=self._clock.monotonic())

    def wait(self, nvml: TelemetryNvml, seconds: float) -> bool:
        if not self._hears_xids:
            return False
        try:
            event = nvml.next_xid(math.ceil(seconds * 1000))
        except NvmlError:
            self._hears_xids = False  # a GPU that is lost ends every wait at once: the next look says so
            return False
        if event is not None:
            self._tell(event.uuid, event.code)
        return True

    def closing(self, nvml: TelemetryNvml) -> None:
        """What was raised before the session failed, an XID 79 above all, is not lost with it."""
        self._drain(nvml)
        if self._reader is not None:
            self._reader.close()
        self._reader, self._hears_xids = None, False

    def _drain(self, nvml: TelemetryNvml) -> None:
        try:
            while self._hears_xids and (event := nvml.next_xid(0)):
                self._tell(event.uuid, event.code)
        except NvmlError:
            self._hears_xids = False

    def _tell(self, uuid: str, code: int) -> None:
        known = self.device.uuid if self.device else ""
        self._tell_xid(uuid or known, code)
