"""The way of one GPU on a real node, and what breaks it."""

from __future__ import annotations

import asyncio
import os
import re
import signal

import pytest

from gpuready_sim.client import CONFIG_MAPS, DAEMON_SETS, EVENTS, NODES, PODS, Object

from .cluster import DRIVER, GPU, GPU_NODES, NODE, NVML_ENV, OWN_IMAGE, POLICIES, RealCluster, devices, links

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

NAMESPACE = "gpu-operator"
PLUGIN = "nvidia-device-plugin-daemonset"
SHARING: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "sharing", "namespace": NAMESPACE},
    "data": {
        "halves": """\
version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 2
"""
    },
}
LIST_GPUS = """
import pynvml
pynvml.nvmlInit()
for index in range(pynvml.nvmlDeviceGetCount()):
    print(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index)))
"""


async def test_a_policy_makes_a_real_node_whole(cluster: RealCluster) -> None:
    policy = await cluster.wait(
        POLICIES, "cluster-policy", lambda p: p.get("status", {}).get("state") == "ready"
    )
    assert {row["name"]: row["state"] for row in policy["status"]["operands"]}["device-plugin"] == "ready"
    node = await cluster.until_allocatable(4)
    assert node["status"]["capacity"][GPU] == "4"
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-L4"
    assert node["metadata"]["labels"]["nvidia.com/gpu.deploy.driver"] == "pre-installed"
    assert (await cluster.condition("True"))["reason"] == "ChainWhole"


async def test_a_start_without_trouble_warns_of_nothing(cluster: RealCluster) -> None:
    events, _ = await cluster.client.list(EVENTS)
    ours = [event for event in events if event["involvedObject"].get("namespace") == NAMESPACE]
    said = [event for event in ours if event["type"] != "Normal"]
    assert ours
    assert [(event["involvedObject"]["name"], event["reason"], event["message"]) for event in said] == []


async def test_the_gpu_node_says_what_is_there(cluster: RealCluster) -> None:
    seen = await cluster.gpu_node(lambda g: links(g).get("device-plugin") == links(g).get("cuda") == "ok")
    assert links(seen)["driver"] == links(seen)["cuda"] == "ok"
    assert seen["status"]["driver"]["version"] == DRIVER
    assert seen["status"]["runtime"] == {"name": "containerd", "version": "2.2.1"}
    assert sorted(devices(seen)) == sorted(cluster.uuids())


async def test_a_pod_that_asks_for_one_gpu_gets_its_device_and_no_other(cluster: RealCluster) -> None:
    printed = await cluster.printed("sh", "-c", "ls /dev; printenv", gpus=1)
    words = printed.split()
    assert len([word for word in words if re.fullmatch(r"nvidia\d+", word)]) == 1
    assert {"nvidiactl", "nvidia-uvm"} < set(words)
    assert "NVIDIA_VISIBLE_DEVICES=void" in words  # so that no other hook gives it all GPUs


async def test_a_pod_that_asks_for_none_gets_none(cluster: RealCluster) -> None:
    assert "nvidia" not in await cluster.printed("ls", "/dev")


async def test_the_drivers_libraries_in_the_container_see_that_one_gpu(cluster: RealCluster) -> None:
    env = [{"name": name, "value": value} for name, value in NVML_ENV.items()]
    printed = await cluster.printed(
        "python3",
        "-c",
        LIST_GPUS,
        gpus=1,
        image=OWN_IMAGE,
        volumes=[{"name": "state", "hostPath": {"path": "/run/nvidia"}}],
        container={"env": env, "volumeMounts": [{"name": "state", "mountPath": "/run/nvidia"}]},
    )
    (uuid,) = printed.split()
    assert uuid in cluster.uuids()


