"""A real API server process (ours) and nodes whose kubelets are its clients."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuready_sim.client import (
    CONFIG_MAPS,
    EVENTS,
    NODES,
    PODS,
    Access,
    ApiStatus,
    Object,
    Resource,
    SimClient,
    Unreachable,
)
from gpuready_sim.hardware import machine
from gpuready_sim.kubelet.identity import NodeIdentity, Timing
from gpuready_sim.kubelet.kubelet import Kubelet

DEADLINE_S = 30.0
FAST = Timing(
    status_interval_s=0.5,
    lease_interval_s=0.5,
    dial_timeout_s=0.5,
    backoff_base_s=0.1,
    backoff_max_s=0.4,
    mount_retry_s=0.1,
    mount_retry_max_s=0.2,
    probe_scale=0.02,
)
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def api_access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    data = tmp_path_factory.mktemp("apiserver")
    kubeconfig = data / "kubeconfig"
    command = [sys.executable, "-m", "gpuready_sim.apiserver", "--data", str(data / "data")]
    process = subprocess.Popen([*command, "--kubeconfig", str(kubeconfig)])
    try:
        access = _wait_for(kubeconfig, process)
        yield access
    finally:
        process.terminate()
        process.wait(10)


def _wait_for(kubeconfig: Path, process: subprocess.Popen[bytes]) -> Access:
    async def ready(access: Access) -> None:
        async with SimClient(access) as client:
            await client.raw_bytes("GET", "/readyz")

    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            access = Access.from_kubeconfig(kubeconfig)
            asyncio.run(ready(access))
            return access
        except (OSError, TypeError, Unreachable, ApiStatus):
            time.sleep(0.05)
    pytest.fail("the API server did not come up")


@pytest.fixture
async def client(api_access: Access) -> AsyncIterator[SimClient]:
    async with SimClient(api_access, user_agent="test") as made:
        yield made


class Node:
    """One node under test and what the API server says of it."""

    def __init__(self, kubelet: Kubelet, node_dir: Path, client: SimClient) -> None:
        self.kubelet = kubelet
        self.name = kubelet.identity.name
        self.dir = node_dir
        self.root = node_dir / "root"
        self.client = client

    async def run(self, pod: Object) -> Object:
        """Create a pod that is already bound to this node."""
        pod["spec"]["nodeName"] = self.name
        pod["spec"].setdefault("automountServiceAccountToken", False)
        pod["metadata"].pop("uid", None)
        return await self.client.create(PODS, pod)

    async def until_pod(self, pod: Object, condition: Callable[[Object], bool]) -> Object:
        return await until(self.client, PODS, pod["metadata"]["name"], condition, "default")

    async def until_phase(self, pod: Object, phase: str) -> Object:
        return await self.until_pod(pod, lambda p: p["status"].get("phase") == phase)

    async def until_node(self, condition: Callable[[Object], bool]) -> Object:
        return await until(self.client, NODES, self.name, condition)

    async def until_event(self, pod: Object, reason: str, text: str) -> None:
        def told(event: Object) -> bool:
            return event["reason"] == reason and text in event["message"]

        uid = pod["metadata"]["uid"]
        await watch_until(self.client, EVENTS, f"involvedObject.uid={uid}", lambda _, e: told(e), "default")

    async def until_gone(self, pod: Object) -> None:
        meta = pod["metadata"]
        selector = f"metadata.name={meta['name']}"
        if await self.client.find(PODS, meta["name"], meta["namespace"]) is not None:
            await watch_until(self.client, PODS, selector, lambda kind, _: kind == "DELETED", "default")


async def until(
    client: SimClient,
    resource: Resource,
    name: str,
    condition: Callable[[Object], bool],
    namespace: str | None = None,
) -> Object:
    """The object once the condition holds, by watching it."""
    selector = f"metadata.name={name}"
    return await watch_until(
        client, resource, selector, lambda kind, obj: kind != "DELETED" and condition(obj), namespace
    )


async def watch_until(
    client: SimClient,
    resource: Resource,
    selector: str,
    condition: Callable[[str, Object], bool],
    namespace: str | None,
) -> Object:
    seen: Object = {}
    try:
        async with asyncio.timeout(DEADLINE_S):
            items, version = await client.list(resource, namespace, field_selector=selector)
            for seen in items:
                if condition("ADDED", seen):
                    return seen
            if not items and resource is PODS:
                return {}  # gone before we looked
            async for kind, seen in client.watch(resource, version, namespace, field_selector=selector):
                if kind != "BOOKMARK" and condition(kind, seen):
                    return seen
    except TimeoutError:
        pass
    pytest.fail(f"{resource.kind} with {selector} never came that far; last seen: {seen}")


@pytest.fixture
async def make_node(
    api_access: Access, client: SimClient, tmp_path: Path
) -> AsyncIterator[Callable[..., Any]]:
    made: list[Kubelet] = []
    clients: list[SimClient] = []

    async def make(*, gpus: int = 0, timing: Timing = FAST, **identity: Any) -> Node:
        number = next(_numbers)
        name = f"node-{number}"
        node_dir = tmp_path / "nodes" / name
        machine.build_node_root(node_dir, machine.MachineSpec(name, gpus=(("L4", gpus),) if gpus else ()))
        clients.append(SimClient(api_access, user_agent="sim-kubelet"))
        facts = NodeIdentity(name=name, address=f"127.77.{number // 250}.{number % 250 + 1}", **identity)
        kubelet = Kubelet(facts, node_dir=node_dir, client=clients[-1], timing=timing)
        made.append(kubelet)
        await kubelet.start()
        return Node(kubelet, node_dir, client)

    yield make
    for kubelet in made:
        assert not kubelet.failed.done(), kubelet.failed.result()
        await kubelet.stop()
        await client.delete(NODES, kubelet.identity.name)
    for one in clients:
        await one.close()


@pytest.fixture
async def node(make_node: Callable[..., Any]) -> Node:
    made: Node = await make_node()
    return made


@pytest.fixture
async def config_map(client: SimClient) -> AsyncIterator[Callable[..., Any]]:
    names: list[str] = []

    async def make(name: str, **data: str) -> None:
        names.append(name)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
        await client.create(CONFIG_MAPS, {**body, "data": data})

    yield make
    for name in names:
        await client.delete(CONFIG_MAPS, name, "default")
