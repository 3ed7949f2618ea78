"""What the operator keeps true on nodes and objects, what it leaves alone, and how little it writes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.operator_cluster import (
    AGENT,
    DEPLOY,
    GPU_NODES,
    NAMESPACE,
    PLUGIN,
    POLICIES,
    POLICY,
    SETTLED_S,
    condition,
    edit,
    error,
    expect_no_writes,
    label,
    labels,
    offers,
    operand,
    operand_pods,
    policy,
    quiet,
    ready,
    wait_process,
    writes,
)

from gpuready_sim.client import DAEMON_SETS, NODES
from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = """
nodes:
- {name: l4, gpus: {L4: 2}, driver: {where: host}}
- {name: a100, gpus: {A100-SXM4-40GB: 2}, driver: {where: container}}
"""
SILENCE_S = 1.0
OPERATOR = "gpuready-operator"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUREADY_SILENCE_S", f"{SILENCE_S:g}")
        async with Cluster.started(SPEC) as running:
            await running.apply(policy())
            await ready(running)
            yield running


# --- few writes -----------------------------------------------------------------------------------------


async def test_a_converged_cluster_is_not_written_to_however_often_it_is_woken(cluster):
    start = await quiet(cluster, SETTLED_S)

    for turn in range(3):
        await cluster.client.merge_patch(NODES, "l4", {"metadata": {"annotations": {"team/turn": str(turn)}}})
        await cluster.client.merge_patch(NODES, "a100", {"metadata": {"labels": {"team": f"t{turn}"}}})
        await cluster.apply(
            _configmap("unrelated", NAMESPACE, turn), _configmap("elsewhere", "default", turn)
        )

    await expect_no_writes(cluster, start)


async def test_one_edit_of_an_operands_environment_costs_four_requests_of_the_operator(cluster):
    start = await quiet(cluster)

    await edit(cluster, {"devicePlugin": {"env": [{"name": "TEAM", "value": "ml"}]}})
    await ready(cluster)
    await cluster.wait(DAEMON_SETS, PLUGIN, NAMESPACE, _is_rolled_out)
    await ready(cluster)
    await quiet(cluster)

    found = writes(cluster, start, OPERATOR)
    assert found.total() <= 4, found


# --- labels ---------------------------------------------------------------------------------------------


async def test_a_deploy_label_removed_by_hand_is_back_within_a_second(cluster):
    pods = await operand_pods(cluster)
    started = time.monotonic()

    await label(cluster, "l4", f"{DEPLOY}device-plugin", None)
    await cluster.wait(NODES, "l4", until=lambda node: labels(node).get(f"{DEPLOY}device-plugin") == "true")

    assert time.monotonic() - started < 1
    assert set(await operand_pods(cluster)) >= set(await operand_pods(cluster, "node-agent"))
    await ready(cluster)
    assert await operand_pods(cluster, "driver") == {u: n for u, n in pods.items() if "driver" in n}


async def test_a_node_that_opts_out_of_an_operand_loses_its_pod_and_nothing_else(cluster):
    await label(cluster, "l4", f"{DEPLOY}device-plugin", "false")
    await cluster.wait_pods(NAMESPACE, f"app={PLUGIN}", _are_on("a100"))
    await cluster.wait(NODES, "l4", until=offers(0))
    policy_ = await cluster.wait(
        POLICIES, POLICY, until=lambda obj: operand(obj, "device-plugin")["desired"] == 1
    )

    assert policy_["status"]["state"] == "ready"
    assert policy_["status"]["nodes"]["ready"] == 2
    assert labels(await cluster.node("l4"))[f"{DEPLOY}device-plugin"] == "false"
    assert labels(await cluster.node("l4"))[f"{DEPLOY}gpu-feature-discovery"] == "true"

    await label(cluster, "l4", f"{DEPLOY}device-plugin", None)
    await cluster.wait(NODES, "l4", until=offers(2))


async def test_a_node_that_opts_out_of_all_operands_keeps_only_the_word_that_it_has_gpus(cluster):
    await label(cluster, "l4", f"{DEPLOY}operands", "false")
    node = await cluster.wait(NODES, "l4", until=lambda node: f"{DEPLOY}driver" not in labels(node))
    await cluster.wait(NODES, "l4", until=offers(0))

    ours = {key: value for key, value in labels(node).items() if key.startswith(DEPLOY)}
    assert ours == {f"{DEPLOY}operands": "false"}
    assert labels(node)["nvidia.com/gpu.present"] == "true"
    assert (await ready(cluster))["status"]["state"] == "ready"

    await label(cluster, "l4", f"{DEPLOY}operands", None)
    await cluster.wait(NODES, "l4", until=offers(2))
    await ready(cluster)


# --- objects --------------------------------------------------------------------------------------------


async def test_a_hand_edit_is_repaired_with_an_event_and_what_others_added_stays(cluster):
    foreign = {"labels": {"team": "ml"}, "annotations": {"team/contact": "ml@example.org"}}
    template = {"template": {"spec": {"priorityClassName": "low"}}}
    edited = {"metadata": foreign, "spec": template}
    await cluster.client.merge_patch(DAEMON_SETS, PLUGIN, edited, NAMESPACE)

    kept = await cluster.wait(DAEMON_SETS, PLUGIN, NAMESPACE, _has_priority("system-node-critical"))

    assert kept["metadata"]["labels"]["team"] == "ml"
    assert kept["metadata"]["annotations"]["team/contact"] == "ml@example.org"
    events = await cluster.events(PLUGIN, NAMESPACE)
    said = [event["message"] for event in events if event["reason"] == "HandEditRepaired"]
    assert len(said) == 1
    for words in ("spec.template.spec.priorityClassName", '"low"', "set by "):
        assert words in said[0]


async def test_a_daemonset_that_is_deleted_by_hand_is_made_again(cluster):
    old = await cluster.client.get(DAEMON_SETS, PLUGIN, NAMESPACE)
    await cluster.client.delete(DAEMON_SETS, PLUGIN, NAMESPACE)

    await cluster.wait(DAEMON_SETS, PLUGIN, NAMESPACE, _is_another_than(old))
    await cluster.wait(DAEMON_SETS, PLUGIN, NAMESPACE, _is_rolled_out)
    await cluster.wait_pods(NAMESPACE, f"app={PLUGIN}", _are_on("a100", "l4"))
    await ready(cluster)
    await cluster.wait(NODES, "l4", until=offers(2))


# --- silence --------------------------------------------------------------------------------------------


async def test_an_agent_that_keeps_dying_makes_its_node_unknown_and_the_policy_say_why(cluster):
    async def keep_killing() -> None:
        while True:
            os.kill(await wait_process(cluster, "l4", "node-agent"), signal.SIGKILL)
            await asyncio.sleep(0.2)

    killer = asyncio.create_task(keep_killing())
    try:
        node = await cluster.wait(NODES, "l4", until=_is_gpu_ready("Unknown"))
        told = await error(cluster, "OperandNotReady", "l4", "CrashLoopBackOff")
    finally:
        killer.cancel()

    assert condition(node, "GPUReady")["reason"] == "AgentSilent"
    assert f"pod {AGENT}-" in condition(node, "GPUReady")["message"]
    row = (await cluster.client.get(GPU_NODES, "l4"))["status"]
    assert row["reason"] == "AgentSilent"
    assert set(row["columns"].values()) == {"-"}, "what nobody watches is not told as being well"
    assert operand(told, "device-plugin")["reason"] == "AgentSilent"
    assert told["status"]["nodes"]["brokenBy"] == {"reporting": 1}
    assert await cluster.allocatable("l4") == 2, "its GPUs go on without it"

    await cluster.wait(NODES, "l4", until=_is_gpu_ready("True"))
    row = (await cluster.client.get(GPU_NODES, "l4"))["status"]
    assert (row["reason"], row["columns"]["driver"]) == ("", "ok")
    await ready(cluster)


# --- a node that goes and comes back --------------------------------------------------------------------


async def test_a_node_that_is_deleted_and_joins_again_is_whole_again_with_a_gpunode_of_its_own(cluster):
    old = await cluster.client.get(GPU_NODES, "a100")
    await cluster.client.delete(NODES, "a100")
    await cluster.wait_gone(GPU_NODES, "a100")
    await ready(cluster)
    await quiet(cluster)
    start = datetime.now(UTC)

    await cluster.fault("kubelet-restart", node="a100")
    await cluster.wait(NODES, "a100", until=offers(2))
    await cluster.wait(NODES, "a100", until=_is_gpu_ready("True"))
    await ready(cluster)
    await quiet(cluster)

    new, node = await cluster.client.get(GPU_NODES, "a100"), await cluster.node("a100")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert [ref["uid"] for ref in new["metadata"]["ownerReferences"]] == [node["metadata"]["uid"]]
    found = writes(cluster, start, OPERATOR)
    # Conflicts with the kubelet and the agent, which write to the new Node at the same time, are not counted.
    about_it = [n for key, n in found.items() if "nodes" in key.split()[2] and not key.endswith(" 409")]
    assert sum(about_it) <= 4, found


async def test_nothing_that_the_operator_wrote_was_a_mistake(cluster):
    refused = [
        f"{line.fields['verb']} {line.what} {line.name} {line.fields['code']}"
        for line in cluster.requests(writes_only=True)
        if line.fields["client"] == OPERATOR and line.fields["code"] not in (200, 201, 409)
    ]
    assert refused == []


def _configmap(name: str, namespace: str, turn: int) -> dict[str, object]:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"turn": str(turn)}}


def _is_rolled_out(obj) -> bool:
    status, generation = obj.get("status") or {}, obj["metadata"]["generation"]
    wanted = status.get("desiredNumberScheduled")
    return (
        status.get("observedGeneration") == generation
        and status.get("updatedNumberScheduled", 0) == wanted
        and status.get("numberAvailable", 0) == wanted
    )


def _is_another_than(old):
    return lambda new: new["metadata"]["uid"] != old["metadata"]["uid"]


def _are_on(*nodes: str):
    return lambda pods: sorted(pod["spec"].get("nodeName", "") for pod in pods) == sorted(nodes)


def _has_priority(name: str):
    return lambda obj: obj["spec"]["template"]["spec"].get("priorityClassName") == name


def _is_gpu_ready(status: str):
    return lambda node: condition(node, "GPUReady").get("status") == status
