"""Files and texts that nobody of ours has written: each has a clear end, and no daemon stumbles over them."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.node_cluster import (
    AGENT_ROLE,
    DESIRED,
    GATES,
    PLUGIN_ROLE,
    RECORD,
    Object,
    daemon_pod,
    gate,
    gpu_node,
    gpu_ready,
    pod,
    ready_cluster,
    record,
    restarts,
    running_pod,
    says,
    until,
    whole,
)
from tests.sim.operator_cluster import CONFIG_LABEL, NAMESPACE, label, link

from gpuready_sim.client import NODES
from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = "nodes: [{name: l4, gpus: {L4: 2}, driver: {where: host}}]"
GARBAGE = [
    pytest.param(b"", id="empty"),
    pytest.param(b"\x00\xff{", id="no text"),
    pytest.param(b'["a", "list"]', id="no object"),
    pytest.param(b'{"bootId": 7, "registered": "yes", "devices": [3], "config": []}', id="wrong types"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with ready_cluster(SPEC, sharing(), nodes=["l4"], config={"name": "sharing"}) as running:
        yield running
        for role in (AGENT_ROLE, PLUGIN_ROLE):
            found = await daemon_pod(running, "l4", role)
            assert restarts(found) == 0, f"{role} crashed on the way"


def sharing(**data: str) -> Object:
    meta = {"name": "sharing", "namespace": NAMESPACE}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "data": {"plain": "version: v1", **data},
    }


# --- files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", GARBAGE)
@pytest.mark.parametrize("file", [RECORD, DESIRED])
async def test_a_file_between_the_daemons_that_is_spoiled_is_written_again(cluster, file, content):
    path = cluster.node_root("l4") / file
    before = _but_time(path.read_bytes())

    path.write_bytes(content)

    await until(lambda: path.exists() and _but_time(path.read_bytes()) == before, f"{file} to be as before")
    assert await cluster.allocatable("l4") == 2
    await whole(cluster, "l4")


def _but_time(content: bytes) -> list[bytes]:
    return [line for line in content.splitlines() if b'"time"' not in line]


async def test_a_gates_directory_that_is_deleted_is_made_again(cluster):
    content = gate(cluster, "l4").read_text()

    # At one stroke: the agent would put a gate back while the directory is being emptied.
    folder = cluster.node_root("l4") / GATES
    shutil.rmtree(folder.rename(folder.with_name("taken-away")))

    await until(lambda: gate(cluster, "l4", "plugin-ready").exists(), "the gates to be back")
    assert gate(cluster, "l4").read_text() == content
    assert await cluster.allocatable("l4") == 2


@pytest.mark.parametrize("name", ["driver-ready", "driver-ready.json", "plugin-ready.json"])
async def test_a_gate_that_is_spoiled_is_written_again(cluster, name):
    path = gate(cluster, "l4", name)
    before = path.read_text().partition('"time"')[0]

    path.write_text("IS_HOST_DRIVER=$(reboot)")

    await until(lambda: path.read_text().startswith(before), f"{name} to be as before")
    assert await cluster.allocatable("l4") == 2


@pytest.mark.parametrize("file", [f"{GATES}/driver-ready", f"{GATES}/driver-ready.json", RECORD, DESIRED])
async def test_a_pipe_in_the_place_of_a_file_stops_nobody_and_the_file_comes_back(cluster, file):
    """Whoever opens a pipe waits for its other end for ever."""
    path = cluster.node_root("l4") / file

    os.mkfifo(path.with_name("pipe"))
    path.with_name("pipe").rename(path)

    await until(path.is_file, f"{file} to be a file again")
    await whole(cluster, "l4")


async def test_a_directory_that_cannot_be_written_is_named_and_stops_nobody(cluster):
    """A file in its place, as a full or read-only file system would refuse each write."""
    folder = cluster.node_root("l4") / "run/gpuready"
    async with running_pod(cluster, pod("train", "l4")):
        shutil.rmtree(folder.rename(folder.with_name("taken-away")))
        folder.write_text("")

        found = await gpu_node(
            cluster, "l4", says("device-plugin", "HostFilesNotWritable", "/run/gpuready/desired", "directory")
        )
        await cluster.wait(NODES, "l4", until=lambda obj: gpu_ready(obj) == "False")

        assert "containers/" not in link(found, "device-plugin")["message"]
        assert await cluster.allocatable("l4") == 2
        async with running_pod(cluster, pod("another", "l4")):
            pass
        folder.unlink()
        folder.mkdir()
        await whole(cluster, "l4")
    assert record(cluster, "l4")["registered"] is True


# --- texts ------------------------------------------------------------------------------------------------


async def test_a_huge_value_in_the_configmap_is_refused_in_few_words(cluster):
    await cluster.apply(sharing(huge="x: " + "[" * 900_000))
    await label(cluster, "l4", CONFIG_LABEL, "huge")

    found = await gpu_node(
        cluster, "l4", says("device-plugin", "ConfigInvalid", "gpu-operator/sharing, key 'huge'")
    )

    assert len(link(found, "device-plugin")["message"]) < 1000
    assert await cluster.allocatable("l4") == 2
    await cluster.apply(sharing())


async def test_an_odd_node_label_is_quoted_with_the_keys_there_are(cluster):
    await label(cluster, "l4", CONFIG_LABEL, "O.d-d_1")

    await gpu_node(cluster, "l4", says("device-plugin", "ConfigKeyMissing", "'O.d-d_1'", "'plain'"))

    assert await cluster.allocatable("l4") == 2
    await label(cluster, "l4", CONFIG_LABEL, "plain")
    await whole(cluster, "l4")
