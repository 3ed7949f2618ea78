"""Sharing changed while the node runs, what pods get of it, and what labels and taints say."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.sim.node_cluster import (
    GPU,
    PLUGIN_ROLE,
    Object,
    daemon_pod,
    device,
    doctor,
    event,
    gpu_node,
    in_phase,
    kill,
    offered,
    pod,
    ready_cluster,
    record,
    registrations,
    remove_pod,
    running_pod,
    says,
    until,
    whole,
)
from tests.sim.operator_cluster import CONFIG_LABEL, NAMESPACE, label, labels, link, offers, wait_process

from gpuready_sim.client import NODES, PODS
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.hardware import machine

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHARED = f"{GPU}.shared"
ODD_NAME = "Quadro RTX 6000/8000 (rev. A) with a very long marketing name that exceeds sixty-three characters"
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
SPEC = """
nodes:
- {name: pair, gpus: {L4: 2}, driver: {where: host}}
- {name: single, gpus: {L4: 1}, driver: {where: host}, labels: {nvidia.com/device-plugin.config: four}}
- {name: tainted, gpus: {L4: 1}, driver: {where: host},
   taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]}
- {name: team, gpus: {L4: 1}, driver: {where: host}, taints: [{key: team, value: ml, effect: NoSchedule}]}
"""


def sharing() -> Object:
    """Named configurations for the nodes of this module."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "sharing", "namespace": NAMESPACE},
        "data": {
            "two": _slices(2),
            "four": _slices(4),
            "one-each": _slices(4, "failRequestsGreaterThanOne: true"),
            "renamed": _slices(6, "renameByDefault: true"),
        },
    }


def _slices(replicas: int, flag: str = "renameByDefault: false") -> str:
    resources = f"[{{name: nvidia.com/gpu, replicas: {replicas}}}]"
    return f"version: v1\nsharing: {{timeSlicing: {{{flag}, resources: {resources}}}}}\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    whole_nodes = ("pair", "single", "tainted")
    async with ready_cluster(SPEC, sharing(), nodes=whole_nodes, config={"name": "sharing"}) as running:
        yield running


# --- live changes -----------------------------------------------------------------------------------------


async def test_sharing_is_changed_by_a_label_while_the_plugin_and_its_registration_stay(cluster):
    pid, registered = await wait_process(cluster, "pair", PLUGIN_ROLE), await registrations(cluster, "pair")
    await cluster.wait(NODES, "pair", until=offers(2))

    for config, count in (("four", 8), ("two", 4), (None, 2), ("four", 8)):
        await label(cluster, "pair", CONFIG_LABEL, config)
        await cluster.wait(NODES, "pair", until=offers(count))

    assert await wait_process(cluster, "pair", PLUGIN_ROLE) == pid
    assert await registrations(cluster, "pair") == registered


async def test_c21_n1_labels_tell_of_shared_gpus(cluster):
    node = await cluster.wait(NODES, "pair", until=has_label("gpu.replicas", "4"))

    told = {key: labels(node)[f"nvidia.com/{key}"] for key in ("gpu.product", "gpu.count", "gpu.replicas")}
    assert told == {"gpu.product": "NVIDIA-L4-SHARED", "gpu.count": "2", "gpu.replicas": "4"}
    assert labels(node)["nvidia.com/gpu.sharing-strategy"] == "time-slicing"


async def test_c21_n2_a_renamed_resource_takes_the_place_of_the_plain_one(cluster):
    await label(cluster, "pair", CONFIG_LABEL, "renamed")

    node = await cluster.wait(
        NODES, "pair", until=lambda obj: offers(12, SHARED)(obj) and has_label("gpu.replicas", "6")(obj)
    )
    assert offered(node, GPU) == 0
    assert labels(node)["nvidia.com/gpu.product"] == "NVIDIA-L4"
    assert labels(node)["nvidia.com/gpu.count"] == "2"
    async with running_pod(cluster, pod("renamed", "pair", resource=SHARED)):
        pass

    await label(cluster, "pair", CONFIG_LABEL, "four")
    await cluster.wait(NODES, "pair", until=lambda obj: offers(8)(obj) and offers(0, SHARED)(obj))
    await whole(cluster, "pair")


async def test_c21_n5_a_product_name_that_is_no_label_becomes_one(cluster):
    with machine.gpu_state(cluster.place.node("single")) as state, state._writing():
        state._gpu(0).name = ODD_NAME.encode()[:95]
    pid = await kill(cluster, "single", "node-agent")

    node = await cluster.wait(NODES, "single", until=lambda obj: "Quadro" in _product(obj))

    assert pid
    assert len(_product(node)) <= 63
    assert _product(node).startswith("Quadro-RTX-6000")
    wrong = {key: value for key, value in labels(node).items() if not LABEL_VALUE.fullmatch(value)}
    assert wrong == {}