async def test_pods_have_gpus_of_their_own_until_there_are_no_more(cluster: RealCluster) -> None:
    show = ("sh", "-c", "ls /dev; sleep infinity")
    pods = [await cluster.run(*show, gpus=2), await cluster.run(*show, gpus=2)]
    for pod in pods:
        await cluster.until_phase(pod, "Running")
    one_more = await cluster.run("true", gpus=1)
    waiting = await cluster.wait(PODS, one_more["metadata"]["name"], is_unschedulable, "default")
    assert "Insufficient nvidia.com/gpu" in waiting["status"]["conditions"][-1]["message"]

    held = await cluster.gpu_node(lambda g: [row.get("allocated") for row in devices(g).values()] == [1] * 4)
    assert links(held)["device-plugin"] == "ok"

    await cluster.delete(pods[0])
    await cluster.until_phase(one_more, "Succeeded")
    await cluster.delete(pods[1])


def is_unschedulable(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in conditions)


async def test_the_doctor_finds_nothing_on_a_node_that_is_whole(cluster: RealCluster) -> None:
    code, said = await cluster.gpuready("doctor")
    assert (code, said.splitlines()[-1]) == (0, "nothing found"), said


async def test_gpus_are_shared_when_the_policy_says_so_and_whole_again_after(cluster: RealCluster) -> None:
    await cluster.client.apply(CONFIG_MAPS, SHARING)
    await cluster.apply_policy(devicePlugin={"config": {"name": "sharing", "default": "halves"}})
    await cluster.until_allocatable(8)
    pods = [await cluster.run("sleep", "infinity", gpus=1) for _ in range(5)]
    for pod in pods:
        await cluster.until_phase(pod, "Running")
    seen = await cluster.gpu_node(lambda g: sum(row.get("allocated", 0) for row in devices(g).values()) == 5)
    assert max(row["allocated"] for row in devices(seen).values()) == 2
    for pod in pods:
        await cluster.delete(pod)
    await cluster.apply_policy()
    await cluster.until_allocatable(4)


async def test_after_a_restart_of_the_kubelet_the_plugin_is_back_and_pods_run_on(
    cluster: RealCluster,
) -> None:
    pod = await cluster.until_phase(await cluster.run("sleep", "infinity", gpus=1), "Running")
    await cluster.node.restart_kubelet()
    await cluster.until_registered(1)
    await cluster.until_allocatable(4)
    assert await cluster.printed("ls", "/dev", gpus=3)
    seen = await cluster.until_phase(pod, "Running")
    assert seen["status"]["containerStatuses"][0]["restartCount"] == 0
    await cluster.delete(pod)


async def test_after_a_restart_of_containerd_alone_plugin_and_pods_are_the_same(cluster: RealCluster) -> None:
    pod = await cluster.until_phase(await cluster.run("sleep", "infinity", gpus=1), "Running")
    plugins, registrations = await plugin_pods(cluster), await cluster.registrations()

    await cluster.node.restart_containerd()

    assert await cluster.printed("ls", "/dev", gpus=3)
    assert lives(await cluster.until_phase(pod, "Running")) == lives(pod)
    assert [lives(one) for one in await plugin_pods(cluster)] == [lives(one) for one in plugins]
    assert await cluster.registrations() == registrations
    await cluster.condition("True", "ChainWhole")
    await cluster.delete(pod)


async def test_a_plugin_that_died_while_the_kubelet_was_away_is_back_with_it(cluster: RealCluster) -> None:
    pod = await cluster.until_phase(await cluster.run("sleep", "infinity", gpus=1), "Running")

    await cluster.node.stop_kubelet()
    kill_the_plugin(cluster)
    await cluster.node.start_kubelet()

    await cluster.until_registered(1)
    await cluster.until_allocatable(4)
    assert await cluster.printed("ls", "/dev", gpus=3)
    assert lives(await cluster.until_phase(pod, "Running")) == lives(pod)
    await cluster.delete(pod)


