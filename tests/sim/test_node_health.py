"""A GPU in trouble, from the XID to what a user sees, and back; the other GPUs of the node work on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.node_cluster import (
    device,
    doctor,
    event,
    gate,
    gpu_node,
    gpu_ready,
    is_whole,
    life,
    log_of,
    pod,
    pod_of,
    ready_cluster,
    running_pod,
    says,
    whole,
)
from tests.sim.operator_cluster import condition, link, offers

from gpuready_sim.client import NODES
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.control import Refused

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = """
nodes:
- {name: host, gpus: {H100-SXM5-80GB: 4}, driver: {where: host}}
- {name: old, gpus: {L4: 4}, driver: {where: host}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with ready_cluster(SPEC, nodes=("host", "old")) as running:
        yield running


# --- XIDs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "advice"),
    [(13, "look at the program"), (43, "look at the program"), (94, "restart the program")],
)
async def test_an_error_of_a_program_is_told_to_its_pod_and_takes_no_gpu_away(cluster, code, advice):
    async with running_pod(cluster, pod(f"train-{code}", "host", count=4)) as before:
        await cluster.fault("xid", target="host/0", code=code)

        told = await event(cluster, f"train-{code}", "GpuXid", f"XID {code}", advice)

        assert told["involvedObject"]["uid"] == before["metadata"]["uid"]
        assert life(await pod_of(cluster, f"train-{code}")) == life(before)
    found = await gpu_node(cluster, "host", lambda obj: device(obj, 0).get("lastXid", {}).get("code") == code)
    assert is_whole(found)
    assert await cluster.allocatable("host") == 4


async def test_a_gpu_that_needs_a_reset_leaves_allocatable_until_it_had_one(cluster):
    async with running_pod(cluster, pod("train", "host", count=4)):
        await cluster.fault("xid", target="host/1", code=109)
        node = await cluster.wait(NODES, "host", until=offers(3))
        found = await gpu_node(cluster, "host", says("device-plugin", "UnhealthyDevices", "XID 109", "GPU 1"))
        status, said = await doctor(cluster, "host")
        told = await event(cluster, "train", "GpuUnhealthy", "XID 109", "nvidia-smi --gpu-reset -i 1")

    assert node["status"]["capacity"]["nvidia.com/gpu"] == "4"
    assert (found["status"]["gpus"], found["status"]["healthy"]) == (4, 3)
    assert device(found, 1)["lastXid"]["action"] == "ResetGpu"
    assert (status, told["type"]) == (1, "Warning")
    assert "XID 109: context switch timeout" in said
    assert "nvidia-smi --gpu-reset -i 1" in said
    assert gate(cluster, "host").exists()

    await cluster.fault("reset", target="host/1")
    await whole(cluster, "host")
    await event(cluster, "host", "GpuRecovered", "GPU 1", "healthy again")


async def test_a_double_bit_error_ends_with_the_reset_that_remaps_the_row(cluster):
    await cluster.fault("xid", target="host/2", code=48)
    found = await gpu_node(cluster, "host", says("device-plugin", "UnhealthyDevices", "XID 48", "GPU 2"))
    assert device(found, 2)["lastXid"]["action"] == "ResetGpu"

    await cluster.fault("reset", target="host/2")

    await whole(cluster, "host")


async def test_an_unknown_xid_is_called_so_and_passes_by_itself(cluster):
    await cluster.fault("xid", target="host/2", code=999)

    await event(cluster, "host", "GpuUnhealthy", "GPU 2", "XID 999: unknown XID")
    await whole(cluster, "host")


async def test_a_gpu_that_fell_off_the_bus_is_back_after_a_reboot_and_not_before(cluster):
    await cluster.fault("xid", target="host/3", code=79)
    await cluster.wait(NODES, "host", until=offers(3))
    found = await gpu_node(cluster, "host", lambda obj: link(obj, "driver")["reason"] == "GpuNotAnswering")
    told = ("does not answer", "XID 79", "reboot the node: GPU 3 comes back only so")
    node = await cluster.wait(NODES, "host", until=lambda obj: all(text in _says(obj) for text in told))
    status, said = await doctor(cluster, "host")

    assert gpu_ready(node) == "True"
    assert device(found, 3)["lastXid"]["code"] == 79
    assert status == 1
    assert "XID 79: GPU has fallen off the bus" in said
    assert "reboot the node: GPU 3 comes back only so" in said
    with pytest.raises(Refused):
        await cluster.fault("reset", target="host/3")
    assert await cluster.allocatable("host") == 3

    await cluster.reboot("host")
    await whole(cluster, "host")


def _says(node) -> str:
    return str(condition(node, "GPUReady").get("message") or "")


# --- GPUs that are not quite there ------------------------------------------------------------------------


async def test_c26_a_corrupted_inforom_is_named_and_blocks_nobody(cluster):
    await cluster.fault("inforom", target="old/2")

    found = await gpu_node(cluster, "old", says("driver", "InfoRomCorrupted", "infoROM", "GPU 2"))
    status, said = await doctor(cluster, "old")

    assert link(found, "driver")["state"] == "degraded"
    assert gate(cluster, "old").exists()
    assert await cluster.allocatable("old") == 4
    assert "infoROM" in said
    async with running_pod(cluster, pod("works", "old", count=4)):
        pass
    assert gpu_ready(await cluster.node("old")) == "True"
    assert status == 1
    await cluster.fault("inforom", target="old/2", corrupt=False)
    await whole(cluster, "old")


async def test_c26_a_gpu_that_only_the_pci_bus_shows_is_named_by_its_address(cluster):
    root = cluster.node_root("old") / "sys/bus/pci/devices"
    fifth = root / "0000:f1:00.0"
    fifth.mkdir()
    for name in ("vendor", "device", "class"):
        (fifth / name).write_text(next(root.glob("*/" + name)).read_text())

    found = await gpu_node(cluster, "old", says("driver", "GpuMissing", "0000:f1:00.0"), timeout_s=15)

    assert link(found, "driver")["state"] == "degraded"
    assert gate(cluster, "old").exists()
    assert (found["status"]["gpus"], await cluster.allocatable("old")) == (5, 4)


async def test_a_gpu_that_is_lost_without_an_xid_is_found_and_named(cluster):
    await cluster.fault("lost", target="old/0")

    await cluster.wait(NODES, "old", until=offers(3))
    found = await gpu_node(cluster, "old", lambda obj: device(obj, 0)["health"] == "Unhealthy")

    assert "fallen off the bus" in device(found, 0)["reason"]
    assert "Traceback" not in await log_of(cluster, "old", "device-plugin")
