"""Our client against the simulated API server: TLS, CRDs, apply, Events, a watch across a restart."""

from __future__ import annotations

import asyncio
import copy
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gpuready.api import crd
from gpuready.api.gpunode import GPUNode, decode_gpu_node
from gpuready.api.policy import parse_policy
from gpuready.errors import GPUReadyError
from gpuready.kube import errors
from gpuready.kube.apply import Applier, Change
from gpuready.kube.cache import WatchCache
from gpuready.kube.client import KubeClient
from gpuready.kube.events import WARNING, EventRecorder
from gpuready.kube.resources import CLUSTER_POLICIES, CRDS, DAEMONSETS, EVENTS, GPU_NODES, NODES
from gpuready.kube.trimmed import Node, decode_node

DEADLINE_S = 60.0


class ApiServer:
    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._data = folder / "data"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        options = ["--data", self._data, "--port", self._port, "--kubeconfig", self.kubeconfig]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gpuready_sim.apiserver", *map(str, options)
        )
        async with asyncio.timeout(DEADLINE_S):
            while not await self._answers():
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()
            self._process = None

    async def _answers(self) -> bool:
        if not self.kubeconfig.exists():
            return False
        try:
            async with self.client() as client:
                await client.raw("GET", "/readyz")
        except GPUReadyError:
            return False
        return True

    def client(self) -> KubeClient:
        return KubeClient.from_kubeconfig(str(self.kubeconfig), user_agent="gpuready-test")


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiServer]:
    server = ApiServer(tmp_path)
    await server.start()
    yield server
    await server.stop()


def daemonset(image: str = "own:1") -> dict[str, Any]:
    container = {
        "name": "main",
        "image": image,
        "env": [{"name": "EMPTY", "value": ""}],
        "resources": {"limits": {"cpu": "1000m"}},
        "ports": [{"containerPort": 80}],
    }
    spec = {"containers": [container], "tolerations": [{"operator": "Exists"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": spec},
        },
    }


async def test_our_crds_are_taken_and_keep_what_belongs_there(api: ApiServer) -> None:
    async with api.client() as client:
        for each in crd.all_crds():
            await client.apply(CRDS, each)

        policy = await client.create(
            CLUSTER_POLICIES, {"metadata": {"name": "p"}} | kind_of(CLUSTER_POLICIES)
        )
        assert parse_policy(policy) == parse_policy(
            {**policy, "spec": {}}
        )  # defaults mean what absence means
        wrong = {"metadata": {"name": "q"}, "spec": {"mig": {"strategy": "both"}}} | kind_of(CLUSTER_POLICIES)
        with pytest.raises(errors.Invalid, match=r"spec\.mig\.strategy"):
            await client.create(CLUSTER_POLICIES, wrong)

        plugin = {"enabled": True, "config": {"sharing": {"timeSlicing": {"resources": []}}}}
        await client.create(
            GPU_NODES, {"metadata": {"name": "n1"}, "spec": {"devicePlugin": plugin}} | kind_of(GPU_NODES)
        )
        await client.merge_patch(GPU_NODES, "n1", {"status": {"gpus": 8}}, subresource="status")
        cache: WatchCache[GPUNode] = WatchCache(client, GPU_NODES, decode=decode_gpu_node)
        await watched(cache, lambda: cache.synced)
        found = cache.get("n1")
        assert found is not None
        assert found.status.gpus == 8
        assert found.spec.device_plugin.config == plugin["config"]


def kind_of(resource: Any) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind}


async def watched(cache: WatchCache[Any], condition: Any) -> None:
    """Run the cache until the condition holds."""
    moved = asyncio.Event()
    cache.add_handler(lambda old, new: moved.set())
    task = asyncio.create_task(cache.run())
    try:
        async with asyncio.timeout(DEADLINE_S):
            await cache.wait_synced()
            while not condition():
                moved.clear()
                await moved.wait()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_an_object_of_the_original_is_taken_over_and_its_leftovers_go(api: ApiServer) -> None:
    old = copy.deepcopy(daemonset())
    old["spec"]["template"]["spec"]["containers"][0]["args"] = ["left over"]
    async with api.client() as client:
        await client.apply(DAEMONSETS, old, field_manager="gpu-operator")
        applier = Applier(client)

        done = await applier.apply(DAEMONSETS, daemonset(), await client.get(DAEMONSETS, "d", "default"))
        live = await client.get(DAEMONSETS, "d", "default")
        assert done.change is Change.TAKEN_OVER
        assert "args" not in live["spec"]["template"]["spec"]["containers"][0]
        assert [each["manager"] for each in live["metadata"]["managedFields"]] == ["gpuready"]

        assert (await Applier(client).apply(DAEMONSETS, daemonset(), live)).change is Change.NONE

        hand_edited = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "hand:1"}]
        await client.json_patch(DAEMONSETS, "d", hand_edited, "default")
        repaired = await applier.apply(DAEMONSETS, daemonset(), await client.get(DAEMONSETS, "d", "default"))
        assert repaired.change is Change.REPAIRED
        assert [each.live for each in repaired.differences] == ["hand:1"]


async def test_a_repeated_event_is_one_object_with_a_count(api: ApiServer) -> None:
    node = {"metadata": {"name": "n1"}} | kind_of(NODES)
    async with api.client() as client:
        recorder = EventRecorder(client, "gpuready-test")
        for _ in range(3):
            await recorder.event(node, WARNING, "DeviceUnhealthy", "GPU-1: XID 79")
        events, _ = await client.list(EVENTS, "default")

    assert [(each["reason"], each["count"]) for each in events] == [("DeviceUnhealthy", 3)]


async def test_a_restart_of_the_api_server_costs_the_cache_nothing_but_time(api: ApiServer) -> None:
    async with api.client() as client:
        await client.create(NODES, {"metadata": {"name": "before"}} | kind_of(NODES))
        cache: WatchCache[Node] = WatchCache(client, NODES, decode=decode_node)
        told: list[str] = []
        cache.add_handler(lambda old, new: told.append((new or old).metadata.name))  # type: ignore[union-attr]

        async def restart() -> None:
            await cache.wait_synced()
            await api.stop()
            assert cache.keys() == ["before"]
            await api.start()
            await client.create(NODES, {"metadata": {"name": "after"}} | kind_of(NODES))

        restarting = asyncio.create_task(restart())
        await watched(cache, lambda: "after" in cache.keys())  # noqa: SIM118
        await restarting

    assert told == ["before", "after"]
