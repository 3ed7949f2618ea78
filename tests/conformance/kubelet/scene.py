"""What a test does with a kubelet, whichever it is, and what it looks at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from grpclib.client import Channel
from tests.unit.sim_kubelet.plugins import Plugin

from gpuready_sim.client import NODES, PODS, Object, Resource
from gpuready_sim.kubelet.protos.podresources.v1 import api_grpc, api_pb2
from gpuready_sim.kubelet.quantities import parse_quantity
from gpuready_sim.kubelet.sockets import Directory

from .kubelets import NAME, RunningKubelet

DEADLINE_S = 60
NAMESPACE = "default"


class Scene:
    """One test's plugins and pods; its resources have names of their own, so that tests do not meet."""

    def __init__(self, kubelet: RunningKubelet, name: str) -> None:
        self.kubelet = kubelet
        self.name = name
        self.resource = f"example.com/{name}"
        self._plugins: list[Plugin] = []
        self._pods: list[str] = []

    async def end(self) -> None:
        """Pods first: a container ends without its plugin, but a pod may wait for it."""
        for name in self._pods:
            await self.kubelet.client.delete(PODS, name, NAMESPACE, grace_s=0)
        for plugin in self._plugins:
            await plugin.stop()

    # --- plugins ----------------------------------------------------------------------------------------
    def plugin(self, devices: Iterable[str] = ("gpu-0", "gpu-1"), **more: Any) -> Plugin:
        """One that is not started; `resource` and `endpoint` when the test has more than one."""
        return self.added(Plugin, devices=devices, **more)

    def added(self, kind: type[Plugin], **more: Any) -> Plugin:
        """One of a test's own kind."""
        more.setdefault("resource", self.resource)
        more.setdefault("endpoint", f"{self.name}-{len(self._plugins)}.sock")
        made = kind(self.kubelet.plugin_dir, **more)
        self._plugins.append(made)
        return made

    async def started(self, devices: Iterable[str] = ("gpu-0", "gpu-1"), **more: Any) -> Plugin:
        """A plugin whose devices the Node has."""
        made = self.plugin(devices, **more)
        await made.start()
        await self.until_gpus(len(made.devices), len(made.devices), made.resource)
        return made

    # --- the Node ---------------------------------------------------------------------------------------
    async def until_gpus(
        self, capacity: int, allocatable: int, resource: str = "", deadline_s: float = DEADLINE_S
    ) -> None:
        """What the Node says of the resource, once it says so."""
        name = resource or self.resource

        def said(node: Object) -> bool:
            status = node["status"]
            seen = [parse_quantity(status[key].get(name, -1)) for key in ("capacity", "allocatable")]
            return seen == [capacity, allocatable]

        await self._until(NODES, NAME, None, said, deadline_s)

    async def gpus(self, resource: str = "") -> tuple[str | None, str | None]:
        status = (await self.kubelet.client.get(NODES, NAME))["status"]
        name = resource or self.resource
        return status["capacity"].get(name), status["allocatable"].get(name)

    def checkpoint(self) -> Object:
        """What the kubelet wrote about this test's resources."""
        data = json.loads((self.kubelet.plugin_dir / "kubelet_internal_checkpoint").read_text())["Data"]
        ours = [e for e in data["PodDeviceEntries"] or [] if e["ResourceName"].startswith(self.resource)]
        registered = {k: v for k, v in data["RegisteredDevices"].items() if k.startswith(self.resource)}
        return {"entries": ours, "registered": registered}

    async def restart_kubelet(self) -> None:
        await self.kubelet.restart()

    # --- pods -------------------------------------------------------------------------------------------
    def container(self, name: str = "main", gpus: int = 0, **more: Any) -> Object:
        limits = more.pop("limits", {self.resource: str(gpus)} if gpus else {})
        return {
            "name": name,
            "image": self.kubelet.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sleep", "infinity"],
            "resources": {"limits": limits},
            **more,
        }

    async def pod(
        self,
        gpus: int = 0,
        containers: list[Object] | None = None,
        init: list[Object] | None = None,
        **spec: Any,
    ) -> Object:
        """Made and bound to the node, as a scheduler would who believes that everything fits."""
        name = f"{self.name}-{len(self._pods)}"
        self._pods.append(name)
        body: Object = {
            "nodeName": NAME,
            "containers": containers or [self.container(gpus=gpus)],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            **spec,
        }
        if init:
            body["initContainers"] = init
        meta = {"name": name, "namespace": NAMESPACE}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}
        return await self.kubelet.client.create(PODS, pod)

    async def running(self, gpus: int = 0, **more: Any) -> Object:
        return await self.until_phase(await self.pod(gpus, **more), "Running")

    async def refused(self, gpus: int, **more: Any) -> tuple[str, str]:
        """(reason, message) of a pod that the kubelet does not admit."""
        status = (await self.until_phase(await self.pod(gpus, **more), "Failed"))["status"]
        return status["reason"], status["message"]

    async def printed(self, **container: Any) -> str:
        """What a container prints that runs to its end."""
        main = self.container(**{"command": ["printenv"], **container})
        pod = await self.pod(containers=[main], restartPolicy="Never")
        await self.until_phase(pod, "Succeeded")
        return await self.log(pod)

    async def log(self, pod: Object) -> str:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}/log"
        return (await self.kubelet.client.raw_bytes("GET", path, params={"container": "main"})).decode()

    async def until_phase(self, pod: Object, phase: str) -> Object:
        return await self.until_pod(pod, lambda seen: seen["status"].get("phase") == phase)

    async def until_pod(self, pod: Object, condition: Callable[[Object], bool]) -> Object:
        return await self._until(PODS, pod["metadata"]["name"], NAMESPACE, condition)

    async def phase(self, pod: Object) -> str:
        found = await self.kubelet.client.get(PODS, pod["metadata"]["name"], NAMESPACE)
        return str(found["status"].get("phase"))

    async def gone(self, pod: Object) -> None:
        """Delete a pod and wait until the kubelet has ended it."""
        name = pod["metadata"]["name"]
        await self.kubelet.client.delete(PODS, name, NAMESPACE)
        selector = f"metadata.name={name}"
        items, version = await self.kubelet.client.list(PODS, NAMESPACE, field_selector=selector)
        if not items:
            return
        async with asyncio.timeout(DEADLINE_S):
            async for kind, _ in self.kubelet.client.watch(PODS, version, NAMESPACE, field_selector=selector):
                if kind == "DELETED":
                    return

    async def _until(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        condition: Callable[[Object], bool],
        deadline_s: float = DEADLINE_S,
    ) -> Object:
        client, selector = self.kubelet.client, f"metadata.name={name}"
        seen: Object = {}
        try:
            async with asyncio.timeout(deadline_s):
                (seen,), version = await client.list(resource, namespace, field_selector=selector)
                if condition(seen):
                    return seen
                async for kind, seen in client.watch(
                    resource, version, namespace, field_selector=selector, timeout_s=int(deadline_s) + 60
                ):
                    if kind in ("ADDED", "MODIFIED") and condition(seen):
                        return seen
        except TimeoutError:
            pass
        pytest.fail(f"{resource.kind} {name} never came that far; its status: {json.dumps(seen['status'])}")

    # --- who holds what ---------------------------------------------------------------------------------
    async def listed(self, pod: Object) -> api_pb2.PodResources:
        """What the pod-resources API says of a pod; a kubelet that has just started lists it a bit later."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                found = (await self.listed_pods()).get(pod["metadata"]["name"])
                if found is not None:
                    return found
                await asyncio.sleep(0.1)

    async def listed_pods(self) -> dict[str, api_pb2.PodResources]:
        async with self.pod_resources() as lister:
            answer = await lister.List(api_pb2.ListPodResourcesRequest())
        return {pod.name: pod for pod in answer.pod_resources}

    async def held(self, pod: Object, container: str = "main", resource: str = "") -> set[str]:
        """Ids of the devices that a container holds."""
        (one,) = [c for c in (await self.listed(pod)).containers if c.name == container]
        name = resource or self.resource
        return {device for held in one.devices if held.resource_name == name for device in held.device_ids}

    def pod_resources(self) -> _Lister:
        return _Lister(self.kubelet)


class _Lister:
    """A connection to the pod-resources socket, while it is open."""

    def __init__(self, kubelet: RunningKubelet) -> None:
        self._directory = Directory(kubelet.pod_resources_dir)
        self._channel = Channel(path=self._directory.short("kubelet.sock"))

    async def __aenter__(self) -> api_grpc.PodResourcesListerStub:
        return api_grpc.PodResourcesListerStub(self._channel)

    async def __aexit__(self, *_: object) -> None:
        self._channel.close()
        self._directory.close()
