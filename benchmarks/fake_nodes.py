"""Nodes that are only objects, and what speaks for the programs that would run on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Self

from tests.sim.operator_cluster import AGENT, GPU_NODES, NAMESPACE

from gpuready_sim.client import DAEMON_SETS, NODES, PODS, Gone, Resource, SimClient

Object = dict[str, Any]
IN_FLIGHT = 8
IMAGES = 30  # a real node lists fifty
PRESENT = "feature.node.kubernetes.io/pci-10de.present"
_LINKS = ("reporting", "discovery", "driver", "toolkit", "device-plugin", "cuda")
_NOT_CHECKED = ("toolkit", "cuda")
# The labels that the original writes to a node without a driver of its own.
_OPERANDS = (
    "driver",
    "gpu-feature-discovery",
    "container-toolkit",
    "device-plugin",
    "dcgm",
    "dcgm-exporter",
    "node-status-exporter",
    "operator-validator",
)
PATCH_AS_THE_ORIGINAL: Object = {
    "metadata": {
        "labels": {
            "nvidia.com/gpu.present": "true",
            **{f"nvidia.com/gpu.deploy.{operand}": "true" for operand in _OPERANDS},
        }
    }
}


def node_name(number: int) -> str:
    return f"gpu-{number:05}"


async def create_nodes(client: SimClient, count: int, *, first: int = 0) -> None:
    """Nodes as a kubelet and NFD leave them, each with the pod of its node agent."""

    async def create(number: int) -> None:
        await client.create(NODES, _node(number))
        await client.create(PODS, _agent_pod(number))
        await client.merge_patch(PODS, f"{AGENT}-{number:05}", _pod_status(), NAMESPACE, subresource="status")

    await _in_flight(create, range(first, first + count))


async def _in_flight(work: Callable[[int], Awaitable[None]], numbers: Iterable[int]) -> None:
    left = iter(numbers)

    async def worker() -> None:
        for number in left:
            await work(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())


def _node(number: int) -> Object:
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


def _agent_pod(number: int) -> Object:
    labels = {"app": AGENT, "gpuready.dev/operand": "node-agent"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{AGENT}-{number:05}", "namespace": NAMESPACE, "labels": labels},
        "spec": {"nodeName": node_name(number), "containers": [{"name": "node-agent", "image": "gpuready"}]},
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
    return {"status": {"phase": "Running", "conditions": [ready], "containerStatuses": [container]}}


# --- who speaks for the agents and for the DaemonSet controller -----------------------------------------


class StandIns:
    """Answers each new GPUNode and each new generation of a DaemonSet with one status, and nothing else."""

    def __init__(self, client: SimClient) -> None:
        self._client = client
        self._tasks: list[asyncio.Task[None]] = []
        self._gpu_nodes: asyncio.Queue[str] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        work = [self._watch_gpu_nodes(), self._watch_daemon_sets()]
        work += [self._report() for _ in range(IN_FLIGHT)]
        self._tasks = [asyncio.create_task(each) for each in work]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for exc in ended:
            if isinstance(exc, Exception):
                raise exc

    async def _watch_gpu_nodes(self) -> None:
        async for obj in _changes(self._client, GPU_NODES):
            if not (obj.get("status") or {}).get("chain"):
                self._gpu_nodes.put_nowait(obj["metadata"]["name"])

    async def _report(self) -> None:
        while True:
            name = await self._gpu_nodes.get()
            status = {"status": _gpu_node_status(name)}
            await self._client.merge_patch(GPU_NODES, name, status, subresource="status")

    async def _watch_daemon_sets(self) -> None:
        async for obj in _changes(self._client, DAEMON_SETS):
            generation = obj["metadata"]["generation"]
            if (obj.get("status") or {}).get("observedGeneration") == generation:
                continue
            meta = obj["metadata"]
            status = {"status": _rolled_out(generation)}
            await self._client.merge_patch(
                DAEMON_SETS, meta["name"], status, meta["namespace"], subresource="status"
            )


async def _changes(client: SimClient, resource: Resource) -> AsyncIterator[Object]:
    """Every object, and again when it changes; watches of a new kind end now and then."""
    while True:
        items, version = await client.list(resource)
        for item in items:
            yield item
        try:
            async for kind, obj in client.watch(resource, version):
                if kind in ("ADDED", "MODIFIED"):
                    yield obj
        except Gone:
            continue


def _rolled_out(generation: int) -> Object:
    """As of a cluster in which no node takes a pod: the original was measured so."""
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady")
    return {"observedGeneration": generation, "numberMisscheduled": 0, **dict.fromkeys(counts, 0)}


def _gpu_node_status(name: str) -> Object:
    now = "2026-01-01T00:00:00Z"
    devices = [
        {
            "uuid": f"GPU-{index}-{name}",
            "index": index,
            "product": "NVIDIA H100 80GB HBM3",
            "memoryMiB": 81559,
            "health": "Healthy",
            "replicas": 1,
            "mig": "disabled",
        }
        for index in range(8)
    ]
    return {
        "observedGeneration": 1,
        "bootID": f"{name}-boot",
        "agentVersion": "bench",
        "chain": [{**_verdict(each), "lastTransitionTime": now} for each in _LINKS],
        "columns": {"driver": "ok", "runtime": "-", "plugin": "ok", "cuda": "-"},
        "gpus": 8,
        "healthy": 8,
        "reason": "",
        "devices": devices,
        "driver": {"owner": "host", "version": "570.86.10", "root": "/"},
        "runtime": {"name": "containerd", "version": "1.7.24"},
        "uninstalled": False,
    }


def _verdict(link: str) -> Object:
    if link in _NOT_CHECKED:
        return {"link": link, "state": "not-checked", "reason": "NotChecked", "message": ""}
    return {"link": link, "state": "ok", "reason": "Whole", "message": f"{link} is as it should be on {link}"}
