"""Who speaks for what nobody runs here: the nodes' agents, and the DaemonSet controller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Self

from tests.sim.operator_cluster import GPU_NODES, Object

from gpuready_sim.client import DAEMON_SETS, Gone, Resource, SimClient

IN_FLIGHT = 8
COUNT_EVERY_S = 0.1
_LINKS = ("reporting", "discovery", "driver", "toolkit", "device-plugin", "cuda")


class StandIns:
    """Answers each new GPUNode and each new generation of a DaemonSet with one status, and nothing else.

    The first reports wait until there are `count` GPUNodes: on a real node an image is pulled by then. Until
    then they are counted, not watched: agents take nothing from the cores of the API server in real life.
    """

    def __init__(self, client: SimClient, count: int) -> None:
        self._client = client
        self._count = count
        self._seen: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._gpu_nodes: asyncio.Queue[str] = asyncio.Queue()
        self._cpu_before = 0.0
        self.complete = asyncio.Event()  # as many GPUNodes as were waited for are there

    @property
    def cpu_s(self) -> float:
        """CPU seconds that this process, and so they, have taken: agents run on their nodes in real life."""
        return time.process_time() - self._cpu_before

    async def __aenter__(self) -> Self:
        self._cpu_before = time.process_time()
        work = [self._watch_gpu_nodes(), self._watch_daemon_sets()]
        work += [self._report() for _ in range(IN_FLIGHT)]
        self._tasks = [asyncio.create_task(each) for each in work]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for exc in ended:
            if isinstance(exc, Exception):
                raise exc

    async def _watch_gpu_nodes(self) -> None:
        while await self._gpu_nodes_there() < self._count:
            await asyncio.sleep(COUNT_EVERY_S)
        self.complete.set()
        async for obj in _changes(self._client, GPU_NODES):
            name = obj["metadata"]["name"]
            if name not in self._seen:
                self._seen.add(name)
                self._gpu_nodes.put_nowait(name)

    async def _gpu_nodes_there(self) -> int:
        page = await self._client.raw("GET", GPU_NODES.path(), params={"limit": "1"})
        return len(page.get("items") or ()) + int(page["metadata"].get("remainingItemCount") or 0)

    async def _report(self) -> None:
        while True:
            name = await self._gpu_nodes.get()
            status = {"status": _gpu_node_status(name)}
            await self._client.merge_patch(GPU_NODES, name, status, subresource="status")

    async def _watch_daemon_sets(self) -> None:
        async for obj in _changes(self._client, DAEMON_SETS):
            generation = obj["metadata"]["generation"]
            if (obj.get("status") or {}).get("observedGeneration") == generation:
                continue
            meta = obj["metadata"]
            status = {"status": _rolled_out(generation, self._count + 1)}
            await self._client.merge_patch(
                DAEMON_SETS, meta["name"], status, meta["namespace"], subresource="status"
            )


async def _changes(client: SimClient, resource: Resource) -> AsyncIterator[Object]:
    """Every object, and again when it changes; watches of a new kind end now and then."""
    while True:
        items, version = await client.list(resource)
        for item in items:
            yield item
        try:
            async for kind, obj in client.watch(resource, version):
                if kind in ("ADDED", "MODIFIED"):
                    yield obj
        except Gone:
            continue


def _rolled_out(generation: int, nodes: int) -> Object:
    """With a ready pod on each node, that of the small changes included."""
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady")
    return {"observedGeneration": generation, "numberMisscheduled": 0, **dict.fromkeys(counts, nodes)}


def _gpu_node_status(name: str) -> Object:
    now = "2026-01-01T00:00:00Z"
    devices = [
        {
            "uuid": f"GPU-{index}-{name}",
            "index": index,
            "product": "NVIDIA H100 80GB HBM3",
            "memoryMiB": 81559,
            "health": "Healthy",
            "replicas": 1,
            "mig": "disabled",
        }
        for index in range(8)
    ]
    return {
        "observedGeneration": 1,
        "bootID": f"{name}-boot",
        "agentVersion": "bench",
        "chain": [{**_verdict(each), "lastTransitionTime": now} for each in _LINKS],
        "columns": {"driver": "ok", "runtime": "ok", "plugin": "ok", "cuda": "ok"},
        "gpus": 8,
        "healthy": 8,
        "reason": "",
        "devices": devices,
        "driver": {"owner": "host", "version": "570.86.10", "root": "/"},
        "runtime": {"name": "containerd", "version": "1.7.24"},
        "uninstalled": False,
    }


def _verdict(link: str) -> Object:
    return {"link": link, "state": "ok", "reason": "Whole", "message": f"{link} is as it should be on {link}"}
