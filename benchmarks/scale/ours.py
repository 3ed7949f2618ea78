"""gpuready's operator: from a policy to "ready", and what small changes cost.

The driver is on the host, as where the original was measured. Two stand-ins speak for what nobody runs: one
says of each GPUNode what its agent would, one of each DaemonSet what the DaemonSet controller would.

The original calls itself ready as soon as all of its own is written, for DaemonSets without pods count as
ready there. "All of its own written" is the same moment here. "Policy ready" comes after a report of every
node, which the same two cores have to take in here, and which come from the nodes in real life.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

from tests.sim.operator_cluster import (
    DEPLOY,
    GPU_NODES,
    POLICIES,
    POLICY,
    Object,
    Operator,
    labels,
    ready,
)

from benchmarks import processes
from benchmarks.requests import OPERATOR, asked, by_kind
from benchmarks.scale import changes
from benchmarks.scale.nodes import create_nodes
from benchmarks.scale.stage import (
    LABELS,
    READY,
    WRITTEN,
    Cpu,
    Round,
    Stage,
    Value,
    bare_cluster,
    last_of,
    memory,
    patience_s,
)
from benchmarks.scale.stand_ins import StandIns
from gpuready_sim.client import NODES
from gpuready_sim.cluster.control_plane import install_crds

PATIENT = {"GPUREADY_SILENCE_S": "100000"}  # the agents' pods are objects too; nobody restarts them
_ELSEWHERE = {"repository": "registry.example/nvidia", "version": "1.0.0"}
# All operands, the driver on the host: as the sample that the original is measured with. Ours run wherever we
# have one, save for feature labels: agents write them, and none runs here.
EVERYTHING = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": POLICY},
    "spec": {
        "driver": {"enabled": False},
        "dcgm": {"enabled": True, "image": "dcgm", **_ELSEWHERE},
        "gfd": {"image": "k8s-device-plugin", **_ELSEWHERE},
        "migManager": {"image": "k8s-mig-manager", **_ELSEWHERE},
    },
}
AFTER_LAST_OWED_S = 1.0
MEMORY_OWED_MB = {5000: 100.0}
REST_S = 30.0
FULL_REST_S = 600.0
STAND_INS = "gpuready-sim"


async def measure(this: Round) -> list[Value]:
    async with bare_cluster(f"scale-{this.count}") as (cluster, servers):
        await install_crds(cluster.client)
        await create_nodes(cluster.client, this.count)
        async with StandIns(cluster.client, this.count) as agents, Operator(cluster, **PATIENT) as operator:
            await operator.wait_ready(timeout_s=60)
            pid = processes.find("operator", str(cluster.kubeconfig))[0]
            stage = Stage(cluster, this.count, OPERATOR, pid, servers)
            values = await _to_ready(stage, agents)
            if this.last:
                this.run.say("  ready; small changes, and rest")
                values += await _afterwards(stage, this)
            await changes.quiet(stage)
            return values + memory(stage, MEMORY_OWED_MB.get(this.count))


async def _to_ready(stage: Stage, agents: StandIns) -> list[Value]:
    cpu = Cpu(stage)
    start, begin = datetime.now(UTC), time.perf_counter()
    await stage.cluster.apply(EVERYTHING)
    async with asyncio.timeout(patience_s(stage.count)):
        await agents.complete.wait()
    cpu_values = cpu.values(WRITTEN)
    await _all_ready(stage, stage.count)
    ready_s = time.perf_counter() - begin
    cpu_values += cpu.values("ready")
    await _check(stage)
    await changes.quiet(stage)
    lines = asked(stage.cluster, start)
    reports = asked(stage.cluster, start, STAND_INS)
    reported_s = last_of(reports, "patch", "gpunodes/status", stage.count, start)
    written = [line for line in lines if line.is_write and line.fields["resource"] != "clusterpolicies"]
    own_s = max((line.time - start).total_seconds() for line in written)
    return [
        Value(LABELS, [last_of(lines, "patch", "nodes", stage.count, start)], "s"),
        Value("all GPUNodes made", [last_of(lines, "create", "gpunodes", stage.count, start)], "s"),
        Value(WRITTEN, [own_s], "s", note="as the original's ready"),
        Value("policy ready after the last report", [ready_s - reported_s], "s", AFTER_LAST_OWED_S),
        Value(
            READY,
            [ready_s],
            "s",
            note=f"with a report of every node; the stand-ins took {agents.cpu_s:.1f} s of CPU",
        ),
        Value("requests to ready", [len(lines)], note=by_kind(lines, busiest=8)),
        *cpu_values,
    ]


async def _afterwards(stage: Stage, this: Round) -> list[Value]:
    rest_s = FULL_REST_S if this.long_rest else this.run.pick(1.0, REST_S)
    return [
        await changes.repairs(stage),
        await changes.new_node(stage, lambda: _all_ready(stage, stage.count + 1), agents=True),
        await changes.env_edit(stage, POLICY, lambda: ready(stage.cluster)),
        await changes.wake_up(stage, POLICY),
        *await changes.rest(stage, rest_s),
    ]


async def _all_ready(stage: Stage, count: int) -> None:
    """The policy says ready, and speaks of every node."""

    def is_so(policy: Object) -> bool:
        status = policy.get("status") or {}
        nodes = status.get("nodes") or {}
        return status.get("state") == "ready" and (nodes["gpu"], nodes["ready"]) == (count, count)

    await stage.cluster.wait(POLICIES, POLICY, until=is_so, timeout_s=patience_s(count))


async def _check(stage: Stage) -> None:
    nodes, _ = await stage.cluster.client.list(NODES)
    gpu_nodes, _ = await stage.cluster.client.list(GPU_NODES)
    done = sum(labels(node).get(f"{DEPLOY}device-plugin") == "true" for node in nodes)
    if done != stage.count or len(gpu_nodes) != stage.count:
        raise RuntimeError(f"ready with {done} labelled nodes and {len(gpu_nodes)} GPUNodes of {stage.count}")
