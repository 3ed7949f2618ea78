"""A driver that is missing, different, hanging or gone under running daemons; and the CDI spec meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.node_cluster import (
    CDI_FILE,
    PLUGIN_ROLE,
    Object,
    daemon_pod,
    doctor,
    gate,
    gpu_node,
    gpu_ready,
    in_phase,
    life,
    pod,
    pod_of,
    read_json,
    ready_cluster,
    remove_pod,
    restarts,
    running_pod,
    says,
    until,
    whole,
)
from tests.sim.operator_cluster import (
    DEPLOY,
    GPU_NODES,
    NAMESPACE,
    edit,
    label,
    labels,
    offers,
    wait_process,
)

from gpuready_sim.client import DAEMON_SETS, NODES, PODS
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.hardware import machine

pytestmark = pytest.mark.asyncio(loop_scope="module")

VERSION, NEWER = "570.86.10", "570.124.06"
SPEC = """
nodes:
- {name: host, gpus: {H100-SXM5-80GB: 2}, driver: {where: host}}
- {name: ctr, gpus: {A100-SXM4-40GB: 2}, driver: {where: container}}
- {name: cpu}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with ready_cluster(SPEC, nodes=("host", "ctr")) as running:
        yield running


# --- NVML -------------------------------------------------------------------------------------------------


async def test_a_driver_library_that_was_deleted_is_missed_and_found_again(cluster):
    folder = cluster.node_root("host") / "usr/lib/x86_64-linux-gnu"
    aside = folder.with_name("aside")
    aside.mkdir()
    for library in folder.glob("libnvidia-ml.so*"):
        library.rename(aside / library.name)

    await gpu_node(cluster, "host", says("driver", "LibraryMissing", "libnvidia-ml.so.1"))
    node = await cluster.wait(NODES, "host", until=lambda obj: offers(0)(obj) and gpu_ready(obj) == "False")
    _, said = await doctor(cluster, "host")

    assert node["status"]["capacity"]["nvidia.com/gpu"] == "2"
    assert "/usr/lib/x86_64-linux-gnu" in said
    assert not gate(cluster, "host").exists()
    for library in aside.iterdir():
        library.rename(folder / library.name)
    await whole(cluster, "host")
    assert gate(cluster, "host").exists()


async def test_a_driver_that_is_updated_under_its_module_is_named_and_its_spec_is_never_stale(cluster):
    async with running_pod(cluster, pod("train", "host")) as before:
        await cluster.fault("driver-update", node="host", version=NEWER)
        await gpu_node(cluster, "host", says("driver", "DriverLibraryMismatch", NEWER, VERSION))
        await cluster.wait(NODES, "host", until=offers(0))
        assert missing_host_paths(cluster, "host") == []

        await cluster.fault("driver-reload", node="host")
        await whole(cluster, "host")

        assert life(await pod_of(cluster, "train")) == life(before)
    assert missing_host_paths(cluster, "host") == []
    assert NEWER in (cluster.node_root("host") / CDI_FILE).read_text()


async def test_a_module_that_is_unloaded_is_missed_and_found_again(cluster):
    folder = cluster.place.node("host")
    machine.unload_driver(folder, tolerate=lambda holder: True)

    await gpu_node(cluster, "host", says("driver", "DriverNotLoaded"))
    await cluster.wait(NODES, "host", until=offers(0))
    _, said = await doctor(cluster, "host")

    assert "modprobe nvidia" in said
    machine.load_driver(folder, NEWER)
    await whole(cluster, "host")


async def test_a_hanging_nvml_is_a_verdict_and_hinders_no_pod(cluster):
    pid = await wait_process(cluster, "host", PLUGIN_ROLE)
    await cluster.fault("hang", node="host", seconds=60)

    await gpu_node(cluster, "host", says("device-plugin", "NvmlNotAnswering", "keep their last health"))
    await cluster.apply(pod("meanwhile", "host"))
    await cluster.wait(PODS, "meanwhile", "default", in_phase("Running"))
    assert await cluster.allocatable("host") == 2
    await gpu_node(cluster, "host", says("driver", "NvmlTimeout", "no answer within 10 s"))
    status, said = await doctor(cluster, "host")

    assert status == 1
    assert "the driver is hanging" in said
    await cluster.fault("hang", node="host", seconds=0)
    await whole(cluster, "host")
    assert await wait_process(cluster, "host", PLUGIN_ROLE) == pid
    await remove_pod(cluster, "meanwhile")


# --- the CDI spec -----------------------------------------------------------------------------------------


async def test_a_spec_that_somebody_deletes_is_back_and_those_of_others_stay(cluster):
    spec = cluster.node_root("host") / CDI_FILE
    of_others = spec.with_name("vendor.example-nic.json")
    text = '{"cdiVersion": "0.6.0", "kind": "vendor.example/nic", "devices": []}'
    of_others.write_text(text)
    content = spec.read_bytes()

    for spoil in (spec.unlink, lambda: spec.write_text("{"), lambda: spec.write_bytes(b"")):
        spoil()
        await until(lambda: spec.exists() and spec.read_bytes() == content, "the spec to be as before")

    assert of_others.read_text() == text
    of_others.unlink()


