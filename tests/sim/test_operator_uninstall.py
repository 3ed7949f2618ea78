"""No policy means nothing of ours: on nodes, in the cluster, on disks; whoever cannot be cleaned is named."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.operator_cluster import (
    AGENT,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOY,
    GPU_NODES,
    NAMESPACE,
    OURS,
    POLICIES,
    POLICY,
    Object,
    Operator,
    condition,
    expect_no_writes,
    label,
    labels,
    offers,
    policy,
    quiet,
    ready,
    wait_process,
)

from gpuready.cli import main
from gpuready_sim.client import CONFIG_MAPS, DAEMON_SETS, NODES, PODS, SERVICE_ACCOUNTS
from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = """
nodes:
- {name: cpu}
- {name: l4, gpus: {L4: 2}, driver: {where: host}}
- {name: h100, gpus: {H100-SXM5-80GB: 2}, driver: {where: host}}
"""
NODES_OF_THE_CLUSTER = ("cpu", "l4", "h100")
PATIENCE_S = 5


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC, operator=False) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: Cluster) -> AsyncIterator[Operator]:
    async with Operator(cluster, GPUREADY_UNINSTALL_PATIENCE_S=str(PATIENCE_S)) as running:
        yield running


async def test_a_policy_that_goes_takes_everything_with_it_but_a_users_own_labels(cluster, operator):
    await cluster.apply(policy())
    await ready(cluster)
    await label(cluster, "l4", f"{DEPLOY}dcgm", "mine")
    start = datetime.now(UTC)

    await cluster.client.delete(POLICIES, POLICY)
    await nothing_is_left(cluster)

    assert labels(await cluster.node("l4"))[f"{DEPLOY}dcgm"] == "mine"
    for node in ("l4", "h100"):
        assert _files_on(cluster.node_root(node)) == []
    deleted = [
        line.name
        for line in cluster.requests(writes_only=True, since=start)
        if line.fields["verb"] == "delete" and line.fields["client"] == OURS[0]
    ]
    agent = deleted.index(f"{NAMESPACE}/{AGENT}")
    assert max(deleted.index("l4"), deleted.index("h100")) < agent, "the agents go when every node is clean"
    await label(cluster, "l4", f"{DEPLOY}dcgm", None)


async def test_without_a_policy_nothing_is_written(cluster, operator):
    start = await quiet(cluster)

    await label(cluster, "cpu", "team", "ml")
    await expect_no_writes(cluster, start)
    await label(cluster, "cpu", "team", None)


async def test_a_policy_that_comes_back_while_the_old_one_is_being_removed_becomes_ready(cluster, operator):
    await cluster.apply(policy())
    await ready(cluster)

    await cluster.client.delete(POLICIES, POLICY)
    await cluster.wait(GPU_NODES, "l4", until=lambda node: node["spec"].get("uninstall") is True)
    await cluster.apply(policy())

    await ready(cluster)
    for node in ("l4", "h100"):
        await cluster.wait(NODES, node, until=offers(2))
        await cluster.wait(GPU_NODES, node, until=lambda found: not found["spec"].get("uninstall"))
        await cluster.wait(NODES, node, until=_is_gpu_ready)


async def test_a_policy_that_comes_and_goes_in_haste_leaves_nothing(cluster, operator):
    for pause_s in (0.1, 0.5, 0.9):
        await cluster.client.delete(POLICIES, POLICY)
        await asyncio.sleep(pause_s)
        await cluster.apply(policy())
        await asyncio.sleep(pause_s)

    await cluster.client.delete(POLICIES, POLICY)
    await nothing_is_left(cluster)

    for node in ("l4", "h100"):
        assert _files_on(cluster.node_root(node)) == []
    await cluster.apply(policy())
    await ready(cluster)


async def test_a_policy_of_another_name_is_a_mistake_that_names_the_right_one(cluster, operator, capfd):
    await cluster.apply(policy())
    asked = ["uninstall", "cluster-polcy", "--kubeconfig", str(cluster.kubeconfig)]

    assert await asyncio.to_thread(main, asked) == 2

    said = capfd.readouterr().err
    assert "there is no ClusterPolicy cluster-polcy" in said
    assert f"the ClusterPolicies are {POLICY}" in said
    assert await asyncio.to_thread(main, [*asked, "--if-there"]) == 0
    assert await cluster.client.get(POLICIES, POLICY)


async def test_an_operator_that_starts_on_a_dirty_cluster_without_a_policy_cleans_it(cluster, operator):
    await operator.end()
    await cluster.client.delete(POLICIES, POLICY)
    assert f"{DEPLOY}device-plugin" in labels(await cluster.node("l4"))

    await operator.start()

    await nothing_is_left(cluster)


async def test_where_no_operator_could_clean_up_it_is_said_with_what_brings_one_back(
    cluster, operator, capsys, monkeypatch
):
    monkeypatch.setattr("gpuready.tools.uninstall._STANDSTILL_S", 0.5)
    await cluster.apply(policy())
    await ready(cluster)
    await operator.end()
    asked = ["uninstall", "--timeout", "2.5", "--kubeconfig", str(cluster.kubeconfig)]

    assert await asyncio.to_thread(main, asked) == 1

    said = capsys.readouterr().out
    assert "no pod of gpuready's operator is in this cluster" in said
    assert (
        said.count(f"helm install gpuready charts/gpuready -n {NAMESPACE} --set clusterPolicy.deployCR") == 2
    )
    await cluster.apply(OPERATORS_POD)
    assert await asyncio.to_thread(main, asked) == 1
    said = capsys.readouterr().out
    assert "no pod of" not in said
    assert "next  see that the operator runs" in said
    await cluster.client.delete(PODS, "operator", NAMESPACE)
    await operator.start()
    await nothing_is_left(cluster)


OPERATORS_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "operator",
        "namespace": NAMESPACE,
        "labels": {"app": "gpu-operator", "app.kubernetes.io/name": "gpuready"},
    },
    "spec": {"nodeSelector": {"there": "is-none"}, "containers": [{"name": "operator", "image": "x"}]},
}


async def test_an_agent_that_does_not_answer_is_waited_for_and_then_named(cluster, operator):
    await cluster.apply(policy())
    await ready(cluster)
    hung = await wait_process(cluster, "l4", "node-agent")
    os.kill(hung, signal.SIGSTOP)

    await cluster.client.delete(POLICIES, POLICY)
    await cluster.wait_gone(DAEMON_SETS, AGENT, NAMESPACE)
    os.kill(hung, signal.SIGKILL)
    await nothing_is_left(cluster)

    said = {node: await _messages(cluster, node, "UninstallIncomplete") for node in ("l4", "h100")}
    assert said["h100"] == []
    for words in ("files of gpuready may be left on l4", "remove /run/gpuready"):
        assert words in said["l4"][0]
    lines = [line for line in operator.log().splitlines() if "did not clean up" in line]
    assert len(lines) == 1
    assert "node=l4" in lines[0]


async def _messages(cluster: Cluster, about: str, reason: str) -> list[str]:
    return [event["message"] for event in await cluster.events(about) if event["reason"] == reason]


async def nothing_is_left(cluster: Cluster) -> None:
    for name in NODES_OF_THE_CLUSTER:
        await cluster.wait_gone(GPU_NODES, name)
    await cluster.wait_pods(NAMESPACE, "gpuready.dev/operand", lambda pods: not pods)
    for resource in (DAEMON_SETS, SERVICE_ACCOUNTS, CONFIG_MAPS):
        await _wait_none(cluster, resource, NAMESPACE)
    for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS):
        await _wait_none(cluster, resource, None)
    for name in NODES_OF_THE_CLUSTER:
        await cluster.wait(NODES, name, until=_is_clean)


async def _wait_none(cluster: Cluster, resource, namespace: str | None) -> None:
    found, _ = await cluster.client.list(resource, namespace, label_selector="gpuready.dev/operand")
    for obj in found:
        await cluster.wait_gone(resource, obj["metadata"]["name"], namespace)


def _is_clean(node: Object) -> bool:
    ours = [key for key in labels(node) if key.startswith(("nvidia.com/", "feature.node."))]
    notes = [key for key in node["metadata"].get("annotations") or {} if key.startswith("gpuready.dev/")]
    ours = [key for key in ours if labels(node)[key] != "mine"]
    return not ours and not notes and not condition(node, "GPUReady")


def _is_gpu_ready(node: Object) -> bool:
    return condition(node, "GPUReady").get("status") == "True"


def _files_on(root: Path) -> list[str]:
    folders = ("run/nvidia/validations", "run/gpuready", "var/lib/gpuready", "var/run/cdi")
    return [str(path) for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
