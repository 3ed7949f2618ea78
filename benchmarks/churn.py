"""The exporter while pods come and go without end: does its memory, or its page, grow with what is gone?

Four GPUs are shared by pods, four are cut into MIG instances. Each second a pod of either kind is replaced by
one of another name and the page is scraped a few times; each minute a GPU is cut up anew and XIDs are raised.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.sim.exporter_node import GPU, ExporterNode, Pod

from benchmarks import processes
from benchmarks.exporter import GPUS, OWED_MB, counters_file, page_of, scrape_often
from benchmarks.figures import Figure
from benchmarks.harness import Run
from gpuready_sim.hardware import mig, work
from gpuready_sim.hardware.course import Course

SHARED, REPLICAS = range(GPUS // 2), 8
CUT_UP = range(GPUS // 2, GPUS)
LAYOUTS = (["1g.10gb"] * 7, ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"], ["4g.40gb", "3g.40gb"])
XIDS = (13, 31, 43, 45, 63, 92, 94, 137, 154)
SCRAPES_A_SECOND = 3
TURN_S, MINUTE = 1.0, 60


async def measure(run: Run) -> list[Figure]:
    turns = run.pick(5, 60, 3600)
    with tempfile.TemporaryDirectory() as folder:
        async with ExporterNode(Path(folder) / "node", gpus=GPUS) as node:
            churn = _Churn(node)
            await asyncio.to_thread(churn.begin)
            await node.start(**counters_file(node), DCGM_EXPORTER_INTERVAL="1000")
            kept = _Kept()
            for turn in range(turns):
                started = time.monotonic()
                await asyncio.to_thread(churn.turn, turn)
                await asyncio.to_thread(scrape_often, node.port, SCRAPES_A_SECOND - 1)
                assert node.exporter is not None
                kept.note(await asyncio.to_thread(page_of, node.port), processes.memory(node.exporter.pid))
                if turn % MINUTE == 0:
                    run.say(f"churn: minute {turn // MINUTE}, {kept.line()}")
                await asyncio.sleep(max(0.0, started + TURN_S - time.monotonic()))
            return kept.figures(turns, churn.replaced)


class _Churn:
    def __init__(self, node: ExporterNode) -> None:
        self._node = node
        self._random = random.Random(1)
        self._numbers = itertools.count()
        self._layouts = itertools.cycle(LAYOUTS)
        self._pods: dict[int, list[tuple[Pod, int | None]]] = {}  # GPU -> its pods, and the instance of each
        self.replaced = 0

    def begin(self) -> None:
        uuids = self._node.uuids()
        for index in SHARED:
            with self._node.gpus() as gpus:
                work.set_load(gpus, index, Course.sine(10, 90, 5 + index))
            for replica in range(REPLICAS):
                self._add(index, f"{uuids[index]}::{replica}", f"{GPU}.shared")
        for index in CUT_UP:
            self._cut_up(index)

    def turn(self, number: int) -> None:
        self._replace(self._random.choice(SHARED))
        self._replace(self._random.choice(CUT_UP))
        if number % MINUTE == 0:
            self._cut_up(self._random.choice(CUT_UP))
            with self._node.gpus() as gpus:
                gpus.raise_xid(self._random.randrange(GPUS), self._random.choice(XIDS))

    def _replace(self, index: int) -> None:
        pods = self._pods[index]
        gone, instance = pods.pop(0)
        self._node.remove(gone, on=index)
        self._add(index, gone.devices[0], gone.resource, instance)
        self.replaced += 1

    def _cut_up(self, index: int) -> None:
        for gone, _ in self._pods.pop(index, ()):
            self._node.remove(gone, on=index)
        profiles = next(self._layouts)
        with self._node.gpus() as gpus:
            made = mig.layout(gpus, index, profiles)
            # As the simulator numbers them: largest first, from 1 on.
            for instance in range(1, len(made) + 1):
                mig.set_load(gpus, index, instance, Course.constant(10 * instance))
        for instance, (profile, uuid) in enumerate(zip(profiles, made, strict=True), start=1):
            self._add(index, uuid, f"nvidia.com/mig-{profile}", instance)

    def _add(self, index: int, device: str, resource: str, instance: int | None = None) -> None:
        pod = Pod(f"train-{next(self._numbers):06}", (device,), resource)
        self._node.add(pod, on=index, instance=instance)
        self._pods.setdefault(index, []).append((pod, instance))


@dataclass
class _Kept:
    """What each turn showed, and all series that were ever there."""

    rss_mb: list[float] = field(default_factory=list)
    series: list[int] = field(default_factory=list)
    ever: set[int] = field(default_factory=set)
    ever_of_devices: set[int] = field(default_factory=set)

    def note(self, page: str, memory: processes.Memory) -> None:
        self.rss_mb.append(memory.rss_mb)
        shown = list(_series(page))
        self.series.append(len(shown))
        self.ever.update(map(hash, shown))
        self.ever_of_devices.update(hash(each) for each in shown if 'pod="' not in each)

    def line(self) -> str:
        return f"Rss {self.rss_mb[-1]:.1f} MB, {self.series[-1]} series, {len(self.ever)} ever"

    def figures(self, turns: int, replaced: int) -> list[Figure]:
        minutes = turns * TURN_S / 60
        tenth = max(1, turns // 10)
        note = f"{turns * SCRAPES_A_SECOND} scrapes, {replaced} pods replaced in {minutes:.0f} min"
        return [
            Figure("exporter, Rss in churn, last tenth", self.rss_mb[-tenth:], "MB", OWED_MB, note=note),
            Figure("the same, second tenth", self.rss_mb[tenth : 2 * tenth], "MB"),
            Figure("the largest", [max(self.rss_mb)], "MB"),
            Figure(
                "series at a time", self.series, "", note=f"from {min(self.series)} to {max(self.series)}"
            ),
            Figure("series ever", [len(self.ever)], "", note=f"{len(self.ever_of_devices)} name no pod"),
        ]


def _series(page: str) -> Iterator[str]:
    for line in page.splitlines():
        if line and not line.startswith("#"):
            yield line.rpartition(" ")[0]
