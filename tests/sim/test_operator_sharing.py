"""A sharing configuration that is missing, misspelt or unreadable: the last good stays, with the reason."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.sim.operator_cluster import (
    CONFIG_LABEL,
    GPU_NODES,
    NAMESPACE,
    POLICIES,
    POLICY,
    condition,
    label,
    link,
    offers,
    operand,
    operand_pods,
    policy,
    ready,
)

from gpuready_sim.client import CONFIG_MAPS, NODES
from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = "nodes: [{name: l4, gpus: {L4: 2}, driver: {where: host}}]"
FIVE = """\
version: v1
sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 5}]}}
"""


def sharing(**data: str) -> dict[str, Any]:
    meta = {"name": "sharing", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC) as running:
        yield running


async def test_a_configmap_that_is_missing_from_the_start_stops_the_plugin_and_is_named(cluster):
    await label(cluster, "l4", CONFIG_LABEL, "five")
    await cluster.apply(policy(devicePlugin={"config": {"name": "sharing"}}))

    node = await cluster.wait(GPU_NODES, "l4", until=_has_plugin_reason("ConfigMapMissing"))

    assert node["spec"]["devicePlugin"]["requested"] == "five"
    assert "config" not in node["spec"]["devicePlugin"]
    told = await cluster.wait(POLICIES, POLICY, until=_names("ConfigMapMissing"))
    assert told["status"]["state"] == "notReady"
    assert "gpu-operator/sharing" in condition(told, "Error")["message"]
    assert await cluster.allocatable("l4") == 0


async def test_as_soon_as_it_is_there_the_gpus_are_offered(cluster):
    await cluster.apply(sharing(five=FIVE, ten=FIVE.replace("5", "10")))

    await cluster.wait(NODES, "l4", until=offers(10))
    done = await ready(cluster)
    assert operand(done, "device-plugin")["reason"] == "Ready"


@pytest.mark.parametrize(
    ("data", "asked", "reason", "words"),
    [
        pytest.param({"five": FIVE}, "fvie", "ConfigKeyMissing", ["'fvie'", "'five'"], id="misspelt key"),
        pytest.param(
            {"five": "sharing: ["},
            "five",
            "ConfigInvalid",
            ["gpu-operator/sharing, key 'five'"],
            id="no YAML",
        ),
        pytest.param(
            {"five": FIVE.replace("5", "none")}, "five", "ConfigInvalid", ["replicas", "none"], id="no number"
        ),
        pytest.param(None, "five", "ConfigMapMissing", ["gpu-operator/sharing", "'five'"], id="deleted"),
    ],
)
async def test_a_wrong_configuration_leaves_the_last_good_in_force_until_it_is_repaired(
    cluster, data, asked, reason, words
):
    pods = await operand_pods(cluster)

    await label(cluster, "l4", CONFIG_LABEL, asked)
    if data is None:
        await cluster.client.delete(CONFIG_MAPS, "sharing", NAMESPACE)
    else:
        await cluster.apply(sharing(**data))
    wrong = await cluster.wait(GPU_NODES, "l4", until=_has_plugin_reason(reason))
    told = await cluster.wait(POLICIES, POLICY, until=_names(reason, *words))

    wish = wrong["spec"]["devicePlugin"]
    assert wish["configName"] == "five"
    assert wish["config"]["sharing"]["timeSlicing"]["resources"][0]["replicas"] == 5
    assert wish["requested"] == asked
    assert wish.get("available", []) == sorted(data or {})
    for word in words:
        assert word in wish["error"]["message"]
        assert word in condition(told, "Ready")["message"]
    assert told["status"]["state"] == "ready", "the node still offers what it offered"
    assert await cluster.allocatable("l4") == 10
    assert reason in [event["reason"] for event in await cluster.events("l4")]

    await cluster.apply(sharing(five=FIVE))
    await label(cluster, "l4", CONFIG_LABEL, "five")
    await cluster.wait(GPU_NODES, "l4", until=_has_plugin_reason("Registered"))
    assert await cluster.allocatable("l4") == 10
    assert await operand_pods(cluster) == pods


async def test_a_node_label_that_is_removed_ends_the_sharing(cluster):
    await label(cluster, "l4", CONFIG_LABEL, None)

    await cluster.wait(NODES, "l4", until=offers(2))


def _has_plugin_reason(reason: str):
    return lambda node: link(node, "device-plugin").get("reason") == reason


def _names(reason: str, *words: str):
    def check(obj: dict[str, Any]) -> bool:
        row = operand(obj, "device-plugin")
        return row.get("reason") == reason and all(word in row["message"] for word in words)

    return check
