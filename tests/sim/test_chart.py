"""helm install on bare machines, helm uninstall, and nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sim.conftest import StartCluster
from tests.sim.operator_cluster import NAMESPACE, offers, ready
from tests.sim.release import Helm, leftovers, served

from gpuready_sim.client import NAMESPACES, NODES
from gpuready_sim.cluster.handle import Cluster
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

    level = {"pod-security.kubernetes.io/enforce": "baseline"}
    await cluster.client.merge_patch(NAMESPACES, NAMESPACE, {"metadata": {"labels": level}})

    said = await helm.install("--set", "psa.enabled=true")
    assert "kubectl get gpunodes" in said, "the notes say what to look at next"
    await ready(cluster)
    await cluster.wait(NODES, "l4", until=offers(2))
    assert set((await pod_security(cluster)).values()) == {"privileged"}

    await helm("uninstall", "gpuready")
    assert await leftovers(cluster) == []
    assert await pod_security(cluster) == level, "as it was before"
    assert len(await served(cluster)) == 2, "CRDs stay, and with them what others wrote"


async def pod_security(cluster: Cluster) -> dict[str, str]:
    """The namespace's labels that say what pods may do."""
    labels = (await cluster.client.get(NAMESPACES, NAMESPACE))["metadata"].get("labels", {})
    return {key: value for key, value in labels.items() if key.startswith("pod-security.kubernetes.io/")}
