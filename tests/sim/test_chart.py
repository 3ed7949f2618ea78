"""helm install on bare machines, helm uninstall, and nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sim.conftest import StartCluster
from tests.sim.operator_cluster import offers, ready
from tests.sim.release import Helm, leftovers, served

from gpuready_sim.client import NODES
from gpuready_sim.kubernetes import clients

HELMS = clients.find("helm")
MISSING = "helm is not here; next: make clients"
ONE_NODE = """
nodes:
- {name: l4, gpus: {L4: 2}, driver: {where: host, version: 570.86.10}}
"""


@pytest.mark.skipif(not HELMS, reason=MISSING)
async def test_helm_brings_gpus_to_a_bare_cluster_and_leaves_nothing_behind(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    cluster = await start_cluster(ONE_NODE)
    helm = Helm(HELMS[0], cluster, tmp_path)

    said = await helm.install()
    assert "kubectl get gpunodes" in said, "the notes say what to look at next"
    await ready(cluster)
    await cluster.wait(NODES, "l4", until=offers(2))

    await helm("uninstall", "gpuready")
    assert await leftovers(cluster) == []
    assert len(await served(cluster)) == 2, "CRDs stay, and with them what others wrote"
