"""What the tests of one node's behaviour share: a cluster with GPUs ready, and what its users look at."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.sim.operator_cluster import (
    DEADLINE_S,
    GPU_NODES,
    NAMESPACE,
    condition,
    link,
    policy,
    wait_process,
)

from gpuready.cli import main
from gpuready_sim.client import PODS, Resource
from gpuready_sim.cluster.handle import Cluster

GPU = "nvidia.com/gpu"
GATES = "run/nvidia/validations"
CDI_FILE = "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
DESIRED = "run/gpuready/desired/device-plugin.json"
RECORD = "run/gpuready/records/device-plugin.json"
PLUGIN_ROLE, AGENT_ROLE = "device-plugin", "node-agent"
# The device plugin lives faster here than its defaults, so that no test has to wait for a minute.
FAST = {
    "GPUREADY_CLEAN_PROBES": "3",
    "GPUREADY_PROBE_S": "0.1",
    "GPUREADY_INVENTORY_S": "1",
    "GPUREADY_NVML_SILENT_S": "0.5",
}
Object = dict[str, Any]


@asynccontextmanager
async def ready_cluster(
    spec: str, *extra: Object, nodes: Sequence[str], **plugin: Any
) -> AsyncIterator[Cluster]:
    """A cluster whose policy is applied (`plugin`: more of its devicePlugin) and whose `nodes` are whole."""
    env = [{"name": name, "value": value} for name, value in FAST.items()]
    async with Cluster.started(spec) as running:
        await running.apply(*extra, policy(devicePlugin={"env": env, **plugin}))
        for node in nodes:
            await whole(running, node)
        yield running


# --- the node's own report --------------------------------------------------------------------------------


async def gpu_node(
    cluster: Cluster, node: str, until: Callable[[Object], bool], *, timeout_s: float = DEADLINE_S
) -> Object:
    return await cluster.wait(GPU_NODES, node, until=until, timeout_s=timeout_s)


async def whole(cluster: Cluster, node: str, *, timeout_s: float = DEADLINE_S) -> Object:
    """The Node, once it says GPUReady and offers every share of every GPU of its GPUNode."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = await gpu_node(cluster, node, is_whole, timeout_s=deadline - time.monotonic())
        shares = sum(int(row.get("replicas") or 1) for row in found["status"]["devices"])
        obj = await cluster.node(node)
        if gpu_ready(obj) == "True" and offered(obj) == shares:
            return obj
        assert time.monotonic() < deadline, (
            f"{node}: its GPUNode is whole, but GPUReady is {condition(obj, 'GPUReady')} and {offered(obj)} "
            f"of {shares} shares are offered; the plugin's record: {record(cluster, node)}"
        )
        await asyncio.sleep(0.05)


def is_whole(found: Object) -> bool:
    status = found.get("status") or {}
    all_ok = {row["link"]: row["state"] for row in status.get("chain") or ()}
    return all_ok.get("driver") == all_ok.get("device-plugin") == "ok" and status["healthy"] == status[
        "gpus"
    ] == len(status["devices"])


def says(name: str, reason: str, *words: str) -> Callable[[Object], bool]:
    """The link `name` of a GPUNode gives this reason, with these words in its message."""

    def check(found: Object) -> bool:
        row = link(found, name)
        return row.get("reason") == reason and all(word in row["message"] for word in words)

    return check


def device(found: Object, index: int) -> Object:
    return next(row for row in found["status"]["devices"] if row["index"] == index)


def gpu_ready(node: Object) -> str:
    return str(condition(node, "GPUReady").get("status") or "")


def offered(node: Object, resource: str = "") -> int:
    """Allocatable of one resource, or of all of ours together."""
    rows = (node["status"].get("allocatable") or {}).items()
    return sum(int(n) for name, n in rows if name == resource or (not resource and name.startswith(GPU)))


async def doctor(cluster: Cluster, node: str = "") -> tuple[int, str]:
    """(exit status, what `gpuready doctor` prints)."""
    words = ["doctor", "--kubeconfig", str(cluster.kubeconfig), *(["--node", node] if node else [])]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = await asyncio.to_thread(main, words)
    return status, out.getvalue()


