"""helm against a cluster, and what a clean cluster looks like."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from tests.sim.operator_cluster import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    GPU_NODES,
    NAMESPACE,
    POLICIES,
    Object,
)

from gpuready_sim.client import CRDS, DAEMON_SETS, NODES, NotFound
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.kubernetes.clients import Client

CHART = Path(__file__).parents[2] / "charts/gpuready"
WAIT_S = 120
# What has a program in every version of this repository, so that the policy becomes ready.
VALUES: dict[str, Any] = {
    "driver": {"version": "570.86.10"},
    **{block: {"enabled": False} for block in ("toolkit", "dcgmExporter", "migManager")},
}


class Helm:
    """One user's helm: his settings in `home`, his cluster by its kubeconfig."""

    def __init__(self, client: Client, cluster: Cluster, home: Path) -> None:
        self._program = client.path
        self._env = {
            **os.environ,
            "KUBECONFIG": str(cluster.kubeconfig),
            **{f"HELM_{what}_HOME": str(home / what.lower()) for what in ("CACHE", "CONFIG", "DATA")},
        }

    async def __call__(
        self, *words: str, values: Mapping[str, Any] | None = None, fails: bool = False
    ) -> str:
        """What it prints; its values come over stdin."""
        argv = [str(self._program), *words, "-n", NAMESPACE]
        if values is not None:
            argv += ["-f", "-"]
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=self._env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        text = yaml.safe_dump(dict(values or {})).encode()
        out, _ = await asyncio.wait_for(process.communicate(text), WAIT_S + 30)
        said = out.decode()
        assert (process.returncode != 0) == fails, f"{' '.join(words)}: {said}"
        return said

    async def install(self, *words: str, values: Mapping[str, Any] = VALUES, name: str = "gpuready") -> str:
        waits = ("--wait", "--timeout", f"{WAIT_S}s")
        return await self("install", name, str(CHART), *waits, *words, values=values)

    async def upgrade(self, *words: str, values: Mapping[str, Any] = VALUES, name: str = "gpuready") -> str:
        waits = ("--wait", "--timeout", f"{WAIT_S}s")
        return await self("upgrade", name, str(CHART), *waits, *words, values=values)


async def leftovers(cluster: Cluster) -> list[str]:
    """What is there of gpuready, CRDs aside."""
    found = []
    for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, POLICIES, GPU_NODES):
        try:
            objects, _ = await cluster.client.list(resource)
        except NotFound:
            continue  # its CRD is gone
        found += [f"{o['kind']}/{name}" for o in objects if _is_ours(name := o["metadata"]["name"])]
        if resource in (POLICIES, GPU_NODES):
            found += [f"{o['kind']}/{o['metadata']['name']}" for o in objects]
    found += [
        f"DaemonSet/{o['metadata']['name']}" for o in (await cluster.client.list(DAEMON_SETS, NAMESPACE))[0]
    ]
    for node in (await cluster.client.list(NODES))[0]:
        found += [f"Node/{node['metadata']['name']} {key}" for key in _marks(node)]
    return found


async def served(cluster: Cluster) -> set[str]:
    """Names of the CRDs."""
    return {crd["metadata"]["name"] for crd in (await cluster.client.list(CRDS))[0]}


def _is_ours(name: str) -> bool:
    """The simulator's own, on a real control plane, are not."""
    return name.startswith(("gpuready-", "nvidia-")) and not name.startswith("gpuready-sim")


def _marks(node: Object) -> list[str]:
    meta = node["metadata"]
    keys = [*(meta.get("labels") or {}), *(meta.get("annotations") or {})]
    conditions = [row["type"] for row in node["status"].get("conditions", ()) if row["type"] == "GPUReady"]
    return [key for key in keys if key.startswith(("nvidia.com/", "gpuready.dev/"))] + conditions
