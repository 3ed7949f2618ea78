"""From the policy to GPUs that can be asked for, on the demo's four machines; a fresh cluster each time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.sim.operator_cluster import DEPLOY, GPU_NODES, POLICIES, POLICY, labels, link

from benchmarks.figures import Figure
from benchmarks.harness import Run
from gpuready_sim.client import NODES, Resource
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.scenarios.examples import example

DEADLINE_S = 60.0
WITH_GPUS = {"a100": 8, "h100": 8, "rtx4090": 5}
BARE = "a100"  # its driver comes in a container
STAGES = ("labels", "GPUNode", "driver ready", "registered", "policy ready")
WAITED = "driver loaded -> registered"
Object = dict[str, Any]


async def measure(run: Run) -> list[Figure]:
    seconds: dict[str, list[float]] = {}
    for number in range(run.pick(1, 5)):
        async with Cluster.started(example("cluster-demo.yaml")) as cluster:
            taken = await _once(cluster)
        run.say("  run {}: {}".format(number + 1, ", ".join(f"{k} {v:.1f}" for k, v in taken.items())))
        for stage, value in taken.items():
            seconds.setdefault(stage, []).append(value)
    figures = [Figure(f"policy applied -> {stage}", seconds[stage], "s", note="3 nodes") for stage in STAGES]
    waited = Figure(
        WAITED, seconds[WAITED], "s", owed=2, note="the machine whose driver comes in a container"
    )
    return [*figures, waited]


async def _once(cluster: Cluster) -> dict[str, float]:
    """Seconds from the policy's apply to each stage on all three nodes."""
    shared = {"metadata": {"labels": {"nvidia.com/device-plugin.config": "shared-by-five"}}}
    await cluster.client.merge_patch(NODES, "rtx4090", shared)
    loaded = asyncio.create_task(_driver_loaded(cluster.node_root(BARE)))
    watches = [
        asyncio.create_task(watching)
        for watching in (
            _first_times(cluster, NODES, {"labels": _is_labelled, "registered": _offers_all}, set(WITH_GPUS)),
            _first_times(
                cluster, GPU_NODES, {"GPUNode": lambda obj: True, "driver ready": _has_driver}, set(WITH_GPUS)
            ),
            _first_times(cluster, POLICIES, {"policy ready": _is_ready}, {POLICY}),
        )
    ]
    await asyncio.sleep(0.2)  # the watches stand before the clock starts
    start = time.perf_counter()
    await cluster.apply(example("clusterpolicy-sharing.yaml"))
    try:
        times = [await asyncio.wait_for(watch, DEADLINE_S) for watch in watches]
        loaded_at = await loaded
    finally:
        for task in (*watches, loaded):
            task.cancel()
    seen = {stage: by_name for each in times for stage, by_name in each.items()}
    taken = {stage: max(seen[stage].values()) - start for stage in STAGES}
    return {**taken, WAITED: seen["registered"][BARE] - loaded_at}


async def _first_times(
    cluster: Cluster, resource: Resource, stages: dict[str, Callable[[Object], bool]], names: set[str]
) -> dict[str, dict[str, float]]:
    """When each of these objects first fulfilled each stage; returns when all have."""
    times: dict[str, dict[str, float]] = {stage: {} for stage in stages}

    def take(obj: Object) -> None:
        name = obj["metadata"]["name"]
        for stage, holds in stages.items():
            if name in names and name not in times[stage] and holds(obj):
                times[stage][name] = time.perf_counter()

    items, version = await cluster.client.list(resource)
    for item in items:
        take(item)
    async for kind, obj in cluster.client.watch(resource, version):
        if kind in ("ADDED", "MODIFIED"):
            take(obj)
        if all(set(by_name) == names for by_name in times.values()):
            break
    return times


async def _driver_loaded(root: Path) -> float:
    """When the kernel module of the bare machine is there."""
    module = root / "sys/module/nvidia/version"
    while True:
        with suppress(OSError):
            if module.read_text().strip():
                return time.perf_counter()
        await asyncio.sleep(0.01)


def _is_labelled(node: Object) -> bool:
    return labels(node).get(f"{DEPLOY}device-plugin") == "true"


def _offers_all(node: Object) -> bool:
    offered = node["status"].get("allocatable", {}).get("nvidia.com/gpu", 0)
    return int(offered) == WITH_GPUS[node["metadata"]["name"]]


def _has_driver(gpu_node: Object) -> bool:
    return bool(link(gpu_node, "driver").get("state") == "ok")


def _is_ready(policy: Object) -> bool:
    return bool((policy.get("status") or {}).get("state") == "ready")
