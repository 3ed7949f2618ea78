"""Milestone 1: the device plugin alone, by a hand-written DaemonSet, and pods that ask it for GPUs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gpuready_sim.client import NODES, PODS
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.scenarios.examples import example

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = """
nodes:
- {name: cri, gpus: {A100-SXM4-40GB: 8}, driver: {where: host}, labels: {strategy: cdi-cri}}
- {name: annotations, gpus: {L4: 2}, driver: {where: host}, labels: {strategy: cdi-annotations}}
- {name: envvar, gpus: {L4: 2}, driver: {where: host}, labels: {strategy: envvar}}
- {name: bare, gpus: {L4: 1}, driver: {where: none}, labels: {strategy: cdi-cri}}
"""
STRATEGIES = ("cdi-cri", "cdi-annotations", "envvar")
GPU = "nvidia.com/gpu"
Object = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC, operator=False) as running:
        for strategy in STRATEGIES:
            await running.apply(daemonset(strategy))
        for node, count in {"cri": 8, "annotations": 2, "envvar": 2}.items():
            await running.wait(NODES, node, until=offers(count))
        yield running


def daemonset(strategy: str) -> Object:
    """The example, for the nodes of one strategy."""
    made: Object = yaml.safe_load(example("device-plugin-daemonset.yaml").read_text())
    name = f"plugin-{strategy}"
    made["metadata"]["name"] = name
    made["spec"]["selector"]["matchLabels"]["app"] = name
    template = made["spec"]["template"]
    template["metadata"]["labels"]["app"] = name
    template["spec"]["nodeSelector"] = {"strategy": strategy}
    env = template["spec"]["containers"][0]["env"]
    next(row for row in env if row["name"] == "DEVICE_LIST_STRATEGY")["value"] = strategy
    if strategy == "envvar":
        env.append({"name": "PASS_DEVICE_SPECS", "value": "true"})
    return made


def pod(name: str, node: str, *command: str, gpus: int = 1) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [
                {
                    "name": "main",
                    "image": "cuda",
                    "command": list(command or ("nvidia-smi", "-L")),
                    "resources": {"limits": {GPU: str(gpus)}},
                }
            ],
        },
    }


def with_the_hosts_driver(made: Object) -> Object:
    """Nobody injects libraries for an environment variable but the NVIDIA runtime: the pod brings its own."""
    folders = {"bin": "/usr/bin", "lib": "/usr/lib/x86_64-linux-gnu"}
    made["spec"]["volumes"] = [{"name": n, "hostPath": {"path": path}} for n, path in folders.items()]
    mounts = [{"name": n, "mountPath": path} for n, path in folders.items()]
    made["spec"]["containers"][0]["volumeMounts"] = mounts
    return made


def offers(count: int):
    return lambda node: int(node["status"].get("allocatable", {}).get(GPU, 0)) == count


def phase(name: str):
    return lambda obj: (obj.get("status") or {}).get("phase") == name


async def uuids_printed(cluster: Cluster, made: Object) -> list[str]:
    name = made["metadata"]["name"]
    await cluster.apply(made)
    await cluster.wait(PODS, name, "default", phase("Succeeded"))
    return re.findall(r"UUID: (GPU-[0-9a-f-]+)", await cluster.logs(name))


async def uuids_on(cluster: Cluster, node: str) -> list[str]:
    printed = await cluster.exec(node, "nvidia-smi", "-L")
    return re.findall(r"UUID: (GPU-[0-9a-f-]+)", printed.stdout)


async def test_a_pod_that_asks_for_one_gpu_prints_the_uuid_of_its_gpu_and_sees_no_other(cluster):
    printed = await uuids_printed(cluster, pod("one", "cri"))

    assert len(printed) == 1
    assert printed[0] in await uuids_on(cluster, "cri")


@pytest.mark.parametrize(("strategy", "node"), [("cdi-annotations", "annotations"), ("envvar", "envvar")])
async def test_the_other_strategies_bring_the_gpu_to_the_pod_as_well(cluster, strategy, node):
    made = pod(f"by-{node}", node)

    printed = await uuids_printed(cluster, with_the_hosts_driver(made) if strategy == "envvar" else made)

    assert len(printed) == 1
    assert printed[0] in await uuids_on(cluster, node)


async def test_an_environment_variable_names_the_gpu_where_that_is_the_strategy(cluster):
    await cluster.apply(pod("variable", "envvar", "printenv", "NVIDIA_VISIBLE_DEVICES"))
    await cluster.wait(PODS, "variable", "default", phase("Succeeded"))

    assert (await cluster.logs("variable")).strip() in await uuids_on(cluster, "envvar")


async def test_pods_that_run_together_have_different_gpus(cluster):
    names = ["pair-1", "pair-2"]
    for name in names:
        await cluster.apply(pod(name, "annotations", "gpu-hold"))
    for name in names:
        await cluster.wait(PODS, name, "default", phase("Running"))

    assert sorted(held_on(cluster, "annotations")) == sorted(await uuids_on(cluster, "annotations"))
    for name in names:
        await cluster.client.delete(PODS, name, "default", grace_s=0)


def held_on(cluster: Cluster, node: str) -> list[str]:
    """Device ids in the kubelet's checkpoint."""
    plugins = cluster.node_root(node) / "var/lib/kubelet/device-plugins"
    text = (plugins / "kubelet_internal_checkpoint").read_text()
    rows = yaml.safe_load(text)["Data"]["PodDeviceEntries"]
    return [uuid for row in rows or () for ids in row["DeviceIDs"].values() for uuid in ids]


