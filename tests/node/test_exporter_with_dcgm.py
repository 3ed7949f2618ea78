"""The exporter as a process with DCGM as its source: an engine elsewhere that comes and goes, or one in it.

libdcgm is the simulator's; it reads the GPUs that the simulated NVML reads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.sim.exporter_node import DEADLINE_S, ExporterNode, Pod
from tests.sim.operator_cluster import http

from gpuready import names
from gpuready_sim.dcgm.host_engine import HostEngine
from gpuready_sim.hardware import call_faults, driver_tree, mig, work
from gpuready_sim.hardware.course import Course
from gpuready_sim.hardware.dcgm_package import install_dcgm

INTERVAL_MS = 500
CSV = """
DCGM_FI_DEV_GPU_TEMP, gauge, temperature
DCGM_FI_DEV_FB_USED, gauge, memory used
DCGM_FI_DEV_FB_TOTAL, gauge, memory
DCGM_FI_DEV_PCIE_TX_THROUGHPUT, gauge, NVML alone has it
DCGM_FI_DEV_FAN_SPEED, gauge, nobody has it
DCGM_FI_DEV_XID_ERRORS, gauge, last XID
DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, busy
DCGM_FI_DRIVER_VERSION, label, driver
"""


class Page:
    """One scrape."""

    def __init__(self, text: str, health: str, took_s: float) -> None:
        self.text, self.health, self.took_s = text, health, took_s
        families = text_string_to_metric_families(text)
        self._samples = [sample for family in families for sample in family.samples]

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [{**each.labels, "value": each.value} for each in self._samples if each.name == name]

    def value(self, name: str, **labels: str) -> float | None:
        for each in self.lines(name):
            if labels.items() <= each.items():
                return float(each["value"])
        return None

    def is_from_dcgm(self) -> bool:
        return self.value("gpuready_exporter_dcgm_up") == 1

    def device_series(self) -> dict[str, str]:
        """Of DCGM's names: what stands before the value, and the value."""
        lines = (line.rpartition(" ") for line in self.text.splitlines() if line.startswith("DCGM_FI_"))
        return {series: value for series, _, value in lines}


async def scrape(node: ExporterNode) -> Page:
    started = time.monotonic()
    _, text = await http(f"{node.url}/metrics")
    took_s = time.monotonic() - started
    _, health = await http(f"{node.url}/health")
    return Page(text, health, took_s)


async def until(node: ExporterNode, check: Callable[[Page], bool]) -> Page:
    deadline = time.monotonic() + DEADLINE_S
    while not check(page := await scrape(node)):
        assert time.monotonic() < deadline, f"{page.health}\n{page.text}"
        await asyncio.sleep(INTERVAL_MS / 4000)
    return page


async def start(node: ExporterNode, **env: str) -> None:
    install_dcgm(node.root)
    counters = node.container / "counters.csv"
    counters.write_text(CSV)
    await node.start(DCGM_EXPORTER_COLLECTORS="/counters.csv", DCGM_EXPORTER_INTERVAL=str(INTERVAL_MS), **env)


def _look_s(page: Page) -> float:
    took_s = page.value("gpuready_exporter_collection_seconds")
    assert took_s is not None
    return took_s


