"""C01: a CRD older than the operator drops fields in silence; the operator says so and touches nothing."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.sim.operator_cluster import condition, edit, error, policy, ready

from gpuready.api.crd import cluster_policy_crd
from gpuready.cli import main
from gpuready_sim.client import CRDS, Resource
from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
SPEC = """
nodes:
- {name: host, gpus: {L4: 1}, driver: {where: host}}
"""
DROPPED = ("spec.devicePlugin.config", "spec.gpuready.images")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC) as running:
        yield running


async def test_c01_an_older_crd_is_named_with_what_it_drops_and_nothing_that_runs_is_touched(
    cluster: Cluster,
) -> None:
    asked = policy(gpuready={"images": "own"}, devicePlugin={"config": {"name": "", "default": ""}})
    await cluster.apply(asked)
    await ready(cluster)
    before = await _daemonsets(cluster)
    assert (await _check(cluster))[0] == 0

    await cluster.client.apply(CRDS, _older())
    await edit(cluster, asked["spec"])  # as helm does; a server-side apply would be refused aloud
    told = await error(cluster, "CRDOutdated", *DROPPED, "gpuready crds | kubectl apply")
    status, printed = await _check(cluster)

    said = condition(told, "Ready")
    assert (said["status"], said["reason"]) == ("False", "CRDOutdated")
    assert "images" not in told["spec"].get("gpuready", {})
    assert await _daemonsets(cluster) == before
    assert status == 1
    assert all(f"the API server drops {path}" in printed for path in DROPPED)

    await cluster.client.apply(CRDS, cluster_policy_crd())
    await edit(cluster, asked["spec"])
    mended = await ready(cluster)

    assert mended["spec"]["gpuready"] == {"images": "own"}
    assert await _daemonsets(cluster) == before


async def _check(cluster: Cluster) -> tuple[int, str]:
    """(exit status, what `gpuready crds --check` prints)."""
    words = ["crds", "--check", "--kubeconfig", str(cluster.kubeconfig)]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = await asyncio.to_thread(main, words)
    return status, out.getvalue()


async def _daemonsets(cluster: Cluster) -> dict[str, tuple[str, int]]:
    found, _ = await cluster.client.list(DAEMONSETS)
    return {obj["metadata"]["name"]: (obj["metadata"]["uid"], obj["metadata"]["generation"]) for obj in found}


def _older() -> dict[str, Any]:
    """The schema of an earlier release: it lacks two fields that the policy sets."""
    crd = cluster_policy_crd()
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    for path in DROPPED:
        _, block, field = path.split(".")
        del fields[block]["properties"][field]
    return crd
