"""C03: a taint keeps discovery away from GPUs. Nobody may take such a node for one without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.sim.operator_cluster import (
    DEADLINE_S,
    NAMESPACE,
    PLUGIN,
    POLICIES,
    POLICY,
    condition,
    labels,
    offers,
    policy,
    ready,
)

from gpuready.tools.doctor import command as doctor
from gpuready_sim.client import DAEMON_SETS, NODES
from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = """
nodes:
- {name: cpu}
- {name: g0, gpus: {L4: 1}, driver: {where: host}}
- {name: g1, gpus: {L4: 1}, driver: {where: host}, taints: [GPU_TAINT]}
- {name: g2, gpus: {L4: 1}, driver: {where: host}, taints: [TEAM_TAINT]}
""".replace("GPU_TAINT", '{key: nvidia.com/gpu, value: "true", effect: NoSchedule}').replace(
    "TEAM_TAINT", "{key: team, value: ml, effect: NoSchedule}"
)
GPU_NODES = ("g0", "g1", "g2")
# As the chart's override in the case has it.
ONE_VALUE = {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
ANY_VALUE = {"key": "nvidia.com/gpu", "operator": "Exists"}


def nfd_worker(*tolerations: dict[str, str]) -> dict[str, Any]:
    marks = {"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"}
    pod = {
        "containers": [{"name": "worker", "image": "nfd:test"}],
        "tolerations": list(tolerations),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nfd-worker", "namespace": "node-feature-discovery", "labels": marks},
        "spec": {
            "selector": {"matchLabels": marks},
            "template": {"metadata": {"labels": marks}, "spec": pod},
        },
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC) as running:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "node-feature-discovery"}}
        await running.apply(namespace, nfd_worker(ONE_VALUE))
        nfd = asyncio.create_task(_discover(running))
        await running.wait(NODES, "g0", until=_is_discovered, timeout_s=DEADLINE_S)
        await running.wait(NODES, "cpu", until=_is_discovered, timeout_s=DEADLINE_S)
        await running.apply(policy())
        yield running
        nfd.cancel()
        with suppress(asyncio.CancelledError):
            await nfd


async def _discover(cluster: Cluster) -> None:
    """In the place of NFD: a node on which a worker was placed gets the labels that it would write."""
    done: set[str] = set()
    while True:
        for pod in await cluster.pods("node-feature-discovery"):
            name = pod["spec"].get("nodeName", "")
            if name and name not in done:
                await cluster.client.merge_patch(NODES, name, {"metadata": _found_on(name)})
                done.add(name)
        await asyncio.sleep(0.1)


def _found_on(node: str) -> dict[str, Any]:
    pci = {"pci-10de.present": "true"} if node in GPU_NODES else {}
    found = {"kernel-version.major": "6", **pci}
    return {
        "labels": {f"feature.node.kubernetes.io/{key}": value for key, value in found.items()},
        "annotations": {"nfd.node.kubernetes.io/feature-labels": ",".join(found)},
    }


def _is_discovered(node: dict[str, Any]) -> bool:
    return "feature.node.kubernetes.io/kernel-version.major" in labels(node)


async def test_c03_nodes_that_discovery_cannot_reach_are_counted_and_named_with_the_toleration(cluster):
    await ready(cluster)

    told = await cluster.wait(POLICIES, POLICY, until=_names_both, timeout_s=DEADLINE_S)

    assert told["status"]["nodes"]["undiscovered"] == 2
    assert told["status"]["nodes"]["gpu"] == 1
    assert "2 nodes undiscovered" in condition(told, "Ready")["message"]
    message = condition(told, "Undiscovered")["message"]
    for words in (
        "g1 (taint nvidia.com/gpu=true:NoSchedule)",
        "g2 (taint team=ml:NoSchedule)",
        "DaemonSet node-feature-discovery/nfd-worker",
        '{key: nvidia.com/gpu, operator: Equal, value: "true", effect: NoSchedule}',
        '{key: team, operator: Equal, value: "ml", effect: NoSchedule}',
    ):
        assert words in message
    assert "cpu" not in message


async def test_c03_doctor_has_a_finding_for_each_of_them_and_none_for_the_others(cluster, capsys):
    status = await asyncio.to_thread(doctor.run, kubeconfig=str(cluster.kubeconfig))

    said = capsys.readouterr().out
    assert status == 1
    for node, taint in (("g1", "nvidia.com/gpu=true"), ("g2", "team=ml")):
        assert f"discovery cannot run on {node}" in said
        assert taint in said
    assert "nfd-worker" in said
    assert "node/cpu" not in said
    assert "node/g0" not in said


async def test_c03_with_default_tolerations_the_node_is_found_and_our_operands_go_there(cluster):
    await cluster.apply(nfd_worker(ANY_VALUE))

    await cluster.wait(NODES, "g1", until=offers(1), timeout_s=DEADLINE_S)
    await cluster.wait(
        DAEMON_SETS,
        PLUGIN,
        NAMESPACE,
        until=lambda obj: (obj.get("status") or {}).get("desiredNumberScheduled") == 2,
        timeout_s=DEADLINE_S,
    )
    left = await cluster.wait(
        POLICIES,
        POLICY,
        until=lambda obj: "g1" not in condition(obj, "Undiscovered").get("message", "g1"),
        timeout_s=DEADLINE_S,
    )
    assert left["status"]["nodes"]["undiscovered"] == 1


async def test_c03_a_taint_that_goes_takes_the_finding_with_it(cluster):
    await cluster.client.merge_patch(NODES, "g2", {"spec": {"taints": None}})

    whole = await cluster.wait(
        POLICIES, POLICY, until=lambda obj: not condition(obj, "Undiscovered"), timeout_s=DEADLINE_S
    )

    assert "undiscovered, see" not in condition(whole, "Ready")["message"]


def _names_both(obj: dict[str, Any]) -> bool:
    said = condition(obj, "Undiscovered").get("message", "")
    return "g1" in said and "g2" in said
