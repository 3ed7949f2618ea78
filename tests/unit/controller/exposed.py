"""The operator's /metrics without an operator: real caches over an API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.unit.controller.fake_api import FakeApi

from gpuready import names
from gpuready.api.policy import parse_policy
from gpuready.controller.caches import Caches
from gpuready.controller.loop import Loop
from gpuready.controller.metrics import Metrics

Object = dict[str, Any]
Labels = frozenset[tuple[str, str]]
CHAIN = ("discovery", "driver", "device-plugin")


def node(name: str, *, silent: bool = False, gpu: bool = True, **labels: str) -> Object:
    present = {names.GPU_PRESENT: "true"} if gpu else {}
    condition = {"type": "GPUReady", "status": "Unknown", "reason": "AgentSilent"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {**present, **labels}},
        "status": {"conditions": [condition] if silent else []},
    }


def gpu_node(name: str, *, gpus: int = 8, healthy: int | None = None, **broken: str) -> Object:
    """`broken`: link (with _ for -) -> reason; the other links are whole."""
    by_link = {link.replace("_", "-"): reason for link, reason in broken.items()}
    chain = [
        {"link": link, "state": "broken" if link in by_link else "ok", "reason": by_link.get(link, "Fine")}
        for link in CHAIN
    ]
    status = {"chain": chain, "gpus": gpus, "healthy": gpus if healthy is None else healthy}
    return {"metadata": {"name": name, "uid": f"gpu-{name}"}, "status": status}


def policy(state: str = "ready", reason: str = "Ready", *operands: Object, **nodes: int) -> Object:
    status = {
        "state": state,
        "operands": list(operands),
        "nodes": nodes,
        "conditions": [{"type": "Error", "status": "False", "reason": reason}],
    }
    return {"metadata": {"name": "cluster-policy", "uid": "u"}, "spec": {}, "status": status}


def operand(name: str, desired: int = 2, ready: int = 2, **more: Any) -> Object:
    row = {"name": name, "enabled": True, "state": "ready", "reason": "Ready", "flavour": "own"}
    return {**row, "desired": desired, "ready": ready, **more}


class Keys(Loop):
    """Does what the key says: "ok", or the exception that is registered under it."""

    def __init__(self, name: str = "policy") -> None:
        super().__init__(name)
        self.raises: dict[str, Exception] = {}
        self.inside = asyncio.Event()
        self.go_on = asyncio.Event()
        self.last_ready: float | None = None

    async def reconcile(self, key: str) -> None:
        self.inside.set()
        await self.go_on.wait()
        if key in self.raises:
            raise self.raises[key]


class Rig:
    """`rows()` is what a scrape shows: name -> labels -> value."""

    def __init__(self, **objects: list[Object]) -> None:
        self.api = FakeApi(**objects)
        client: Any = self.api
        self.caches = Caches.of(client, "gpu-operator")
        self.loop: Any = Keys()
        self.current: Any = SimpleNamespace(active=None, effective=None)
        if policies := objects.get("clusterpolicies"):
            self.current.active = SimpleNamespace(raw=policies[0])
            self.current.effective = parse_policy(policies[0])
        self.metrics = Metrics(client, self.caches, self.current, self.loop, [self.loop], clock=lambda: 77.0)

    def text(self) -> str:
        return self.metrics.exposition().decode()

    def rows(self) -> dict[str, dict[Labels, float]]:
        found: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(self.text()):
            for sample in family.samples:
                found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        return found

    def value(self, name: str, **labels: str) -> float | None:
        return self.rows().get(name, {}).get(frozenset(labels.items()))

    def counters(self) -> Mapping[tuple[str, Labels], float]:
        families = text_string_to_metric_families(self.text())
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            if family.type in ("counter", "histogram")
            for sample in family.samples
            if not sample.name.endswith("_created")
        }


@asynccontextmanager
async def scraped(**objects: list[Object]) -> AsyncIterator[Rig]:
    """objects by plural: nodes, gpunodes, clusterpolicies …"""
    rig = Rig(**objects)
    task = asyncio.create_task(rig.caches.run())
    try:
        await asyncio.wait_for(rig.caches.wait_synced(), 30)
        while not all(cache.connected for cache in rig.caches.all):
            await asyncio.sleep(0)
        yield rig
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def everything() -> dict[str, list[Object]]:
    """A cluster in which every metric has at least one row."""
    return {
        "nodes": [node("whole"), node("ill"), node("silent", silent=True), node("new")],
        "gpunodes": [
            gpu_node("whole"),
            gpu_node("ill", healthy=7, driver="DriverLibraryMismatch"),
            gpu_node("silent"),
        ],
        "clusterpolicies": [policy("ready", "Ready", operand("driver"), undiscovered=1)],
    }
