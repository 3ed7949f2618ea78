"""One operator under measurement on one API server, and the values that come of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from benchmarks import processes
from benchmarks.harness import Run
from gpuready_sim.client import SERVICE_ACCOUNTS
from gpuready_sim.cluster.control_plane import (
    OPERATOR_NAMESPACE,
    ControlPlane,
    EmbeddedControlPlane,
    create_namespace,
)
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.cluster.places import Place
from gpuready_sim.cluster.processes import ensure_native
from gpuready_sim.kubernetes import assets
from gpuready_sim.kubernetes.control_plane import KubernetesControlPlane
from gpuready_sim.request_log import RequestLine

LABELS, WRITTEN, READY = "all labels", "all of its own written", "policy ready"
SERVERS = ("apiserver", "kube-apiserver", "etcd")


@dataclass(frozen=True)
class Value:
    """What one round found for one figure; `numbers` is empty where something never came."""

    name: str
    numbers: Sequence[float]
    unit: str = ""
    owed: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Round:
    """
    last        small changes and rest are looked at, too
    long_rest   rest is looked at for as long as DESIGN §10 says
    """

    count: int
    run: Run
    last: bool
    long_rest: bool = False


@dataclass(frozen=True)
class Stage:
    """
    count     nodes
    client    the operator, as the request log calls it
    pid       its process
    servers   pids by name: kube-apiserver and etcd, or the simulator's API server
    """

    cluster: Cluster
    count: int
    client: str
    pid: int
    servers: Mapping[str, int]


def patience_s(count: int) -> float:
    """How long to wait for so many nodes on a machine that has a tenth of itself to give."""
    return 120 + count / 2


@asynccontextmanager
async def bare_cluster(name: str) -> AsyncIterator[tuple[Cluster, dict[str, int]]]:
    """An API server with our namespace, where nothing acts on nodes or DaemonSets; with its pids."""
    await asyncio.to_thread(ensure_native)
    place = Place.of(name)
    place.clean()
    server = _control_plane(place)
    await server.start()
    try:
        async with Cluster.attached_to(place) as cluster:
            await create_namespace(cluster.client, OPERATOR_NAMESPACE)
            if is_real():  # it refuses pods until their namespace has its default account
                await cluster.wait(SERVICE_ACCOUNTS, "default", OPERATOR_NAMESPACE)
            launched = {name: pid for name, pid in server.processes if pid and name in SERVERS}
            yield cluster, {name: processes.child_of(pid) for name, pid in launched.items()}
    finally:
        await server.stop()
        place.remove()


def is_real() -> bool:
    return all(assets.find(name) is not None for name in assets.CONTROL_PLANE)


def _control_plane(place: Place) -> ControlPlane:
    if is_real():
        return KubernetesControlPlane(place, node_grace_s=100_000, controllers="serviceaccount-controller")
    return EmbeddedControlPlane(place)


# --- CPU and memory -------------------------------------------------------------------------------------


class Cpu:
    """CPU seconds of the operator and of the servers since the clock was started."""

    def __init__(self, stage: Stage) -> None:
        self._pids = {"operator": stage.pid, **stage.servers}
        self._before = self._now()

    def values(self, until: str) -> list[Value]:
        now = self._now()
        spent = {name: now[name] - self._before[name] for name in self._pids}
        each = [Value(f"{name}, CPU to {until}", [seconds], "s") for name, seconds in spent.items()]
        return [*each, Value(f"all of them, CPU to {until}", [sum(spent.values())], "s")]

    def _now(self) -> dict[str, float]:
        return {name: processes.cpu_s(pid) for name, pid in self._pids.items()}


def memory(stage: Stage, owed_mb: float | None = None) -> list[Value]:
    found = processes.memory(stage.pid)
    note = f"Pss {found.pss_mb:.0f}, peak {processes.peak_mb(stage.pid):.0f}"
    servers = {name: processes.memory(pid).rss_mb for name, pid in stage.servers.items()}
    return [
        Value("operator, Rss", [found.rss_mb], "MB", owed_mb, note),
        *(Value(f"{name}, Rss", [rss_mb], "MB") for name, rss_mb in servers.items()),
    ]


# --- the request log ------------------------------------------------------------------------------------


def last_of(lines: Sequence[RequestLine], verb: str, resource: str, count: int, start: datetime) -> float:
    """Seconds after `start` at which the last of `count` objects had its first such request answered."""
    first: dict[str, float] = {}
    for line in lines:
        if (line.fields["verb"], line.what) == (verb, resource) and line.fields["code"] < 300:
            first.setdefault(line.name, (line.time - start).total_seconds())
    if len(first) < count:
        raise RuntimeError(f"only {len(first)} times {verb} {resource} for {count} nodes")
    return max(first.values())
