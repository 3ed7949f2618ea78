"""The thread that GPUs share: whose XIDs it hears when one of them is gone, or no longer its own."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from gpuready.gpu.nvml import GPU_IS_LOST, NvmlError, XidEvent
from gpuready.gpu.nvml_telemetry import TelemetryNvml
from gpuready.gpu.telemetry.device_reader import DeviceReader
from gpuready.gpu.telemetry.library import Library
from gpuready.gpu.telemetry.model import Device
from gpuready.gpu.telemetry.threads import GpuThread, Seat
from gpuready.gpu.tree import Tree


class FakeNvml:
    """Events as a driver gives them: a wait ends at once while a registered GPU is lost."""

    def __init__(self, events: Iterable[XidEvent] = (), lost: Iterable[str] = (), dumb: bool = False) -> None:
        self.events, self.lost, self.dumb = list(events), set(lost), dumb
        self.registered: set[str] = set()
        self.waits = 0

    def watch_xids(self, handles: dict[str, Any]) -> dict[str, NvmlError]:
        self.registered = set(handles)
        return {}

    def next_xid(self, timeout_ms: int) -> XidEvent | None:
        self.waits += 1
        if self.events:
            return self.events.pop(0)
        if self.lost & self.registered:
            raise NvmlError(GPU_IS_LOST, "nvmlEventSetWait_v2")
        return None

    def handle_by_uuid(self, uuid: str) -> str:
        if uuid in self.lost and not self.dumb:
            raise NvmlError(GPU_IS_LOST, "nvmlDeviceGetHandleByUUID")
        return uuid


class FakeReader:
    def __init__(self, uuid: str) -> None:
        self.handle = uuid


def seat(index: int) -> Seat:
    uuid = f"GPU-{index}"
    device = Device(uuid, index, index, "00000000:01:00.0", "H100")
    return Seat(index, device, cast(DeviceReader, FakeReader(uuid)))


def thread_of(*seats: Seat) -> tuple[GpuThread, list[tuple[str, int]]]:
    told: list[tuple[str, int]] = []
    library = Library(lambda: Tree(Path("/")))
    made = GpuThread(seats, library, time, lambda: None, lambda uuid, code: told.append((uuid, code)))
    return made, told


def hear(thread: GpuThread, nvml: FakeNvml) -> TelemetryNvml:
    session = cast(TelemetryNvml, nvml)
    thread._listen(session, {each.device.uuid for each in thread.seats if each.device})
    return session


def test_a_gpu_that_is_lost_keeps_the_others_xids_from_nobody() -> None:
    thread, told = thread_of(seat(0), seat(1), seat(2))
    nvml = FakeNvml([XidEvent("GPU-1", 79)])
    session = hear(thread, nvml)
    nvml.lost = {"GPU-1"}

    assert thread.wait(session, 1)
    assert thread.wait(session, 1), "it went on listening to those that are there"
    nvml.events.append(XidEvent("GPU-2", 31))
    assert thread.wait(session, 1)

    assert nvml.registered == {"GPU-0", "GPU-2"}
    assert told == [("GPU-1", 79), ("GPU-2", 31)]


def test_a_wait_that_fails_for_no_gpu_in_particular_is_not_tried_without_end() -> None:
    thread, _ = thread_of(seat(0), seat(1))
    nvml = FakeNvml(lost=["GPU-1"], dumb=True)
    session = hear(thread, nvml)

    assert not thread.wait(session, 1)
    assert not thread.wait(session, 1)
    assert nvml.waits == 1


def test_an_xid_of_a_gpu_that_another_thread_has_taken_over_is_not_told_twice() -> None:
    thread, told = thread_of(seat(0), seat(1))
    nvml = FakeNvml([XidEvent("GPU-0", 31), XidEvent("", 43)])
    session = hear(thread, nvml)

    thread.give_up_others()  # it looks at none of them
    thread.wait(session, 1)
    thread.wait(session, 1)

    assert thread.seats == ()
    assert told == []
