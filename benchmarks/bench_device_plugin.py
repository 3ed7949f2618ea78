"""Figures of the device plugin on a simulated node: `python benchmarks/bench_device_plugin.py`.

Start -> Registered, Allocate, preferred allocation 4 of 8, XID -> kubelet told, re-registration, memory, idle
CPU. Latencies include the Python client's share, as in the original's measurements.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from grpclib.client import Channel
from tests.sim.plugin_node import WITH_AGENT, PluginNode

from gpuready.node.kubelet.sockets import Directory
from gpuready.protos.deviceplugin.v1beta1 import api_grpc, api_pb2

STARTS, CALLS, IDLE_S = 7, 2000, float(os.environ.get("BENCH_IDLE_S", "20"))
AT_REST = {"GPUREADY_INVENTORY_S": "30", "GPUREADY_PROBE_S": "1"}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        node = PluginNode(Path(folder), gpus=8)
        node.install()
        await node.kubelet.start()
        starts = [await start_once(node) for _ in range(STARTS)]
        show("start -> Registered", starts[1:], "ms", owed=300)  # the first one fills the byte-code cache
        await node.start(DEVICE_LIST_STRATEGY="cdi-cri", **AT_REST)
        await node.until_allocatable(8)
        await calls(node)
        show("XID raised -> kubelet told", [await xid_once(node) for _ in range(5)], "ms", owed=100)
        show("kubelet back -> Registered", [await kubelet_once(node) for _ in range(5)], "ms", owed=20)
        await node.stop()
        await at_rest(node)
        await node.stop()
        await node.end()


async def start_once(node: PluginNode) -> float:
    begin = time.perf_counter()
    await node.start(DEVICE_LIST_STRATEGY="cdi-cri")
    await node.until_allocatable(8)
    took = time.perf_counter() - begin
    await node.stop()
    await node.until_allocatable(0)
    return took


async def calls(node: PluginNode) -> None:
    ids = node.uuids()
    with Directory(node.root / "var/lib/kubelet/device-plugins") as directory:
        channel = Channel(path=directory.short("nvidia-gpu.sock"))
        stub = api_grpc.DevicePluginStub(channel)
        one = api_pb2.ContainerAllocateRequest(devices_ids=ids[:1])
        request = api_pb2.AllocateRequest(container_requests=[one])
        show("Allocate 1 GPU", [await timed(stub.Allocate, request) for _ in range(CALLS)], "ms", owed=1.2)
        four = api_pb2.ContainerPreferredAllocationRequest(available_deviceIDs=ids, allocation_size=4)
        question = api_pb2.PreferredAllocationRequest(container_requests=[four])
        times = [await timed(stub.GetPreferredAllocation, question) for _ in range(CALLS)]
        show("preferred 4 of 8", times, "ms", owed=1.5)
        channel.close()


async def timed(call: object, request: object) -> float:
    begin = time.perf_counter()
    await call(request)  # type: ignore[operator]
    return time.perf_counter() - begin


async def xid_once(node: PluginNode) -> float:
    with node.gpus() as state:
        begin = time.perf_counter()
        state.raise_xid(0, 109)
        await node.until_allocatable(7)
        took = time.perf_counter() - begin
        state.reset(0)
    await node.until_allocatable(8)
    return took


async def kubelet_once(node: PluginNode) -> float:
    await node.kubelet.stop()
    begin = time.perf_counter()
    await node.restart_kubelet()
    await node.until_allocatable(8)
    return time.perf_counter() - begin


async def at_rest(node: PluginNode) -> None:
    """In its usual place: with a node agent beside it."""
    node.open_gate()
    node.write_desired({"version": "v1"})
    await node.start(DEVICE_LIST_STRATEGY="cdi-cri", **AT_REST, **WITH_AGENT)
    await node.until_allocatable(8)
    await asyncio.sleep(1)
    assert node.process is not None
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    print(f"{'resident':28} {int(status.split('VmRSS:')[1].split()[0]) / 1024:8.1f} MB   owed 35")  # noqa: T201
    before = cpu_s(node.process.pid)
    await asyncio.sleep(IDLE_S)
    share = (cpu_s(node.process.pid) - before) / IDLE_S * 100
    print(f"{'idle CPU':28} {share:8.2f} %    owed 0.1")  # noqa: T201


def cpu_s(pid: int) -> float:
    """From the scheduler's own count: clock ticks are too coarse for an idle process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def show(what: str, times: list[float], unit: str, owed: float) -> None:
    ordered = sorted(1000 * value for value in times)
    p50, p99 = statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(f"{what:28} {p50:8.2f} {unit}   p99 {p99:8.2f}   owed {owed}")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
