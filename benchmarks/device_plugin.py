"""The device plugin as a process between a simulated NVML and a simulated kubelet, 8 GPUs.

Latencies include the Python client's share, as in the original's measurements.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from grpclib.client import Channel
from tests.sim.plugin_node import WITH_AGENT, PluginNode

from benchmarks import processes
from benchmarks.figures import Figure
from benchmarks.harness import Run
from gpuready.node.kubelet.sockets import Directory
from gpuready.protos.deviceplugin.v1beta1 import api_grpc, api_pb2

GPUS = 8
STRATEGY = {"DEVICE_LIST_STRATEGY": "cdi-cri"}
# As its manifest has them; PluginNode's own are shorter, for tests.
INVENTORY = {"GPUREADY_INVENTORY_S": "30"}
AT_REST = {**INVENTORY, "GPUREADY_PROBE_S": "1"}


async def measure(run: Run) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        node = PluginNode(Path(folder), gpus=GPUS)
        node.install()
        await node.kubelet.start()
        try:
            return [
                await starts(node, run),
                *await calls(node, run),
                await at_rest(node, run),
            ]
        finally:
            await node.end()


async def starts(node: PluginNode, run: Run) -> Figure:
    if not run.quick:
        await _start_once(node)  # the first one fills the byte-code cache
    taken = [await _start_once(node) for _ in range(run.pick(1, 11))]
    return Figure("plugin start -> Registered", taken, "ms", owed=300)


async def _start_once(node: PluginNode) -> float:
    begin = time.perf_counter()
    await node.start(**STRATEGY)
    await node.until_allocatable(GPUS)
    taken = _ms_since(begin)
    await node.stop()
    await node.until_allocatable(0)
    return taken


async def calls(node: PluginNode, run: Run) -> list[Figure]:
    """All that is asked of one plugin that runs."""
    await node.start(**STRATEGY, **INVENTORY)
    await node.until_allocatable(GPUS)
    figures = await _allocations(node, run.pick(100, 2000))
    rounds = run.pick(1, 11)
    back = [await _kubelet_once(node) for _ in range(rounds)]
    figures.append(Figure("kubelet's socket back -> Registered", back, "ms", owed=20))
    told = [await _xid_once(node) for _ in range(rounds)]
    figures.append(Figure("XID raised -> kubelet told", told, "ms", owed=100))
    with node.gpus() as state:
        state.reset(0)
    await node.stop()
    return figures


async def _allocations(node: PluginNode, count: int) -> list[Figure]:
    ids = node.uuids()
    one = api_pb2.ContainerAllocateRequest(devices_ids=ids[:1])
    allocate = api_pb2.AllocateRequest(container_requests=[one])
    four = api_pb2.ContainerPreferredAllocationRequest(available_deviceIDs=ids, allocation_size=4)
    prefer = api_pb2.PreferredAllocationRequest(container_requests=[four])
    with Directory(node.root / "var/lib/kubelet/device-plugins") as directory:
        channel = Channel(path=directory.short("nvidia-gpu.sock"))
        try:
            stub = api_grpc.DevicePluginStub(channel)
            allocated = [await _timed(stub.Allocate, allocate) for _ in range(count)]
            preferred = [await _timed(stub.GetPreferredAllocation, prefer) for _ in range(count)]
        finally:
            channel.close()
    return [
        Figure("Allocate 1 GPU", allocated, "ms", owed=1.2, owed_p99=3),
        Figure("preferred allocation 4 of 8", preferred, "ms", owed=1.5, owed_p99=4),
    ]


async def _timed(call: Callable[[Any], Awaitable[Any]], request: Any) -> float:
    begin = time.perf_counter()
    await call(request)
    return _ms_since(begin)


async def _xid_once(node: PluginNode) -> float:
    with node.gpus() as state:
        state.reset(0)
        await node.until_allocatable(GPUS)  # whole again after the round before
        begin = time.perf_counter()
        state.raise_xid(0, 109)
        await node.until_allocatable(GPUS - 1)
        return _ms_since(begin)


async def _kubelet_once(node: PluginNode) -> float:
    await node.kubelet.stop()
    begin = time.perf_counter()
    await node.restart_kubelet()
    await node.until_allocatable(GPUS)
    return _ms_since(begin)


async def at_rest(node: PluginNode, run: Run) -> Figure:
    """In its usual place: with a node agent beside it."""
    node.open_gate()
    node.write_desired({"version": "v1"})
    await node.start(**STRATEGY, **AT_REST, **WITH_AGENT)
    await node.until_allocatable(GPUS)
    assert node.process is not None
    await asyncio.sleep(run.pick(0, 2))
    shares, window_s = [], run.pick(0.5, 10)
    for _ in range(run.pick(1, 3)):
        before = processes.cpu_s(node.process.pid)
        await asyncio.sleep(window_s)
        shares.append((processes.cpu_s(node.process.pid) - before) / window_s * 100)
    return Figure("plugin alone, idle CPU", shares, "%", owed=0.1, note=f"windows of {window_s:g} s")


def _ms_since(begin: float) -> float:
    return 1000 * (time.perf_counter() - begin)
