"""What the thread that holds NVML tells between two inventories."""

from __future__ import annotations

import queue
import time
from pathlib import Path

import pytest
from tests.unit.gpu.test_inventory import FakeNvml, kernel

from gpuready.gpu import feed as feeding
from gpuready.gpu.driver_files import NvmlLibrary
from gpuready.gpu.feed import Fact, Feed, InventoryTaken, Pace


class WatchedNvml(FakeNvml):
    """Nothing happens by itself; what is asked goes on."""

    def watch_xids(self, handles: object) -> None:
        pass

    def next_xid(self, timeout_ms: int) -> None:
        time.sleep(timeout_ms / 1000)

    def handle_by_uuid(self, uuid: str) -> int:
        return int(uuid.removeprefix("GPU-"))

    def close(self) -> None:
        pass


def test_an_inforom_that_gets_corrupted_is_told_long_before_the_next_inventory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = WatchedNvml()
    library = NvmlLibrary(tmp_path / "libnvidia-ml.so.580.1", "/usr/lib64", "580.1")
    monkeypatch.setattr(feeding, "Nvml", lambda path: nvml)
    monkeypatch.setattr(feeding, "find_nvml_library", lambda tree: library)
    told: queue.Queue[Fact] = queue.Queue()
    tree = kernel(tmp_path)
    feed = Feed(lambda: tree, tree, told.put, Pace(event_wait_ms=2, inventory_s=600, inforom_s=0.01))
    feed.start()
    try:
        assert _validity(told) == [True, True, True, True]
        nvml.broken[(2, "inforom")] = 14
        assert _validity(told) == [True, True, False, True]
    finally:
        feed.stop()
        feed.join(5)


def _validity(told: queue.Queue[Fact]) -> list[bool | None]:
    fact = told.get(timeout=5)
    assert isinstance(fact, InventoryTaken)
    return [gpu.inforom_valid for gpu in fact.inventory.gpus]
