"""The cluster that is shaken: nodes with GPUs, all programs behind a proxy; what is wished of it and seen."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.sim.fault_cluster import removed, server_certificate
from tests.sim.faulty_proxy import FaultyProxy
from tests.sim.node_cluster import FAST, gpu_node, whole
from tests.sim.operator_cluster import (
    NAMESPACE,
    POLICIES,
    POLICY,
    SETTLED_S,
    Object,
    Operator,
    policy,
    processes,
    quiet,
    ready,
)

from gpuready_sim.client import ApiStatus
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.cluster.places import free_port

from .end_state import EndState, differences, end_state
from .growth import Usage, usage_of

ROLES = ("node-agent", "device-plugin", "toolkit", "exporter")
PATIENCE_S = 150.0  # a refused write is tried again after half a minute, a hung one given up after as long
SHARING: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "sharing", "namespace": NAMESPACE},
    "data": {
        "halves": "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n"
    },
}
_WHOLE = {"toolkit": {"enabled": True}, "dcgmExporter": {"enabled": True}}
ABSENT = "absent"
WISHES: Mapping[str, Mapping[str, Any]] = {
    "plain": _WHOLE,
    "shared": {**_WHOLE, "plugin": {"config": {"name": "sharing", "default": "halves"}}},
    "labelled": {**_WHOLE, "daemonsets": {"labels": {"team": "ml"}, "annotations": {"team": "ml"}}},
    "without toolkit": {**_WHOLE, "toolkit": {"enabled": False}},
}
SHARES = {"shared": 2}
_ENV = [{"name": name, "value": value} for name, value in FAST.items()]


def _is_shared(gpu_node: Object, shares: int) -> bool:
    """Every GPU, by so many: nobody writes for a while when a plugin takes up a configuration."""
    devices = (gpu_node.get("status") or {}).get("devices") or ()
    return bool(devices) and {row.get("replicas") or 1 for row in devices} == {shares}


class Scene:
    def __init__(self, cluster: Cluster, proxy: FaultyProxy, operator: Operator, nodes: list[str]) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.operator = operator
        self.nodes = nodes
        self.one_at_a_time = asyncio.Lock()  # for what has a beginning and an end
        self._read: dict[Path, int] = {}

    # --- what is asked ----------------------------------------------------------------------------------

    async def wish(self, name: str) -> None:
        """The policy of this name, or none; whatever the API server goes through at that moment."""
        await insist(lambda: self._wish(name))

    async def _wish(self, name: str) -> None:
        if name == ABSENT:
            await self.cluster.client.delete(POLICIES, POLICY)
            return
        spec = dict(WISHES[name])
        plugin = {"env": _ENV, **spec.pop("plugin", {})}
        await self.cluster.apply(SHARING, policy(devicePlugin=plugin, **spec))

    # --- what is seen -----------------------------------------------------------------------------------

    async def end_state(self) -> EndState:
        return await end_state(self.cluster, self.nodes)

    async def end_of(self, wish: str) -> EndState:
        """Wish it, and wait for what a user waits for."""
        await self.wish(wish)
        if wish == ABSENT:
            await removed(self.cluster, self.nodes)
        else:
            await ready(self.cluster)
            for node in self.nodes:
                await gpu_node(self.cluster, node, lambda found: _is_shared(found, SHARES.get(wish, 1)))
                await whole(self.cluster, node)
        return await self.at_rest()

    async def at_rest(self) -> EndState:
        """Once nothing of ours has written for longer than any of it waits with a write."""
        await quiet(self.cluster, SETTLED_S, timeout_s=PATIENCE_S)
        return await self.end_state()

    async def until_as(self, want: EndState) -> None:
        """At rest, and as in the undisturbed run."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                wrong = differences(want, await self.end_state()) or differences(want, await self.at_rest())
            except ApiStatus as exc:
                wrong = [str(exc)]
            if not wrong:
                return
            assert time.monotonic() < deadline, "\n".join(["not as in the undisturbed run:", *wrong[:40]])
            await asyncio.sleep(0.3)

    def daemons(self) -> dict[str, list[int]]:
        """ "device-plugin on l4" -> pids; the operator among them."""
        found = {
            f"{role} on {node}": processes(self.cluster, node, role) for node in self.nodes for role in ROLES
        }
        return {"operator": [self.operator.pid], **{name: pids for name, pids in found.items() if pids}}

    def usage(self) -> dict[str, Usage]:
        return {
            name: usage_of(min(pids))
            for name, pids in {**self.daemons(), "simulator": [self._simulator()]}.items()
        }

    def _simulator(self) -> int:
        assert self.cluster.supervisor_pid is not None
        children = Path(f"/proc/{self.cluster.supervisor_pid}/task").glob("*/children")
        return int(next(iter(children)).read_text().split()[0])

    def tracebacks(self) -> list[str]:
        """In what any program has written to its log since the last call."""
        return [f"{path}: {text}" for path in self._logs() for text in self._tracebacks_in(path)]

    def _logs(self) -> Iterator[Path]:
        yield from self.cluster.place.logs.rglob("*.log")
        for node in self.nodes:
            yield from (self.cluster.node_root(node) / "var/log/pods").rglob("*.log")

    def _tracebacks_in(self, path: Path) -> Iterator[str]:
        start = self._read.get(path, 0)
        try:
            text = path.read_bytes()[start:].decode(errors="replace")
        except OSError:
            return  # of a pod that is gone
        self._read[path] = start + len(text.encode())
        if "Traceback" in text:
            yield text[text.index("Traceback") :][:3000]


def tell(text: str) -> None:
    print(text, flush=True)  # noqa: T201, the story, to be told again


async def insist(ask: Any) -> Any:
    """Again and again, while the API server is away or busy."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await ask()
            except (ApiStatus, OSError):
                await asyncio.sleep(0.2)


@asynccontextmanager
async def scene(rows: Mapping[str, str]) -> AsyncIterator[Scene]:
    """rows: name of a node -> the rest of its line in cluster.yaml."""
    port = free_port()
    lines = [f"- {{name: {name}, {rest}}}" for name, rest in rows.items()]
    spec = "\n".join([f"podApi: 127.0.0.1:{port}", "nodes:", *lines, ""])
    async with Cluster.started(spec, operator=False) as cluster:
        certificate = server_certificate(cluster)
        key = certificate.with_suffix(".key")
        async with FaultyProxy.in_front_of(cluster.kubeconfig, certificate, key, port) as proxy:
            kubeconfig = proxy.kubeconfig_for(cluster.kubeconfig, cluster.place.directory / "proxied")
            async with Operator(cluster, kubeconfig) as operator:
                await operator.wait_ready()
                yield Scene(cluster, proxy, operator, list(rows))


def budget_s() -> float:
    """How long all of it may take: SOAK_S."""
    return float(os.environ.get("SOAK_S") or 180)
