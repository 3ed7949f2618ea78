"""A cluster that has all it wants: memory, CPU and writes while nothing changes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.sim.operator_cluster import edit, ready
from tests.sim.operator_cluster import processes as processes_on

from benchmarks import processes
from benchmarks.figures import Figure
from benchmarks.harness import Run
from benchmarks.requests import AGENT, DETAILS_S, OPERATOR, asked, by_kind, until_quiet
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.scenarios.examples import example

OURS = (OPERATOR, AGENT)
WITH_8_GPUS = ("a100", "h100")
# Several windows, so that one hiccup of the machine does not decide.
WINDOWS = 3


@dataclass(frozen=True)
class Owed:
    memory_mb: float | None
    cpu_percent: float | None


ROLES: Mapping[str, Owed] = {
    "operator": Owed(None, 0.1),
    "node-agent": Owed(60, 0.1),
    "device-plugin": Owed(35, 0.1),
}


async def measure(run: Run) -> list[Figure]:
    async with Cluster.started(example("cluster-demo.yaml")) as cluster:
        await cluster.apply(example("clusterpolicy-sharing.yaml"))
        await ready(cluster)
        await until_quiet(cluster)
        pids = _pids(cluster)
        await asyncio.sleep(run.pick(0, 5))
        memory = _memory(pids)
        rest = await _rest(cluster, pids, run)
        return [*memory, *rest, await _env_edit(cluster)]


def _pids(cluster: Cluster) -> dict[str, list[int]]:
    """By role; agents and plugins of the nodes that have eight GPUs."""
    operator = processes.find("operator", str(cluster.kubeconfig.with_name("operator.kubeconfig")))
    daemons = {
        role: [pid for node in WITH_8_GPUS for pid in processes_on(cluster, node, role)]
        for role in ("node-agent", "device-plugin")
    }
    found = {"operator": operator, **daemons}
    missing = [role for role, pids in found.items() if not pids]
    if missing:
        raise RuntimeError(f"no process runs as {', '.join(missing)}")
    return found


def _memory(pids: Mapping[str, list[int]]) -> list[Figure]:
    figures, per_node = [], [0.0] * len(WITH_8_GPUS)
    for role, owed in ROLES.items():
        found = [processes.memory(pid) for pid in pids[role]]
        figures.append(Figure(f"{role}, Rss", [each.rss_mb for each in found], "MB", owed=owed.memory_mb))
        figures.append(Figure(f"{role}, Pss", [each.pss_mb for each in found], "MB"))
        if role != "operator":
            per_node = [sum(pair) for pair in zip(per_node, (each.rss_mb for each in found), strict=True)]
    return [*figures, Figure("all daemons of a node, Rss", per_node, "MB", owed=200)]


async def _rest(cluster: Cluster, pids: Mapping[str, list[int]], run: Run) -> list[Figure]:
    window_s = run.pick(1.0, 20.0, 200.0)
    run.say(f"  {WINDOWS} windows of {window_s:g} s in which nothing happens")
    start = datetime.now(UTC)
    shares: dict[str, list[float]] = {role: [] for role in pids}
    for _ in range(WINDOWS):
        before = {pid: processes.cpu_s(pid) for each in pids.values() for pid in each}
        await asyncio.sleep(window_s)
        for role, each in pids.items():
            shares[role] += [(processes.cpu_s(pid) - before[pid]) / window_s * 100 for pid in each]
    idle = [Figure(f"{role}, idle CPU", shares[role], "%", owed=ROLES[role].cpu_percent) for role in pids]
    return [*idle, *_writes(cluster, start, WINDOWS * window_s)]


def _writes(cluster: Cluster, start: datetime, window_s: float) -> list[Figure]:
    by_client = Counter(line.fields["client"] for line in cluster.requests(writes_only=True, since=start))
    others = {client: count for client, count in by_client.items() if client not in OURS}
    note = "the simulator's own: " + (", ".join(f"{k} {v}" for k, v in sorted(others.items())) or "none")
    name = f"writes of a converged cluster in {_span(window_s)}"
    return [
        Figure(f"{name}, {client.removeprefix('gpuready-')}", [by_client[client]], "", owed=0, note=note)
        for client in OURS
    ]


def _span(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"


async def _env_edit(cluster: Cluster) -> Figure:
    """Everything the operator asks of the API server because of one line in the policy."""
    start = await until_quiet(cluster)
    await edit(cluster, {"devicePlugin": {"env": [{"name": "TEAM", "value": "ml"}]}})
    await ready(cluster)
    await until_quiet(cluster, DETAILS_S)
    lines = asked(cluster, start)
    return Figure("operator's requests for one env edit", [len(lines)], "", owed=4, note=by_kind(lines))
