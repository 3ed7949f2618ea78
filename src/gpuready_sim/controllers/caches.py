"""The informers that the controllers share."""

from __future__ import annotations

import asyncio

from gpuready_sim.client import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NODES,
    PODS,
    REPLICA_SETS,
    Resource,
    SimClient,
)
from gpuready_sim.informer import Informer

BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


class Caches:
    def __init__(self, client: SimClient) -> None:
        self.nodes = Informer(client, NODES)
        self.pods = Informer(client, PODS)
        self.daemon_sets = Informer(client, DAEMON_SETS)
        self.deployments = Informer(client, DEPLOYMENTS)
        self.replica_sets = Informer(client, REPLICA_SETS)
        self.jobs = Informer(client, JOBS)
        self.revisions = Informer(client, CONTROLLER_REVISIONS)
        self.budgets = Informer(client, BUDGETS)
        self.leases = Informer(client, LEASES, namespace="kube-node-lease")

    @property
    def all(self) -> tuple[Informer, ...]:
        workloads = (self.daemon_sets, self.deployments, self.replica_sets, self.jobs)
        return (self.nodes, self.pods, *workloads, self.revisions, self.budgets, self.leases)

    async def wait_synced(self) -> None:
        await asyncio.gather(*(informer.wait_synced() for informer in self.all))
