"""The operator is killed, stopped, or finds no API server: the end is the same, and nothing is done twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.operator_cluster import (
    AGENT,
    GPU_NODES,
    NAMESPACE,
    PLUGIN,
    Operator,
    condition,
    error,
    expect_no_writes,
    http,
    offers,
    operand_pods,
    policy,
    quiet,
    ready,
    wait_http,
)

from gpuready_sim.client import CONFIG_MAPS, DAEMON_SETS, EVENTS, NAMESPACES, NODES
from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = """
nodes:
- {name: l4, gpus: {L4: 2}, driver: {where: host}}
- {name: a100, gpus: {A100-SXM4-40GB: 2}, driver: {where: container}}
nodeGraceSeconds: 6
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC, operator=False) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: Cluster) -> AsyncIterator[Operator]:
    async with Operator(cluster) as running:
        yield running


async def test_an_operator_killed_again_and_again_while_it_applies_reaches_the_same_end(cluster, operator):
    await operator.wait_ready()
    await cluster.apply(policy())

    for resource, name, namespace in (
        (DAEMON_SETS, AGENT, NAMESPACE),
        (DAEMON_SETS, PLUGIN, NAMESPACE),
        (GPU_NODES, "l4", None),
        (DAEMON_SETS, "nvidia-driver-daemonset", NAMESPACE),
    ):
        await cluster.wait(resource, name, namespace)
        await operator.kill()
        await operator.start()
    await ready(cluster)

    assert await cluster.allocatable("l4") == 2
    assert await cluster.allocatable("a100") == 2
    pods = Counter(name.rsplit("-", 1)[0] for name in (await operand_pods(cluster)).values())
    assert pods == {AGENT: 2, PLUGIN: 2, "nvidia-driver-daemonset": 1}
    start = await quiet(cluster)
    await operator.kill()
    await operator.start()
    await operator.wait_ready()
    await expect_no_writes(cluster, start)


async def test_its_restarts_left_no_storm_of_events(cluster):
    events, _ = await cluster.client.list(EVENTS, None)
    ours = [event for event in events if event["source"].get("component", "").startswith("gpuready-operator")]
    assert ours == []


async def test_it_serves_metrics_and_health_on_the_ports_it_was_given(cluster, operator):
    metrics = await wait_http(f"http://127.0.0.1:{operator.metrics_port}/metrics")
    rows = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))

    assert float(rows["gpu_operator_gpu_nodes_total"]) == 2
    assert float(rows["gpu_operator_reconciliation_status"]) == 1
    assert float(rows["gpu_operator_reconciliation_failed_total"]) == 0
    assert abs(float(rows["gpu_operator_reconciliation_last_success_ts_seconds"]) - time.time()) < 60
    assert float(rows['gpuready_reconciles_total{loop="labelling",result="ok"}']) > 0
    assert float(rows["gpuready_watches_broken"]) == 0
    assert await http(f"http://127.0.0.1:{operator.health_port}/healthz") == (200, "ok\n")
    assert await http(f"http://127.0.0.1:{operator.health_port}/readyz") == (200, "ok\n")
    assert (await http(f"http://127.0.0.1:{operator.metrics_port}/healthz"))[0] == 404


async def test_a_second_operator_on_the_same_port_says_so_and_ends(cluster, operator):
    second = Operator(cluster, GPUREADY_METRICS_PORT=str(operator.metrics_port))
    await second.start()

    assert await second.ended() != 0
    said = second.log()
    assert f"cannot listen on 127.0.0.1:{operator.metrics_port}" in said
    assert "GPUREADY_METRICS_PORT" in said
    assert "Traceback" not in said


async def test_an_api_server_that_is_gone_for_a_while_changes_nothing(cluster, operator):
    pods = await operand_pods(cluster)
    since = condition(await cluster.node("l4"), "GPUReady")["lastTransitionTime"]
    start = await quiet(cluster)

    await cluster.fault("api-stop", seconds=4)
    await ready(cluster)
    for name in ("l4", "a100"):
        await cluster.wait(NODES, name, until=_is_kubelet_ready)
    await expect_no_writes(cluster, start)
    assert await operand_pods(cluster) == pods
    assert await cluster.allocatable("l4") == 2
    assert condition(await cluster.node("l4"), "GPUReady")["lastTransitionTime"] == since


async def test_a_namespace_that_is_being_deleted_is_named_and_everything_is_back_with_it(cluster, operator):
    held = {"name": "held", "namespace": NAMESPACE, "finalizers": ["team.example/keeps-it"]}
    await cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})

    await cluster.client.delete(NAMESPACES, NAMESPACE)
    told = await error(cluster, "ReconcileFailed", "because it is being terminated")

    assert "wait until the namespace is gone" in condition(told, "Error")["message"]
    assert "RBAC" not in condition(told, "Error")["message"]
    assert operator.is_running
    await cluster.client.merge_patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, NAMESPACE)
    await cluster.wait_gone(NAMESPACES, NAMESPACE)
    await cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    await cluster.wait(DAEMON_SETS, PLUGIN, NAMESPACE, until=_has_all_pods_ready)
    await ready(cluster)
    await cluster.wait(NODES, "l4", until=offers(2))


async def test_it_ends_within_two_seconds_of_a_sigterm(cluster, operator):
    start = time.monotonic()

    code = await operator.end()

    assert time.monotonic() - start < 2
    assert code == 0
    assert "operator stopped" in operator.log()
    assert "Traceback" not in operator.log()
    await operator.start()
    await operator.wait_ready()


def _has_all_pods_ready(daemonset) -> bool:
    status = daemonset.get("status") or {}
    return status.get("numberReady", 0) == status.get("desiredNumberScheduled") == 2


def _is_kubelet_ready(node) -> bool:
    return condition(node, "Ready").get("status") == "True"