def missing_host_paths(cluster: Cluster, node: str) -> list[str]:
    root = cluster.node_root(node)
    spec = read_json(root / CDI_FILE)
    edits = [spec["containerEdits"], *(device["containerEdits"] for device in spec["devices"])]
    paths = [mount["hostPath"] for edit in edits for mount in edit.get("mounts", ())]
    return [path for path in paths if not (root / path.lstrip("/")).exists()]


# --- the driver container ---------------------------------------------------------------------------------


async def test_a_killed_driver_container_keeps_the_loaded_driver_and_the_pods_on_it(cluster):
    async with running_pod(cluster, pod("train", "ctr")) as before:
        os.kill(int((cluster.node_root("ctr") / "run/nvidia/nvidia-driver.pid").read_text()), signal.SIGKILL)

        again = await daemon_pod(
            cluster, "ctr", "driver", lambda found: restarts(found) == 1 and is_ready(found)
        )
        await whole(cluster, "ctr")

        assert life(await pod_of(cluster, "train")) == life(before)
    log = await cluster.logs(again["metadata"]["name"], NAMESPACE)
    assert "already loaded with the same configuration" in log


async def test_a_driver_pod_that_is_evicted_by_label_leaves_the_driver_that_is_in_use(cluster):
    await until(lambda: holders(cluster, "ctr") != [], "the device plugin to hold NVML")
    driver = await daemon_pod(cluster, "ctr", "driver")

    await label(cluster, "ctr", "nvidia.com/gpu.deploy.driver", "false")
    evicted = await cluster.wait(PODS, driver["metadata"]["name"], NAMESPACE, is_deleted)
    await cluster.client.delete(PODS, evicted["metadata"]["name"], NAMESPACE, grace_s=0)  # its 30 s are over
    await cluster.wait_pods(NAMESPACE, "gpuready.dev/operand=driver", lambda pods: not pods)

    async with running_pod(cluster, pod("train", "ctr")):
        node = await cluster.node("ctr")
        assert labels(node)["nvidia.com/gpu.deploy.driver"] == "false"
        assert (gpu_ready(node), await cluster.allocatable("ctr")) == ("True", 2)

    await label(cluster, "ctr", "nvidia.com/gpu.deploy.driver", None)
    await daemon_pod(cluster, "ctr", "driver", is_ready)
    await whole(cluster, "ctr")


async def test_a_driver_image_that_does_not_exist_is_named_with_the_pod_that_wants_it(cluster):
    await edit(cluster, {"driver": {"version": "latest"}})
    daemonset = await cluster.wait(DAEMON_SETS, "nvidia-driver-daemonset", NAMESPACE, asks_for("latest"))
    driver = await daemon_pod(cluster, "ctr", "driver")
    assert "latest" not in driver["spec"]["containers"][0]["image"]  # a running driver is left alone
    assert daemonset["spec"]["updateStrategy"]["type"] == "OnDelete"

    await cluster.client.delete(PODS, driver["metadata"]["name"], NAMESPACE, grace_s=0)
    await cluster.reboot("ctr")
    failing = await daemon_pod(cluster, "ctr", "driver", lambda found: waits_for(found) == "ImagePullBackOff")
    await gpu_node(cluster, "ctr", says("driver", "DriverPodFailing"))
    status, said = await doctor(cluster, "ctr")

    assert status == 1
    assert f"{failing['metadata']['name']} fails: ImagePullBackOff" in said
    assert "driver:latest" in said
    assert not gate(cluster, "ctr").exists()


def holders(cluster: Cluster, node: str) -> list[int]:
    with machine.gpu_state(cluster.place.node(node)) as state:
        return [holder.pid for holder in state.holders()]


def asks_for(tag: str) -> Callable[[Object], bool]:
    return lambda obj: f":{tag}" in obj["spec"]["template"]["spec"]["containers"][0]["image"]


def is_deleted(found: Object) -> bool:
    return "deletionTimestamp" in found["metadata"]


def is_ready(found: Object) -> bool:
    return bool(found["status"]["containerStatuses"][0]["ready"])


def waits_for(found: Object) -> str:
    return str((found["status"]["containerStatuses"][0]["state"].get("waiting") or {}).get("reason"))


# --- no GPU at all ----------------------------------------------------------------------------------------


async def test_a_node_that_only_claims_to_have_gpus_is_told_apart(cluster):
    await label(cluster, "cpu", "feature.node.kubernetes.io/pci-10de.present", "true")

    await gpu_node(cluster, "cpu", says("discovery", "GpusGone", "its PCI bus shows none"))
    status, said = await doctor(cluster, "cpu")

    assert status == 1
    assert "node cpu is labelled as having GPUs, but its PCI bus shows none" in said
    assert not gate(cluster, "cpu").exists()
    await label(cluster, "cpu", "feature.node.kubernetes.io/pci-10de.present", None)
    await cluster.wait_gone(GPU_NODES, "cpu")
    await cluster.wait(NODES, "cpu", until=lambda obj: not any(key.startswith(DEPLOY) for key in labels(obj)))
