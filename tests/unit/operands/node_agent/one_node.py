"""A node agent on one node, with the few things that its tests put there and look at."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.unit.operands.node_agent.fake_api import FakeApi
from tests.unit.operands.node_agent.machine import (
    FakeChild,
    FakeCudaChild,
    Machine,
    inventory,
)

from gpuready import names
from gpuready.node.root import Root
from gpuready.operands.node_agent.daemon import Agent
from gpuready.operands.node_agent.settings import Settings

PCI = names.NFD_PCI_LABELS[0]
SETTINGS = Settings(node_name="n1", settle_s=0.2)


@asynccontextmanager
async def running(
    api: FakeApi,
    machine: Machine,
    child: FakeChild,
    cuda_child: FakeCudaChild | None = None,
    **settings: Any,
) -> AsyncIterator[Agent]:
    client = api.client()
    agent = Agent(
        dataclasses.replace(SETTINGS, **settings),
        Root(machine.base),
        client,
        child=child,
        cuda_child=cuda_child or FakeCudaChild(),
    )
    task = asyncio.create_task(agent.run())
    try:
        yield agent
    finally:
        agent.stop()
        await asyncio.wait_for(task, 5)
        await client.close()


def node(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "uid": "u1", "labels": {}, **metadata},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"containerRuntimeVersion": "containerd://1.7.27"},
        },
    }


def gpu_node(**plugin: Any) -> dict[str, Any]:
    wish = {"enabled": True, "config": {"version": "v1"}, "configName": "", "configDigest": "d1", **plugin}
    return {
        "apiVersion": names.GPU_NODE_API,
        "kind": names.GPU_NODE_KIND,
        "metadata": {"name": "n1", "generation": 1},
        "spec": {
            "driver": {"enabled": True},
            "devicePlugin": wish,
            "featureLabels": {"enabled": True},
            "uninstall": False,
        },
    }


def host_driver(tmp_path: Path, gpus: int = 2) -> tuple[Machine, FakeChild]:
    machine = Machine(tmp_path, gpus)
    machine.install_driver()
    machine.load_module()
    return machine, FakeChild(inventory(gpus))


async def show_gpus(api: FakeApi, count: int, capacity: int | None = None) -> None:
    """The kubelet's next status write."""
    shown = {
        "capacity": {"nvidia.com/gpu": str(capacity or count)},
        "allocatable": {"nvidia.com/gpu": str(count)},
    }
    await api.change("nodes", "n1", {"status": shown})


def status(api: FakeApi) -> dict[str, Any]:
    found: dict[str, Any] = api.get("gpunodes", "n1")["status"]
    return found


def link(api: FakeApi, name: str) -> dict[str, Any]:
    return next(row for row in status(api)["chain"] if row["link"] == name)


def condition(api: FakeApi) -> dict[str, Any]:
    rows = api.get("nodes", "n1")["status"]["conditions"]
    return next((row for row in rows if row["type"] == names.GPU_READY_CONDITION), {})


def labels(api: FakeApi) -> dict[str, str]:
    found: dict[str, str] = api.get("nodes", "n1")["metadata"]["labels"]
    return found


async def eventually(what: Callable[[], Any], deadline_s: float = 5.0) -> None:
    """For files, which tell nobody."""
    async with asyncio.timeout(deadline_s):
        while not what():
            await asyncio.sleep(0.01)


async def whole(api: FakeApi, machine: Machine) -> None:
    """Bring a started agent to a node whose chain is whole."""
    await api.until(lambda: link(api, "driver")["state"] == "ok")
    machine.write_record()
    await show_gpus(api, machine.count)
    await api.until(lambda: condition(api).get("status") == "True")
    await api.until(lambda: status(api)["columns"]["plugin"] == "ok")
