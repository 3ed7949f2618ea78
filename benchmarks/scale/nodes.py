"""Nodes that are only objects: as a kubelet and NFD leave them, and the pod of each node's agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from tests.sim.operator_cluster import AGENT, NAMESPACE

from gpuready_sim.client import NODES, PODS, SimClient

Object = dict[str, Any]
IN_FLIGHT = 8
IMAGES = 30  # a real node lists fifty
PRESENT = "feature.node.kubernetes.io/pci-10de.present"


def node_name(number: int) -> str:
    return f"gpu-{number:05}"


async def create_nodes(client: SimClient, count: int, *, first: int = 0, agents: bool = True) -> None:
    """`count` nodes, each with the pod of its node agent unless told otherwise."""

    async def create(number: int) -> None:
        await client.create(NODES, gpu_node(number))
        if not agents:
            return
        pod = agent_pod(number)
        await client.create(PODS, pod)
        status = {"status": pod["status"]}
        await client.merge_patch(PODS, pod["metadata"]["name"], status, NAMESPACE, subresource="status")

    await _in_flight(create, range(first, first + count))


async def _in_flight(work: Callable[[int], Awaitable[None]], numbers: Iterable[int]) -> None:
    left = iter(numbers)

    async def worker() -> None:
        for number in left:
            await work(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())


def gpu_node(number: int) -> Object:
    """As a kubelet and NFD leave it; all are alike but for their names."""
    name = node_name(number)
    features = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{index:02}": "true" for index in range(50)}
    versions = {
        "feature.node.kubernetes.io/kernel-version.full": "5.15.0-116-generic",
        "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04",
        PRESENT: "true",
    }
    own = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name}
    by_nfd = ",".join(key.partition("/")[2] for key in {**features, **versions})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**own, **features, **versions},
            "annotations": {"nfd.node.kubernetes.io/feature-labels": by_nfd},
        },
        "spec": {},
        "status": _node_status(name),
    }


def _node_status(name: str) -> Object:
    resources = {"cpu": "128", "memory": "1056Gi", "pods": "110", "ephemeral-storage": "1800Gi"}
    images = [
        {
            "names": [
                f"registry.example/team/image-{index}@sha256:{index:064x}",
                f"registry.example/team/image-{index}:v1.{index}.0",
            ],
            "sizeBytes": 100_000_000 + index,
        }
        for index in range(IMAGES)
    ]
    return {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [
            _condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            _condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            _condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            _condition("Ready", "True", "KubeletReady"),
        ],
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": name}],
        "images": images,
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": f"{name}-boot",
            "containerRuntimeVersion": "containerd://1.7.24",
            "kernelVersion": "5.15.0-116-generic",
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.36.2",
            "machineID": f"{name}-machine",
            "operatingSystem": "linux",
            "osImage": "Ubuntu 22.04.5 LTS",
            "systemUUID": f"{name}-system",
        },
    }


def _condition(kind: str, status: str, reason: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "as a kubelet says it",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def agent_pod(number: int) -> Object:
    labels = {"app": AGENT, "gpuready.dev/operand": "node-agent"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{AGENT}-{number:05}", "namespace": NAMESPACE, "labels": labels},
        "spec": {"nodeName": node_name(number), "containers": [{"name": "node-agent", "image": "gpuready"}]},
        "status": _pod_status(),
    }


def _pod_status() -> Object:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    container = {
        "name": "node-agent",
        "ready": True,
        "restartCount": 0,
        "image": "gpuready",
        "imageID": "gpuready",
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    return {"phase": "Running", "conditions": [ready], "containerStatuses": [container]}
