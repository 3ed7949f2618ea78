"""A real cluster with one GPU node, and what a user does with it and looks at."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gpuready_sim.client import NODES, PODS, ApiStatus, Object, Resource, SimClient
from gpuready_sim.cluster.control_plane import (
    OPERATOR_NAMESPACE,
    Operator,
    create_namespace,
    install_crds,
    install_operator_account,
)
from gpuready_sim.cluster.places import Place
from gpuready_sim.hardware import machine
from gpuready_sim.hardware.state import GpuState
from gpuready_sim.kubernetes.control_plane import KubernetesControlPlane
from gpuready_sim.kubernetes.node.images import BUSYBOX_IMAGE
from gpuready_sim.kubernetes.node.node import RealNode
from gpuready_sim.kubernetes.node.own_image import own_image
from gpuready_sim.kubernetes.node.view import GPU_STATE

POLICIES = Resource("nvidia.com", "v1", "clusterpolicies", "ClusterPolicy", namespaced=False)
GPU_NODES = Resource("gpuready.dev", "v1alpha1", "gpunodes", "GPUNode", namespaced=False)
GPU = "nvidia.com/gpu"
NODE = "gpu-1"
DRIVER = "550.163.01"
OWN_IMAGE = "gpuready.sim/gpuready:e2e"
DEADLINE_S = 90.0
_REGISTRATIONS = re.compile(rf'kubelet_device_plugin_registration_total{{resource_name="{GPU}"}} (\d+)')
# The simulated NVML wants to know where the GPUs' state and device nodes are, which a real one does not.
NVML_ENV = {"NVSIM_STATE": GPU_STATE, "NVSIM_DEV": "/dev"}


class RealCluster:
    """Its only node has four L4."""

    def __init__(self, node: RealNode, client: SimClient, kubeconfig: Path) -> None:
        self.node = node
        self.client = client
        self.kubeconfig = kubeconfig
        self._pods = 0

    def gpus(self) -> GpuState:
        return machine.gpu_state(self.node.directory)

    def uuids(self) -> list[str]:
        with self.gpus() as state:
            return [gpu.uuid for gpu in state.gpus()]

    async def apply_policy(self, **spec: Any) -> None:
        """The smallest policy that does the whole job."""
        off = {block: {"enabled": False} for block in ("toolkit", "dcgm", "dcgmExporter", "migManager")}
        body: Object = {
            "apiVersion": "nvidia.com/v1",
            "kind": "ClusterPolicy",
            "metadata": {"name": "cluster-policy"},
            "spec": {"driver": {"version": "570.86.10"}, **off, **spec},
        }
        await self.client.apply(POLICIES, body)

    async def run(self, *command: str, gpus: int = 0, image: str = BUSYBOX_IMAGE, **spec: Any) -> Object:
        """A pod that the scheduler places."""
        self._pods += 1
        limits = {GPU: str(gpus)} if gpus else {}
        main = {
            "name": "main",
            "image": image,
            "command": list(command),
            "resources": {"limits": limits},
            **spec.pop("container", {}),
        }
        body = {"containers": [main], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, **spec}
        meta = {"name": f"pod-{self._pods}", "namespace": "default"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}
        return await self.client.create(PODS, pod)

    async def until_phase(self, pod: Object, phase: str) -> Object:
        return await self.wait(
            PODS, pod["metadata"]["name"], lambda seen: seen["status"].get("phase") == phase, "default"
        )

    async def printed(self, *command: str, **more: Any) -> str:
        """What a pod prints that runs to its end."""
        pod = await self.until_phase(await self.run(*command, **more), "Succeeded")
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/log"
        return (await self.client.raw_bytes("GET", path)).decode()

    async def delete(self, pod: Object) -> None:
        await self.client.delete(PODS, pod["metadata"]["name"], "default", grace_s=0)

    async def gpuready(self, *words: str) -> tuple[int, str]:
        """(exit status, output) of one of the product's commands."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gpuready.cli", *words, "--kubeconfig", str(self.kubeconfig)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        return process.returncode or 0, said.decode()

    async def until_allocatable(self, count: int) -> Object:
        return await self.wait(NODES, NODE, lambda node: node["status"]["allocatable"].get(GPU) == str(count))

    async def registrations(self) -> int:
        """How often a plugin has registered with the kubelet's process that runs now; 0 while it starts."""
        found = _REGISTRATIONS.search(await self._kubelet_metrics())
        return int(found[1]) if found else 0

    async def until_registered(self, times: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while await self.registrations() < times:
                await asyncio.sleep(0.2)

    async def _kubelet_metrics(self) -> str:
        try:
            return (await self.client.raw_bytes("GET", f"/api/v1/nodes/{NODE}/proxy/metrics")).decode()
        except ApiStatus:
            return ""  # it is starting

    async def gpu_node(self, until: Callable[[Object], bool]) -> Object:
        return await self.wait(GPU_NODES, NODE, until)

    async def condition(self, status: str, reason: str = "") -> Object:
        """The Node's GPUReady condition once it says so."""

        def told(node: Object) -> bool:
            found = ready_condition(node)
            return found.get("status") == status and (not reason or found.get("reason") == reason)

        return ready_condition(await self.wait(NODES, NODE, told))

    async def wait(
        self, resource: Resource, name: str, until: Callable[[Object], bool], namespace: str | None = None
    ) -> Object:
        selector, seen = f"metadata.name={name}", Object()
        try:
            async with asyncio.timeout(DEADLINE_S):
                found, version = await self.client.list(resource, namespace, field_selector=selector)
                for seen in found:
                    if until(seen):
                        return seen
                async for kind, seen in self.client.watch(
                    resource, version, namespace, field_selector=selector
                ):
                    if kind in ("ADDED", "MODIFIED") and until(seen):
                        return seen
        except TimeoutError:
            pass
        raise AssertionError(f"{resource.kind} {name} never came that far; last seen: {json.dumps(seen)}")


def ready_condition(node: Object) -> Object:
    return next((c for c in node["status"].get("conditions") or () if c["type"] == "GPUReady"), {})


def links(gpu_node: Object) -> dict[str, str]:
    """State of each link of the chain."""
    return {row["link"]: row["state"] for row in (gpu_node.get("status") or {}).get("chain") or ()}


def devices(gpu_node: Object) -> dict[str, Object]:
    """Rows of the GPUs, by uuid."""
    return {row["uuid"]: row for row in (gpu_node.get("status") or {}).get("devices") or ()}


@asynccontextmanager
async def started(directory: Path) -> AsyncIterator[RealCluster]:
    """Control plane, node and operator; no policy yet."""
    place = Place(directory / "cluster")
    place.clean()
    control_plane = KubernetesControlPlane(place, node_grace_s=40)
    spec = machine.MachineSpec(NODE, gpus=(("L4", 4),))
    node = RealNode(directory / "node", control_plane, spec, driver=DRIVER, pods_use_api=True)
    operator: asyncio.Task[None] | None = None
    try:
        await control_plane.start()
        async with SimClient(control_plane.access) as client:
            await asyncio.gather(node.start(), _install(client))
            await node.load(await asyncio.to_thread(own_image, OWN_IMAGE, NVML_ENV))
            operator = asyncio.create_task(Operator(place, place.kubeconfig, OWN_IMAGE).run())
            yield RealCluster(node, client, place.kubeconfig)
    finally:
        if operator is not None:
            operator.cancel()
            await asyncio.gather(operator, return_exceptions=True)
        await node.stop()
        await control_plane.stop()


async def _install(client: SimClient) -> None:
    await install_crds(client)
    await create_namespace(client, OPERATOR_NAMESPACE)
    await install_operator_account(client)