def has_label(key: str, value: str):
    return lambda obj: labels(obj).get(f"nvidia.com/{key}") == value


def _product(node: Object) -> str:
    return labels(node).get("nvidia.com/gpu.product", "")


# --- what pods get ----------------------------------------------------------------------------------------


async def test_c17_two_shares_are_two_cards_where_there_are_two(cluster):
    for turn in range(4):
        printed = await uuids_printed(cluster, pod(f"two-{turn}", "pair", "nvidia-smi", "-L", count=2))
        assert len(set(printed)) == 2


async def test_c17_ii_two_shares_of_the_only_card_are_that_card_once(cluster):
    printed = await uuids_printed(cluster, pod("two-of-one", "single", "nvidia-smi", "-L", count=2))

    assert len(printed) == 1


async def test_c17_ii_the_pod_that_got_one_card_twice_is_warned_once_and_what_it_holds_is_counted(cluster):
    async with running_pod(cluster, pod("greedy-twice", "single", count=2)):
        told = await event(cluster, "greedy-twice", "SameGpuRepeated", "asked for 2 nvidia.com/gpu")
        found = await gpu_node(cluster, "single", lambda obj: device(obj, 0).get("allocated") == 2)
        async with running_pod(cluster, pod("modest", "single")):
            await gpu_node(cluster, "single", lambda obj: device(obj, 0).get("allocated") == 3)
        warnings = [one for one in await cluster.events("greedy-twice") if one["reason"] == told["reason"]]
        modest = [one["reason"] for one in await cluster.events("modest")]

    assert told["type"] == "Warning"
    assert "got one GPU twice; shares of one GPU give no more memory or compute" in told["message"]
    assert "set failRequestsGreaterThanOne: true to refuse, or ask for 1" in told["message"]
    assert [one.get("count", 1) for one in warnings] == [1]
    assert "SameGpuRepeated" not in modest
    assert device(found, 0)["replicas"] == 4


async def test_c17_iii_more_than_one_share_is_refused_in_words_that_reach_the_pod(cluster):
    await label(cluster, "pair", CONFIG_LABEL, "one-each")
    await until(lambda: record(cluster, "pair")["config"]["name"] == "one-each", "the plugin to know")
    await cluster.apply(pod("greedy", "pair", count=2))

    refused = await cluster.wait(PODS, "greedy", "default", in_phase("Failed"))

    assert refused["status"]["reason"] == "UnexpectedAdmissionError"
    assert "maximum request size for shared resources is 1; found 2" in refused["status"]["message"]
    await remove_pod(cluster, "greedy")


async def test_c17_t2_the_limit_is_for_a_container_and_not_for_its_pod(cluster):
    async with running_pod(cluster, pod("two-containers", "pair", containers=2)):
        pass
    await label(cluster, "pair", CONFIG_LABEL, "four")


async def uuids_printed(cluster: Cluster, made: Object) -> list[str]:
    name = made["metadata"]["name"]
    await cluster.apply(made)
    await cluster.wait(PODS, name, "default", in_phase("Succeeded"))
    printed = await cluster.logs(name)
    await remove_pod(cluster, name)
    return re.findall(r"UUID: (GPU-[0-9a-f-]+)", printed)


# --- taints -----------------------------------------------------------------------------------------------


async def test_c03_any_value_of_the_well_known_taint_is_tolerated(cluster):
    node = await whole(cluster, "tainted")

    assert labels(node)["feature.node.kubernetes.io/pci-10de.present"] == "true"
    assert offered(node) == 1
    made: Any = pod("tolerant", "tainted")
    made["spec"]["tolerations"] = [{"key": GPU, "operator": "Exists"}]
    async with running_pod(cluster, made):
        pass


async def test_c03_a_taint_that_keeps_the_plugin_away_is_named_with_the_toleration_to_add(cluster):
    found = await gpu_node(cluster, "team", says("device-plugin", "OperandKeptAway"))
    agent = await daemon_pod(cluster, "team", "node-agent")
    plugins = await cluster.pods(NAMESPACE, "gpuready.dev/operand=device-plugin")

    status, said = await doctor(cluster, "team")

    assert (agent["spec"]["nodeName"], found["status"]["gpus"]) == ("team", 1)
    assert "team" not in [plugin["spec"].get("nodeName") for plugin in plugins]
    assert link(found, "driver")["state"] == "ok"
    assert status == 1
    assert "DaemonSet nvidia-device-plugin-daemonset does not tolerate team=ml:NoSchedule" in said
    assert 'key: team, operator: Equal, value: "ml", effect: NoSchedule' in said
