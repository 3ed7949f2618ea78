"""A small fleet in which everything happens that a dashboard has a panel for, and a Prometheus for it.

An operator with nodes of which some are in trouble; a node whose GPUs are shared, throttled, lost and held
for nothing; and one whose GPUs are cut up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.node.prometheus import Prometheus, prometheus
from tests.sim.exporter_node import GPU, ExporterNode, Pod
from tests.sim.operator_cluster import Operator, policy
from tests.unit.monitoring.promql import ALERTS, EXPORTER_ALERTS

from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.hardware import call_faults, mig, work
from gpuready_sim.hardware.course import Course

CLUSTER = """
nodes:
- {name: whole, gpus: {L4: 1}, driver: {where: host}}
- {name: broken, gpus: {A100-SXM4-40GB: 2}, driver: {where: host}}
- {name: stale, gpus: {L4: 1}, driver: {where: host}}
"""
FAST = "500"  # ms between two looks


@asynccontextmanager
async def fleet(folder: Path) -> AsyncIterator[Prometheus]:
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster.started(CLUSTER, operator=False))
        operator = await stack.enter_async_context(Operator(cluster))
        await cluster.apply(policy())
        shared = await stack.enter_async_context(ExporterNode(folder / "shared", gpus=4))
        cut_up = await stack.enter_async_context(ExporterNode(folder / "cut-up", gpus=2))
        _share(shared)
        _cut_up(cut_up)
        await shared.start(DCGM_EXPORTER_INTERVAL=FAST, NODE_NAME="gpu-1")
        await cut_up.start(DCGM_EXPORTER_INTERVAL=FAST, NODE_NAME="mig-1")
        exporters = [each.url.removeprefix("http://") for each in (shared, cut_up)]
        server = await stack.enter_async_context(
            prometheus(
                f"127.0.0.1:{operator.metrics_port}",
                folder,
                rules=[ALERTS, EXPORTER_ALERTS],
                more={"nvidia-dcgm-exporter": exporters},
            )
        )
        await server.wait_for("count(gpuready_xids_total) > 12")
        await cluster.fault("lost", target="broken/1")
        await cluster.fault("driver-update", node="stale", version="570.133.20")
        _let_go_wrong(shared)
        yield server


def _share(node: ExporterNode) -> None:
    first, second, third, _ = node.uuids()
    for number, name in enumerate(("notebook-a", "notebook-b", "serving")):
        node.add(
            Pod(name, (f"{first}::{number}",), f"{GPU}.shared", "team-a"), on=0, mib=4000 + 2000 * number
        )
    node.add(Pod("train-0", (second,), namespace="team-b"), on=1, mib=60_000)
    node.add(Pod("forgotten", (third,), namespace="team-b"))
    with node.gpus() as gpus:
        work.set_load(gpus, 0, Course.sine(20, 90, 40))
        work.set_load(gpus, 1, Course.constant(97))


def _cut_up(node: ExporterNode) -> None:
    profiles = ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]
    for index in (0, 1):
        with node.gpus() as gpus:
            made = mig.layout(gpus, index, profiles)
            for instance in range(1, len(made) + 1):
                mig.set_load(gpus, index, instance, Course.sine(5, 20 * instance, 20 + instance))
        for instance, (uuid, profile) in list(enumerate(zip(made, profiles, strict=True), start=1))[
            : 4 - index
        ]:
            pod = Pod(f"infer-{index}-{instance}", (uuid,), f"nvidia.com/mig-{profile}", "team-c")
            node.add(pod, on=index, instance=instance, mib=1500 * instance)


def _let_go_wrong(node: ExporterNode) -> None:
    with node.gpus() as gpus:
        work.throttle(gpus, 1, ["hw-thermal", "power-cap"])
        work.count_error(gpus, 1, "pcie-replay", 3)
        work.count_error(gpus, 1, "row-remap-correctable", 2)
        work.set_flag(gpus, 1, "row-remap-failed")
        for code in (31, 31, 48):
            gpus.raise_xid(1, code)
        call_faults.hang(gpus, "*", 3600, gpu=3)
