"""`gpuready crds --apply` and `gpuready uninstall`: what a person or a Job types around a release."""

from __future__ import annotations

import asyncio

import pytest
from tests.sim.conftest import StartCluster
from tests.sim.operator_cluster import Object, policy

from gpuready.api import crd
from gpuready.errors import UsageError
from gpuready.tools import uninstall
from gpuready.tools.crds import apply
from gpuready_sim.client import CRDS
from gpuready_sim.cluster.handle import Cluster

BARE = "nodes: [{name: cpu}]"
POLICY_CRD = "clusterpolicies.nvidia.com"


async def test_crds_are_brought_to_this_version_and_a_newer_one_is_kept(
    start_cluster: StartCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = await start_cluster(BARE)
    older = crd.cluster_policy_crd()
    spec_of(older).pop("gpuready")
    await cluster.client.create(CRDS, older)
    assert await crds_apply(cluster, capsys) == [f"applied  {POLICY_CRD}", "created  gpunodes.gpuready.dev"]
    newer = await cluster.client.get(CRDS, POLICY_CRD)
    assert "gpuready" in spec_of(newer)

    spec_of(newer)["tomorrow"] = {"type": "string"}
    await cluster.client.replace(CRDS, newer)
    said = await crds_apply(cluster, capsys)
    assert said[0] == f"kept     {POLICY_CRD}  it is newer: it also knows spec.tomorrow"
    assert "tomorrow" in spec_of(await cluster.client.get(CRDS, POLICY_CRD))


async def test_uninstall_removes_the_one_policy_and_asks_which_of_several(
    start_cluster: StartCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = await start_cluster(BARE)
    assert await take_away(cluster) == (0, "nothing of gpuready is left on any node"), "nor any CRD"

    await crds_apply(cluster, capsys)
    await cluster.apply(policy("one"), policy("two"))
    with pytest.raises(UsageError, match="there are 2 ClusterPolicies: one, two; next: name the one"):
        await take_away(cluster)

    code, said = await take_away(cluster, "one")
    assert code == 0
    assert "ClusterPolicy two stays, and with it everything that it asks for" in said
    code, said = await take_away(cluster, crds=True)
    assert code == 0, said
    assert "ClusterPolicy two deleted" in said
    await cluster.wait_gone(CRDS, POLICY_CRD)


def spec_of(crd: Object) -> Object:
    schema: Object = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: Object = schema["properties"]["spec"]["properties"]
    return found


async def crds_apply(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert await asyncio.to_thread(apply.run, kubeconfig=str(cluster.kubeconfig)) == 0
    return capsys.readouterr().out.splitlines()


async def take_away(cluster: Cluster, name: str = "", **how: bool) -> tuple[int, str]:
    said: list[str] = []
    code = await asyncio.to_thread(
        uninstall.run, name, kubeconfig=str(cluster.kubeconfig), say=said.append, **how
    )
    return code, "\n".join(said)
