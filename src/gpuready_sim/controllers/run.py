"""All controllers in one asyncio process, on shared caches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gpuready_sim.client import SimClient
from gpuready_sim.controllers.caches import Caches
from gpuready_sim.controllers.daemonset.loop import DaemonSetController
from gpuready_sim.controllers.deployment.loop import DeploymentController
from gpuready_sim.controllers.deployment.replica_set import ReplicaSetController
from gpuready_sim.controllers.disruption.loop import DisruptionController
from gpuready_sim.controllers.garbage.graph import Graph
from gpuready_sim.controllers.garbage.loop import GarbageCollector
from gpuready_sim.controllers.job.loop import JobController
from gpuready_sim.controllers.nodes.loop import NodeController
from gpuready_sim.controllers.scheduler.loop import Scheduler


@dataclass(frozen=True)
class Settings:
    node_grace_s: float = 8.0  # how long a node may be silent; Kubernetes' own default is 40 (now 50)


async def run_controllers(client: SimClient, settings: Settings | None = None) -> None:
    """Until cancelled."""
    chosen = settings or Settings()
    caches = Caches(client)
    loops = (
        DaemonSetController(client, caches),
        DeploymentController(client, caches),
        ReplicaSetController(client, caches),
        JobController(client, caches),
        DisruptionController(client, caches),
        Scheduler(client, caches),
        NodeController(client, caches, grace_s=chosen.node_grace_s),
    )
    collector = GarbageCollector(client, Graph())
    async with asyncio.TaskGroup() as group:
        for informer in caches.all:
            group.create_task(informer.run())
        group.create_task(collector.run())
        await caches.wait_synced()
        for loop in loops:
            group.create_task(loop.run())
