"""The exporter as a process between a simulated NVML and a kubelet's pod-resources socket.

Two nodes: 8 H100 shared by 64 pods with 60 fields, and 8 x 7 MIG instances with a pod on each. The client
asks as Prometheus does (keep-alive, gzip); its own share of a scrape is in the latencies.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

from tests.sim.exporter_node import GPU, ExporterNode, Pod

from benchmarks import processes
from benchmarks.figures import Figure
from benchmarks.harness import Run
from gpuready.gpu.telemetry import fields
from gpuready.operands.exporter.families import OUR_FIELDS
from gpuready_sim.hardware import mig, work
from gpuready_sim.hardware.course import Course

GPUS, FIELDS, PODS, INSTANCES = 8, 60, 64, 7
OWED_MS, OWED_MB, OWED_IDLE = 5, 40, 0.1
HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
    "Accept-Encoding": "gzip",
    "User-Agent": "Prometheus/2.42.0",
}


async def measure(run: Run) -> list[Figure]:
    figures = []
    async with _shared(run) as node:
        await node.start(**counters_file(node), DCGM_EXPORTER_INTERVAL="1000")
        what = f"{GPUS} GPUs x {FIELDS} fields x {PODS} pods"
        figures += await _scrapes(node, what, run.pick(100, 2000))
        figures += await _collections(node, what, run.pick(3, 20))
        figures.append(await _series(node))
        figures += await _memory_and_churn(node, run)
        await node.stop()
        await node.start(**counters_file(node), DCGM_EXPORTER_INTERVAL="30000")
        figures.append(await _idle(node, run))
    async with _cut_up() as node:
        await node.start(DCGM_EXPORTER_INTERVAL="1000")
        what = f"{GPUS} x {INSTANCES} MIG instances"
        figures += await _scrapes(node, what, run.pick(100, 2000))
        figures += await _collections(node, what, run.pick(3, 20))
    return figures


# --- the nodes --------------------------------------------------------------------------------------------


@asynccontextmanager
async def _shared(run: Run) -> AsyncIterator[ExporterNode]:
    with tempfile.TemporaryDirectory() as folder:
        async with ExporterNode(Path(folder) / "node", gpus=GPUS) as node:
            with node.gpus() as gpus:
                for index in range(GPUS):
                    work.set_load(gpus, index, Course.sine(10, 90, 5 + index))
            uuids = node.uuids()
            for number in range(PODS):
                index, replica = number % GPUS, number // GPUS
                node.add(Pod(f"pod-{number:03}", (f"{uuids[index]}::{replica}",), f"{GPU}.shared"), on=index)
            yield node


@asynccontextmanager
async def _cut_up() -> AsyncIterator[ExporterNode]:
    with tempfile.TemporaryDirectory() as folder:
        async with ExporterNode(Path(folder) / "node", gpus=GPUS) as node:
            for index in range(GPUS):
                with node.gpus() as gpus:
                    made = mig.layout(gpus, index, ["1g.10gb"] * INSTANCES)
                    for instance in range(1, INSTANCES + 1):
                        mig.set_load(gpus, index, instance, Course.constant(10 * instance))
                for number, uuid in enumerate(made):
                    pod = Pod(f"pod-{index}-{number}", (uuid,), "nvidia.com/mig-1g.10gb")
                    node.add(pod, on=index, instance=number + 1)
            yield node


def counters_file(node: ExporterNode) -> dict[str, str]:
    """A counters file of so many fields that this GPU can tell."""
    path = node.container / "etc/counters.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{name}, gauge, a field\n" for name in islice(_names(), FIELDS)))
    return {"DCGM_EXPORTER_COLLECTORS": "/etc/counters.csv"}


def _names() -> list[str]:
    """The first spelling of each field that NVML tells of a whole GPU as a number."""
    known = {each.id: each for name in fields.all_names() if (each := fields.find_field(name)) is not None}
    return [
        each.name
        for each in sorted(known.values(), key=lambda field: field.id)
        if 100 <= each.id < OUR_FIELDS and not fields.missing_reason(each) and not fields.is_text(each)
    ]


# --- measuring --------------------------------------------------------------------------------------------


async def _scrapes(node: ExporterNode, what: str, count: int) -> list[Figure]:
    assert node.exporter is not None
    before = processes.cpu_s(node.exporter.pid)
    taken, size = await asyncio.to_thread(scrape_often, node.port, count)
    cpu_ms = 1000 * (processes.cpu_s(node.exporter.pid) - before) / count
    return [
        Figure(f"scrape, {what}", taken, "ms", OWED_MS, OWED_MS, note=f"{size / 1024:.0f} KB, compressed"),
        Figure(f"CPU for a scrape, {what}", [cpu_ms], "ms", note="looks at the GPUs meanwhile included"),
    ]


def scrape_often(port: int, count: int) -> tuple[list[float], int]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    taken, size = [], 0
    for _ in range(count):
        begin = time.perf_counter()
        connection.request("GET", "/metrics", headers=HEADERS)
        answer = connection.getresponse()
        size = len(answer.read())
        taken.append(1000 * (time.perf_counter() - begin))
        assert answer.status == 200, answer.status
    connection.close()
    return taken, size


async def _collections(node: ExporterNode, what: str, count: int) -> list[Figure]:
    looks, pages = [], []
    seen = -1.0
    while len(looks) < count:
        page = await asyncio.to_thread(page_of, node.port)
        number = _value(page, "gpuready_exporter_collections_total")
        if number != seen:
            looks.append(1000 * _value(page, "gpuready_exporter_collection_seconds"))
            pages.append(1000 * _value(page, "gpuready_exporter_render_seconds"))
        seen = number
        await asyncio.sleep(0.2)
    return [Figure(f"look at all GPUs, {what}", looks, "ms"), Figure(f"making the page, {what}", pages, "ms")]


async def _series(node: ExporterNode) -> Figure:
    """Beside what the original would show: every field for every pod with virtual GPUs, or over a day."""
    page = await asyncio.to_thread(page_of, node.port)
    lines = [line for line in page.splitlines() if line and not line.startswith("#")]
    original = GPUS * FIELDS
    note = f"the original: {original} at a time, {FIELDS * PODS} by churn; {original + FIELDS * PODS} virtual"
    return Figure(f"series, {GPUS} GPUs x {FIELDS} fields x {PODS} pods", [len(lines)], "", note=note)


async def _memory_and_churn(node: ExporterNode, run: Run) -> list[Figure]:
    """Resident memory after many scrapes while pods come and go at each of them."""
    assert node.exporter is not None
    rounds, scrapes = run.pick(2, 100), run.pick(20, 100)
    for number in range(rounds):
        gone = node.pods.pop(0)
        node.add(Pod(f"churn-{number}", gone.devices, gone.resource))
        await asyncio.to_thread(scrape_often, node.port, scrapes)
    memory = processes.memory(node.exporter.pid)
    note = f"after {rounds * scrapes} scrapes, {rounds} pods replaced; Pss {memory.pss_mb:.0f} MB"
    return [Figure("exporter, Rss", [memory.rss_mb], "MB", OWED_MB, note=note)]


async def _idle(node: ExporterNode, run: Run) -> Figure:
    assert node.exporter is not None
    await asyncio.sleep(run.pick(0, 2))
    shares, window_s = [], run.pick(0.5, 30)
    for _ in range(run.pick(1, 2)):
        before = processes.cpu_s(node.exporter.pid)
        await asyncio.sleep(window_s)
        shares.append((processes.cpu_s(node.exporter.pid) - before) / window_s * 100)
    note = f"looks every 30 s, windows of {window_s:g} s"
    return Figure("exporter, idle CPU", shares, "%", OWED_IDLE, note=note)


def page_of(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def _value(page: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", page, re.M)
    assert found, f"the page has no {name}"
    return float(found[1])