async def event(cluster: Cluster, about: str, reason: str, *words: str, namespace: str = "default") -> Object:
    """The Event about an object with this reason and these words, once it is there."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            for found in await cluster.events(about, namespace):
                if found["reason"] == reason and all(word in found["message"] for word in words):
                    return found
            await asyncio.sleep(0.1)


# --- files of the node ------------------------------------------------------------------------------------


def record(cluster: Cluster, node: str) -> Object:
    """The device plugin's record file."""
    return read_json(cluster.node_root(node) / RECORD)


def read_json(path: Path) -> Object:
    try:
        row: Object = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return row


def gate(cluster: Cluster, node: str, name: str = "driver-ready") -> Path:
    return cluster.node_root(node) / GATES / name


async def until(check: Callable[[], bool], what: str, *, timeout_s: float = DEADLINE_S) -> None:
    """For files of a node, of which no watch tells."""
    try:
        async with asyncio.timeout(timeout_s):
            while not check():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not in {timeout_s:g} s: {what}") from None


# --- the node's daemons -----------------------------------------------------------------------------------


async def kill(cluster: Cluster, node: str, role: str) -> int:
    """kill -9 of a daemon; its pid."""
    pid = await wait_process(cluster, node, role)
    os.kill(pid, signal.SIGKILL)
    return pid


async def another_process(cluster: Cluster, node: str, role: str, than: int) -> int:
    async with asyncio.timeout(DEADLINE_S):
        while (found := await wait_process(cluster, node, role)) == than:
            await asyncio.sleep(0.02)
    return found


async def daemon_pod(
    cluster: Cluster, node: str, role: str, until: Callable[[Object], bool] = lambda pod: True
) -> Object:
    def found(pods: Sequence[Object]) -> Object | None:
        here = [pod for pod in pods if pod["spec"].get("nodeName") == node]
        return next((pod for pod in here if pod["status"].get("containerStatuses") and until(pod)), None)

    selector = f"gpuready.dev/operand={role}"
    pods = await cluster.wait_pods(NAMESPACE, selector, lambda all_: found(all_) is not None)
    pod = found(pods)
    assert pod is not None
    return pod


def restarts(pod: Object) -> int:
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


def is_running(pod: Object) -> bool:
    return "running" in pod["status"]["containerStatuses"][0]["state"]


async def log_of(cluster: Cluster, node: str, role: str) -> str:
    pod = await daemon_pod(cluster, node, role)
    return await cluster.logs(pod["metadata"]["name"], NAMESPACE)


async def registrations(cluster: Cluster, node: str) -> int:
    """How often the running device plugin has registered."""
    return (await log_of(cluster, node, PLUGIN_ROLE)).count("plugin registered")


# --- pods of users ----------------------------------------------------------------------------------------


def pod(
    name: str, node: str, *command: str, containers: int = 1, resource: str = GPU, count: int = 1
) -> Object:
    rows = [
        {
            "name": f"c{number}",
            "image": "cuda",
            "command": list(command or ("sleep", "infinity")),
            "resources": {"limits": {resource: str(count)}},
        }
        for number in range(containers)
    ]
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": rows,
    }
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@asynccontextmanager
async def running_pod(cluster: Cluster, made: Object) -> AsyncIterator[Object]:
    """A pod that runs while the block does."""
    name = made["metadata"]["name"]
    await cluster.apply(made)
    try:
        yield await cluster.wait(PODS, name, "default", in_phase("Running"))
    finally:
        await remove_pod(cluster, name)


async def remove_pod(cluster: Cluster, name: str) -> None:
    await cluster.client.delete(PODS, name, "default", grace_s=0)
    await cluster.wait_gone(PODS, name, "default")


def in_phase(phase: str) -> Callable[[Object], bool]:
    return lambda obj: (obj.get("status") or {}).get("phase") == phase


async def pod_of(cluster: Cluster, name: str) -> Object:
    return await cluster.client.get(PODS, name, "default")


def life(found: Object) -> tuple[str, str, int]:
    """Changes when the pod was touched."""
    row = found["status"]["containerStatuses"][0]
    return found["metadata"]["uid"], row["containerID"], row["restartCount"]


@asynccontextmanager
async def history(cluster: Cluster, resource: Resource, name: str) -> AsyncIterator[list[Object]]:
    """Every version of an object while the block runs, the first one included."""
    selector = f"metadata.name={name}"
    items, version = await cluster.client.list(resource, field_selector=selector)
    seen = list(items)

    async def follow() -> None:
        async for kind, obj in cluster.client.watch(resource, version, field_selector=selector):
            if kind != "BOOKMARK":
                seen.append(obj)

    task = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
