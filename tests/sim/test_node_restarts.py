"""What a node does when its kubelet, its daemons or the whole machine starts anew, or the API is away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.node_cluster import (
    AGENT_ROLE,
    DESIRED,
    GPU,
    PLUGIN_ROLE,
    Object,
    another_process,
    daemon_pod,
    gate,
    gpu_node,
    gpu_ready,
    history,
    kill,
    life,
    offered,
    pod,
    pod_of,
    read_json,
    ready_cluster,
    record,
    registrations,
    restarts,
    running_pod,
    until,
    whole,
)
from tests.sim.operator_cluster import DEADLINE_S, offers, quiet, wait_process, writes

from gpuready_sim.client import NODES, Unreachable
from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = """
nodes:
- {name: host, gpus: {H100-SXM5-80GB: 4}, driver: {where: host}}
- {name: ctr, gpus: {A100-SXM4-40GB: 2}, driver: {where: container}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with ready_cluster(SPEC, nodes=("host", "ctr")) as running:
        yield running


# --- kubelet ----------------------------------------------------------------------------------------------


async def test_a_kubelet_restart_brings_the_plugin_back_once_and_touches_no_pod(cluster):
    async with running_pod(cluster, pod("train", "host")) as before:
        pid = await wait_process(cluster, "host", PLUGIN_ROLE)
        registered = await registrations(cluster, "host")

        await cluster.fault("kubelet-restart", node="host")
        await cluster.wait(NODES, "host", until=offers(4))
        await quiet(cluster)

        assert life(await pod_of(cluster, "train")) == life(before)
        assert await wait_process(cluster, "host", PLUGIN_ROLE) == pid
        assert await registrations(cluster, "host") == registered + 1
        assert gpu_ready(await cluster.node("host")) == "True"


async def test_a_plugin_socket_that_somebody_deletes_is_made_and_registered_again(cluster):
    registered = await registrations(cluster, "host")
    socket = cluster.node_root("host") / "var/lib/kubelet/device-plugins/nvidia-gpu.sock"

    socket.unlink()
    await until(socket.exists, "the socket to be back")
    await whole(cluster, "host")

    assert await registrations(cluster, "host") == registered + 1


# --- daemons ----------------------------------------------------------------------------------------------


async def test_a_killed_plugin_comes_back_and_the_pods_on_its_gpus_run_on(cluster):
    async with running_pod(cluster, pod("train", "host")) as before:
        async with history(cluster, NODES, "host") as seen:
            pid = await kill(cluster, "host", PLUGIN_ROLE)
            await another_process(cluster, "host", PLUGIN_ROLE, pid)
            await whole(cluster, "host")

        assert life(await pod_of(cluster, "train")) == life(before)
        assert {int(node["status"]["capacity"][GPU]) for node in seen} == {4}
        assert gate(cluster, "host").exists()


async def test_a_killed_agent_leaves_the_gates_and_comes_back_without_a_word(cluster):
    async with running_pod(cluster, pod("train", "host", count=4)):
        await gpu_node(cluster, "host", _is_all_held)
        start = await quiet(cluster)
        opened = gate(cluster, "host").stat()

        async with history(cluster, NODES, "host") as seen:
            pid = await kill(cluster, "host", AGENT_ROLE)
            await another_process(cluster, "host", AGENT_ROLE, pid)
            await daemon_pod(
                cluster, "host", AGENT_ROLE, lambda found: _is_ready(found) and restarts(found) == 1
            )
            await quiet(cluster)
        assert writes(cluster, start, "gpuready-node-agent") == {}

    assert {gpu_ready(node) for node in seen} == {"True"}
    assert {offered(node) for node in seen} == {4}
    assert gate(cluster, "host").stat() == opened


def _is_all_held(found: Object) -> bool:
    return [row.get("allocated") for row in found["status"]["devices"]] == [1] * 4


async def test_plugin_and_agent_killed_together_come_back_together(cluster):
    pids = {role: await kill(cluster, "host", role) for role in (PLUGIN_ROLE, AGENT_ROLE)}

    for role, pid in pids.items():
        await another_process(cluster, "host", role, pid)
    await until(lambda: record(cluster, "host").get("pid") not in (None, pids[PLUGIN_ROLE]), "a new record")
    await whole(cluster, "host")

    for name in ("driver-ready", "plugin-ready"):
        await until(gate(cluster, "host", name).exists, f"the gate {name}")


# --- the machine ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("node", "count"), [("host", 4), ("ctr", 2)])
async def test_a_reboot_empties_run_and_the_chain_is_built_again(cluster, node, count):
    boot_id = await cluster.reboot(node)

    ready = await whole(cluster, node)

    assert ready["status"]["nodeInfo"]["bootID"] == boot_id
    assert read_json(gate(cluster, node, "driver-ready.json"))["bootId"] == boot_id
    assert read_json(gate(cluster, node, "plugin-ready.json"))["bootId"] == boot_id
    assert record(cluster, node)["bootId"] == boot_id
    assert await cluster.capacity(node) == count


async def test_a_gate_of_an_earlier_boot_is_not_believed(cluster):
    """/run survived the reboot: it is no tmpfs there, or somebody has put it back."""
    left = {name: gate(cluster, "ctr", name).read_text() for name in ("driver-ready", "driver-ready.json")}

    rebooting = asyncio.create_task(cluster.reboot("ctr"))
    await until(lambda: not gate(cluster, "ctr").exists(), "/run to be empty")
    gate(cluster, "ctr").parent.mkdir(parents=True, exist_ok=True)
    for name, text in left.items():
        gate(cluster, "ctr", name).write_text(text)
    boot_id = await rebooting
    await until(lambda: record(cluster, "ctr").get("bootId") == boot_id, "the plugin to start")
    registered_at_first = record(cluster, "ctr")["registered"]

    await whole(cluster, "ctr")
    assert not registered_at_first
    assert read_json(gate(cluster, "ctr", "driver-ready.json"))["bootId"] == boot_id


# --- no API server ----------------------------------------------------------------------------------------


async def test_daemons_that_start_while_the_api_server_is_away_run_with_what_was_last_known(cluster):
    """As after a boot: /run is empty, and what lies in /var/lib is of an earlier boot."""
    root = cluster.node_root("host")
    boot_id = record(cluster, "host")["bootId"]
    last_known = root / "var/lib/gpuready/desired/device-plugin.json"
    away = asyncio.create_task(cluster.fault("api-stop", seconds=7))
    await until_away(cluster)

    pids = {role: await kill(cluster, "host", role) for role in (AGENT_ROLE, PLUGIN_ROLE)}
    last_known.write_text(json.dumps({**read_json(last_known), "bootId": "an-earlier-boot"}))
    (root / DESIRED).unlink()
    for role, pid in pids.items():
        await another_process(cluster, "host", role, pid)
    await until(lambda: _is_registered_by_another(cluster, pids[PLUGIN_ROLE]), "the plugin to register")
    wish = read_json(root / DESIRED)

    assert not away.done()
    assert (wish["source"], wish["bootId"]) == ("last-known", boot_id)
    assert gate(cluster, "host").exists()
    await away
    await until(lambda: read_json(root / DESIRED)["source"] == "api", "the API server's word")
    await whole(cluster, "host")


async def until_away(cluster: Cluster) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while await _answers(cluster):
            await asyncio.sleep(0.02)


async def _answers(cluster: Cluster) -> bool:
    try:
        await cluster.node("host")
    except Unreachable:
        return False
    return True


def _is_registered_by_another(cluster: Cluster, pid: int) -> bool:
    found = record(cluster, "host")
    return bool(found.get("registered") and found["pid"] != pid)


def _is_ready(found) -> bool:
    return bool(found["status"]["containerStatuses"][0]["ready"])