async def test_a_pod_gets_as_many_as_it_asks_for(cluster):
    printed = await uuids_printed(cluster, pod("eight", "cri", gpus=8))

    assert sorted(printed) == sorted(await uuids_on(cluster, "cri"))


async def test_a_pod_that_asks_for_nine_of_eight_waits_and_is_told_why(cluster):
    await cluster.apply(pod("nine", "cri", gpus=9))

    waiting = await cluster.wait(PODS, "nine", "default", is_unschedulable)

    said = next(row for row in waiting["status"]["conditions"] if row["type"] == "PodScheduled")["message"]
    assert "1 Insufficient nvidia.com/gpu" in said
    await cluster.client.delete(PODS, "nine", "default", grace_s=0)


def is_unschedulable(obj: Object) -> bool:
    rows = (obj.get("status") or {}).get("conditions") or ()
    return any(row["type"] == "PodScheduled" and row.get("reason") == "Unschedulable" for row in rows)


async def test_where_no_driver_is_it_waits_says_what_for_and_does_not_crash(cluster):
    waiting = await plugin_on(cluster, "bare", is_ready=False)

    log = await cluster.logs(waiting["metadata"]["name"], "kube-system")

    assert "NvmlLibraryNotFound" in log
    assert "install the NVIDIA driver" in log
    assert GPU not in (await cluster.node("bare"))["status"]["capacity"]


@pytest.mark.parametrize("node", ["cri", "annotations", "envvar"])
async def test_where_it_is_registered_its_pod_is_ready_and_was_never_restarted(cluster, node):
    found = await plugin_on(cluster, node, is_ready=True)

    assert found["status"]["containerStatuses"][0]["restartCount"] == 0


async def plugin_on(cluster: Cluster, node: str, *, is_ready: bool) -> Object:
    def has_settled(pods: list[Object]) -> bool:
        return any(_is_on(pod, node) and _is_ready(pod) is is_ready for pod in pods)

    pods = await cluster.wait_pods("kube-system", "", has_settled)
    return next(pod for pod in pods if _is_on(pod, node))


def _is_on(pod: Object, node: str) -> bool:
    return bool(pod["spec"].get("nodeName") == node and pod["status"].get("containerStatuses"))


def _is_ready(pod: Object) -> bool:
    return bool(pod["status"]["containerStatuses"][0]["ready"])
