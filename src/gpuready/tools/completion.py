"""Names of the cluster's objects for the shell's Tab key; whatever goes wrong, there are none."""

from __future__ import annotations

import asyncio

from gpuready.errors import GPUReadyError
from gpuready.kube.client import KubeClient
from gpuready.kube.resources import CLUSTER_POLICIES, NODES, Resource

# Nobody waits longer for a Tab.
PATIENCE_S = 2.0


def node_names(start: str, kubeconfig: str | None, context: str | None) -> list[str]:
    return _names(NODES, start, kubeconfig, context)


def policy_names(start: str, kubeconfig: str | None, context: str | None) -> list[str]:
    return _names(CLUSTER_POLICIES, start, kubeconfig, context)


def _names(resource: Resource, start: str, kubeconfig: str | None, context: str | None) -> list[str]:
    try:
        found = asyncio.run(asyncio.wait_for(_listed(resource, kubeconfig, context), PATIENCE_S))
    except (GPUReadyError, TimeoutError, OSError):
        return []
    return sorted(name for name in found if name.startswith(start))


async def _listed(resource: Resource, kubeconfig: str | None, context: str | None) -> list[str]:
    async with KubeClient.auto(kubeconfig, context, user_agent="gpuready-cli") as client:
        return [str(obj["metadata"]["name"]) for obj in await client.list_metadata(resource)]
