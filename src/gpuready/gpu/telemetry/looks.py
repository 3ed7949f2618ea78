"""What is kept of one look at one GPU, before it is joined with what was seen earlier. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuready.gpu.telemetry.model import Absent, Device, ProcessUse, Sample


@dataclass(frozen=True, slots=True)
class Look:
    """device         None when the GPU did not even tell its name
    error          why it did not answer; "" when it did
    clock_reasons  bits of what holds the clocks back; None where the GPU does not tell
    held_ns        reason -> time for which it held the clocks back, as the driver counts it
    busy           None for the GPU, or the id of an instance -> whether it computed since the last look
    health         facts for DCGM_EXP_GPU_HEALTH_STATUS: "double_bit", "remap_pending", ...
    """

    device: Device | None = None
    error: str = ""
    samples: tuple[Sample, ...] = ()
    absent: tuple[Absent, ...] = ()
    processes: tuple[ProcessUse, ...] = ()
    clock_reasons: int | None = None
    held_ns: Mapping[str, int] = field(default_factory=dict)
    busy: Mapping[int | None, bool] = field(default_factory=dict)
    health: Mapping[str, int] = field(default_factory=dict)
    started_at: float = 0.0
    ended_at: float = 0.0