async def test_both_sources_show_the_same_series_with_the_same_values(tmp_path: Path) -> None:
    async with ExporterNode(tmp_path / "node", gpus=2) as node:
        with node.gpus() as gpus:
            work.set_load(gpus, 0, Course.constant(80))
            await start(node, GPUREADY_EXPORTER_SOURCE="nvml")
            await until(node, lambda page: len(page.lines("DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 2)
            gpus.raise_xid(1, 31)  # NVML tells of those that are raised while somebody listens
            by_nvml = await until(
                node,
                lambda page: (
                    len(page.lines("DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 2
                    and page.value("DCGM_FI_DEV_XID_ERRORS", gpu="1") == 31
                ),
            )
            await node.stop()
            await start(node, GPUREADY_EXPORTER_SOURCE="dcgm")
            by_dcgm = await until(node, lambda page: len(page.lines("DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 2)
    nvml, dcgm = by_nvml.device_series(), by_dcgm.device_series()
    assert dcgm.keys() == {series for series in nvml if "PCIE_TX_THROUGHPUT" not in series}
    for series, value in dcgm.items():
        assert abs(float(value) - float(nvml[series])) <= 0.02 * max(1.0, float(value)), series
    assert by_dcgm.value("DCGM_FI_PROF_GR_ENGINE_ACTIVE", gpu="0") is not None
    assert "OK" in by_dcgm.health
    blank = {"reason": "DCGM has no value: the GPU does not support it", "value": 2.0}
    assert {"field": "DCGM_FI_DEV_FAN_SPEED", **blank} in by_dcgm.lines("gpuready_exporter_absent_fields")


async def test_an_engine_that_goes_is_replaced_by_nvml_until_it_is_back(tmp_path: Path) -> None:
    engine = HostEngine()
    with engine:
        engine.stop()  # not yet up when the exporter starts
        async with ExporterNode(tmp_path / "node") as node:
            await start(node, DCGM_REMOTE_HOSTENGINE_INFO=engine.address)
            first = await until(node, lambda page: bool(page.lines("DCGM_FI_DEV_GPU_TEMP")))
            assert "DEGRADED" in first.health
            assert f"DCGM ({engine.address}) does not answer, values are NVML's" in first.health
            assert first.value("gpuready_exporter_dcgm_samples") == 0

            engine.start()
            up = await until(node, Page.is_from_dcgm)
            assert up.health.startswith("OK")
            assert up.value("gpuready_exporter_dcgm_up", engine=engine.address, version="4.5.3") == 1
            assert up.lines("DCGM_FI_DEV_PCIE_TX_THROUGHPUT")  # which NVML alone has

            engine.stop()
            down = await until(node, lambda page: page.value("gpuready_exporter_dcgm_samples") == 0)
            assert "ConnectionNotValid" in down.health
            assert down.device_series().keys() == up.device_series().keys()

            engine.start()
            assert (await until(node, Page.is_from_dcgm)).health.startswith("OK")


async def test_where_dcgm_stands_alone_its_absence_is_told_and_our_own_metrics_stay(tmp_path: Path) -> None:
    with HostEngine() as engine:
        async with ExporterNode(tmp_path / "node") as node:
            more = {"DCGM_REMOTE_HOSTENGINE_INFO": engine.address, "GPUREADY_EXPORTER_SOURCE": "dcgm"}
            await start(node, **more)
            await until(node, lambda page: bool(page.lines("DCGM_FI_DEV_GPU_TEMP")))
            engine.stop()
            down = await until(node, lambda page: not page.device_series())
            assert "BROKEN" in down.health
            assert "values are none, as DCGM is the only source" in down.health
            assert down.lines("gpuready_energy_joules_total")
            assert any(
                "ConnectionNotValid" in each["reason"] and each["field"] == "DCGM_FI_DEV_GPU_TEMP"
                for each in down.lines("gpuready_exporter_absent_fields")
            )
            engine.start()
            await until(node, lambda page: bool(page.lines("DCGM_FI_DEV_GPU_TEMP")))


async def test_a_call_that_hangs_in_dcgm_costs_no_scrape_and_no_value(tmp_path: Path) -> None:
    async with ExporterNode(tmp_path / "node") as node:
        await start(node, GPUREADY_EXPORTER_SOURCE="auto")
        await until(node, Page.is_from_dcgm)
        with node.gpus() as gpus:
            call_faults.hang(gpus, "dcgmEntitiesGetLatestValues", seconds=600)
            stuck = await until(node, lambda page: page.value("gpuready_exporter_dcgm_samples") == 0)
            assert stuck.took_s < 0.5
            assert "DCGM (embedded) does not answer, values are NVML's: DCGM has not answered" in stuck.health
            assert stuck.lines("DCGM_FI_DEV_GPU_TEMP")
            # The page does not wait each time anew for a call that is known to hang.
            await until(node, lambda page: 2 * 1000 * _look_s(page) < INTERVAL_MS)
            call_faults.mend(gpus)
            assert (await until(node, Page.is_from_dcgm)).health.startswith("OK")


async def test_instances_of_a_mig_gpu_are_told_by_dcgm_and_name_their_pods(tmp_path: Path) -> None:
    async with ExporterNode(tmp_path / "node") as node:
        with node.gpus() as gpus:
            mig.enable(gpus, 0)
            small, _ = mig.layout(gpus, 0, ["1g.10gb", "3g.40gb"])
        node.add(Pod("trainer", (small,), "nvidia.com/mig-1g.10gb"))
        await start(node, GPUREADY_EXPORTER_SOURCE="dcgm")
        page = await until(node, lambda page: len(page.lines("DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 2)
    totals = {each["GPU_I_PROFILE"]: each for each in page.lines("DCGM_FI_DEV_FB_TOTAL")}
    assert totals.keys() == {"1g.10gb", "3g.40gb"}
    assert totals["1g.10gb"]["pod"] == "trainer"
    assert totals["1g.10gb"]["value"] == 9984
    assert "pod" not in totals["3g.40gb"]
    assert len(page.lines("DCGM_FI_DEV_GPU_TEMP")) == 1


async def test_an_engine_elsewhere_is_enough_where_no_driver_is_here(tmp_path: Path) -> None:
    with HostEngine() as engine:
        async with ExporterNode(tmp_path / "node") as node:
            driver_tree.remove_driver(node.root)
            more = {"DCGM_REMOTE_HOSTENGINE_INFO": engine.address, "GPUREADY_EXPORTER_SOURCE": "dcgm"}
            await start(node, **more)
            page = await until(node, lambda page: bool(page.lines("DCGM_FI_DEV_GPU_TEMP")))
            assert page.lines("DCGM_FI_DEV_GPU_TEMP")[0]["UUID"] == node.uuids()[0]
            assert "NVML does not answer, so XIDs and what pods use are not known" in page.health
            assert page.value("gpuready_exporter_nvml_up") == 0


async def test_an_engine_in_this_process_is_stopped_while_the_gpus_are_changed(tmp_path: Path) -> None:
    async with ExporterNode(tmp_path / "node") as node:
        await start(node, GPUREADY_EXPORTER_SOURCE="auto")
        await until(node, Page.is_from_dcgm)
        pause = node.container / names.PAUSE_FILE.lstrip("/")
        pause.parent.mkdir(exist_ok=True)
        pause.write_text("MIG is changed")
        with node.gpus() as gpus:
            deadline = time.monotonic() + DEADLINE_S
            while gpus.holders():
                assert time.monotonic() < deadline, "the driver is still held"
                await asyncio.sleep(0.05)
        assert "the GPUs are about to be changed" in (await scrape(node)).health
        pause.unlink()
        await until(node, Page.is_from_dcgm)