async def test_a_plugin_that_is_killed_while_pods_are_admitted_gives_no_gpu_twice(
    cluster: RealCluster,
) -> None:
    for wait_s in (0.0, 0.1):  # no more: each time the kubelet waits longer before it starts the plugin anew
        registered = await cluster.registrations()
        pods = [await cluster.run("sleep", "infinity", gpus=2) for _ in range(2)]
        await asyncio.sleep(wait_s)
        kill_the_plugin(cluster)
        ends = [
            await cluster.wait(PODS, one["metadata"]["name"], is_running_or_refused, "default")
            for one in pods
        ]
        for end in ends:
            if end["status"]["phase"] == "Failed":
                assert end["status"]["reason"] == "UnexpectedAdmissionError"
        await cluster.until_registered(registered + 1)
        await cluster.until_allocatable(4)
        running = sum(end["status"]["phase"] == "Running" for end in ends)
        await cluster.gpu_node(
            lambda g, held=2 * running: sum(row.get("allocated", 0) for row in devices(g).values()) == held
        )
        for one in pods:
            await cluster.delete(one)
    await cluster.condition("True", "ChainWhole")
    assert await cluster.printed("ls", "/dev", gpus=4)


async def plugin_pods(cluster: RealCluster) -> list[Object]:
    return (await cluster.client.list(PODS, NAMESPACE, label_selector=f"app={PLUGIN}"))[0]


def lives(pod: Object) -> list[tuple[str, int]]:
    return [(row["containerID"], row["restartCount"]) for row in pod["status"]["containerStatuses"]]


def kill_the_plugin(cluster: RealCluster) -> None:
    found = cluster.node.pids("device-plugin")
    assert found
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def is_running_or_refused(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Running", "Failed")


async def test_a_plugin_that_is_killed_comes_back(cluster: RealCluster) -> None:
    (pod,), _ = await cluster.client.list(PODS, NAMESPACE, label_selector=f"app={PLUGIN}")
    before = await cluster.registrations()
    await cluster.client.delete(PODS, pod["metadata"]["name"], NAMESPACE, grace_s=0)
    # A plugin can be back before the kubelet has told the API server that it was gone.
    await cluster.until_registered(before + 1)
    await cluster.until_allocatable(4)
    await cluster.condition("True", "ChainWhole")
    assert await cluster.printed("ls", "/dev", gpus=4)


async def test_a_gpu_that_falls_off_the_bus_leaves_allocatable(cluster: RealCluster) -> None:
    lost = cluster.uuids()[3]
    with cluster.gpus() as state:
        state.raise_xid(3, 79)
    node = await cluster.until_allocatable(3)
    assert node["status"]["capacity"][GPU] == "4"
    seen = await cluster.gpu_node(lambda g: devices(g)[lost]["health"] != "Healthy")
    assert devices(seen)[lost]["lastXid"]["code"] == 79
    assert seen["status"]["healthy"] == 3
    code, said = await cluster.gpuready("doctor")
    assert code == 1
    assert "XID 79" in said
    assert sorted((await cluster.printed("sh", "-c", "ls /dev | grep -x 'nvidia[0-9]'", gpus=3)).split()) == [
        "nvidia0",
        "nvidia1",
        "nvidia2",
    ]


async def test_without_the_policy_nothing_of_ours_is_left(cluster: RealCluster) -> None:
    await cluster.client.delete(POLICIES, "cluster-policy")
    await cluster.wait(NODES, NODE, lambda node: not ours(node))
    async with asyncio.timeout(60):
        while (
            await cluster.client.find(GPU_NODES, NODE)
            or (await cluster.client.list(DAEMON_SETS, NAMESPACE))[0]
        ):
            await asyncio.sleep(0.2)
    await cluster.until_allocatable(0)
    left = [
        path for path in ("/var/run/cdi", "/run/nvidia/validations") if any(cluster.node.path(path).glob("*"))
    ]
    assert left == []


def ours(node: Object) -> list[str]:
    keys = [*node["metadata"].get("labels", {}), *node["metadata"].get("annotations", {})]
    return [key for key in keys if "nvidia.com/" in key or "gpuready.dev/" in key]
