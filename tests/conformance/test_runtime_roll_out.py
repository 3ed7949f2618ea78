"""Runtimes are restarted one busy node after the other; the first that does not come back ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.sim.node_cluster import doctor, in_phase, pod, whole
from tests.sim.operator_cluster import (
    DEPLOY,
    GPU_NODES,
    POLICIES,
    POLICY,
    Operator,
    condition,
    edit,
    label,
    link,
    policy,
)

from gpuready_sim.client import NODES, PODS
from gpuready_sim.cluster.handle import Cluster

SPEC = """
nodes:
- {name: a, gpus: {L4: 1}, containerd: 2.2.1}
- {name: b, gpus: {L4: 1}, containerd: 2.2.1}
- {name: c, gpus: {L4: 1}, crio: 1.34.2}
- {name: d, gpus: {L4: 1}, containerd: 1.7.24}
- {name: fresh, gpus: {L4: 1}, containerd: 2.2.1}
nodeGraceSeconds: 2
"""
STOPPED = "RuntimeRestartsStopped"
Object = dict[str, Any]
TOOLKIT = {"enabled": True, "env": [{"name": "GPUREADY_TOOLKIT_RESTART_S", "value": "4"}]}
REFUSES = """\
#!/bin/sh
[ "$1" = serve ] && [ -e '{root}/etc/containerd/conf.d/99-nvidia.toml' ] && exit 1
exec '{program}' "$@"
"""
SLOW = """\
#!/bin/sh
[ "$1" = serve ] && sleep 20
exec '{program}' "$@"
"""


async def test_a_roll_out_over_busy_nodes(state_home: Path) -> None:
    async with Cluster.started(SPEC, operator=False) as cluster, operator_of(cluster) as operator:
        await cluster.apply(
            policy()
        )  # no toolkit yet: containerd 2.x and CRI-O inject CDI devices as they are
        for node in ("a", "b", "c", "fresh"):
            await whole(cluster, node)
        for node in ("a", "b", "c"):
            await cluster.apply(pod(f"training-{node}", node))
            await cluster.wait(PODS, f"training-{node}", "default", until=in_phase("Running"))
        restarts = {node: await runtime_pid(cluster, node) for node in ("a", "b", "c", "fresh")}
        await join(cluster, "b", "c", late=True)
        await wrap(cluster, "a", REFUSES)
        await wrap(cluster, "b", SLOW)

        async with seen(cluster) as at_once:
            await edit(cluster, {"toolkit": TOOLKIT})

            # Nodes without GPU pods at once, whatever happens to the others.
            for node in ("fresh", "d"):
                await cluster.wait(GPU_NODES, node, until=is_done)

            # The first does not come back with it: the others go on working as they are.
            found = await cluster.wait(GPU_NODES, "a", until=says("RuntimeConfigRolledBack"))
            assert link(found, "toolkit")["state"] == "broken"
            await join(cluster, "b", "c")
            held = "the runtime of a did not take the same change"
            for node in ("b", "c"):
                await cluster.wait(GPU_NODES, node, until=is_held(held))
                assert await runtime_pid(cluster, node) == restarts[node]
            said = condition(await cluster.wait(POLICIES, POLICY, until=has(STOPPED)), STOPPED)
            assert said["message"].startswith(
                "2 nodes wait to restart the container runtime (b, c): the runtime of a did not take the same"
            )
            status, told = await doctor(cluster)
            assert status == 1
            assert "2 nodes wait to restart the container runtime (b, c)" in " ".join(told.split())
            assert "gpuready doctor --node a" in " ".join(told.split())

            # Another operator takes it up where it was.
            await operator.kill()
            await operator.start()
            await operator.wait_ready()
            await edit(cluster, {"gpuready": {"toolkit": {"maxUnavailable": 2}}})
            await cluster.wait(POLICIES, POLICY, until=lambda obj: is_current(obj) and has(STOPPED)(obj))
            assert await runtime_pid(cluster, "b") == restarts["b"]
            await edit(cluster, {"gpuready": {"toolkit": {"maxUnavailable": 1}}})

            # Mended: it asks anew, and the next one is b, which loses its power meanwhile.
            await mend(cluster, "a")
            await cluster.wait(GPU_NODES, "a", until=is_done)
            await cluster.wait(GPU_NODES, "b", until=is_granted)
            await cluster.fault("power-off", node="b")
            lost = "b was allowed to restart its runtime and is silent since: the kubelet does not report"
            await cluster.wait(GPU_NODES, "c", until=is_held(lost))
            said = condition(await cluster.wait(POLICIES, POLICY, until=has(STOPPED, lost)), STOPPED)
            assert said["message"].startswith("1 node waits to restart the container runtime (c)")

            # It is back, and finishes what it was allowed to; then c.
            await mend(cluster, "b")
            await cluster.reboot("b")
            for node in ("b", "c"):
                await cluster.wait(GPU_NODES, node, until=is_done)
            await cluster.wait(POLICIES, POLICY, until=lambda obj: not has(STOPPED)(obj))
        assert max(map(len, at_once)) == 1, at_once
        for node in ("a", "c"):
            assert (await cluster.client.get(PODS, f"training-{node}", "default"))["status"][
                "phase"
            ] == "Running"


async def test_as_many_at_a_time_as_the_policy_says(state_home: Path) -> None:
    names = ("a", "b", "c")
    spec = "\n".join(
        ["nodes:", *(f"- {{name: {name}, gpus: {{L4: 1}}, containerd: 2.2.1}}" for name in names)]
    )
    async with Cluster.started(spec, operator=False) as cluster, operator_of(cluster):
        await cluster.apply(policy(gpuready={"toolkit": {"maxUnavailable": "50%"}}))
        for node in names:
            await whole(cluster, node)
            await cluster.apply(pod(f"training-{node}", node))
            await cluster.wait(PODS, f"training-{node}", "default", until=in_phase("Running"))
        await join(cluster, "c", late=True)
        for node in ("a", "b"):
            await wrap(cluster, node, SLOW)

        async with seen(cluster) as at_once:
            await edit(cluster, {"toolkit": TOOLKIT})
            for node in ("a", "b"):
                await cluster.wait(GPU_NODES, node, until=is_granted)
            await join(cluster, "c")
            await cluster.wait(GPU_NODES, "c", until=is_held("a, b first, 2 at a time"))
            assert max(map(len, at_once)) == 2


async def test_a_node_that_left_with_its_grant_holds_up_nobody(state_home: Path) -> None:
    spec = "\n".join(line for line in SPEC.splitlines() if not line.startswith(("- {name: c", "- {name: d")))
    async with Cluster.started(spec, operator=False) as cluster, operator_of(cluster):
        await cluster.apply(policy())
        for node in ("a", "b"):
            await whole(cluster, node)
            await cluster.apply(pod(f"training-{node}", node))
            await cluster.wait(PODS, f"training-{node}", "default", until=in_phase("Running"))
        await join(cluster, "b", late=True)
        await wrap(cluster, "a", SLOW)
        await edit(cluster, {"toolkit": TOOLKIT})
        await cluster.wait(GPU_NODES, "a", until=is_granted)
        await join(cluster, "b")
        await cluster.wait(GPU_NODES, "b", until=is_held("a first, 1 at a time"))
        await cluster.fault("power-off", node="a")

        await cluster.client.delete(NODES, "a")

        await cluster.wait(GPU_NODES, "b", until=is_done)


@asynccontextmanager
async def operator_of(cluster: Cluster) -> AsyncIterator[Operator]:
    async with Operator(cluster, GPUREADY_SILENCE_S="1") as operator:
        await operator.wait_ready()
        yield operator


@asynccontextmanager
async def seen(cluster: Cluster) -> AsyncIterator[list[tuple[str, ...]]]:
    """At every change of a GPUNode: who of the busy ones has been allowed to and is not done."""
    items, version = await cluster.client.list(GPU_NODES)
    now = {item["metadata"]["name"]: item for item in items}
    found: list[tuple[str, ...]] = [()]

    async def follow() -> None:
        async for kind, obj in cluster.client.watch(GPU_NODES, version):
            if kind in ("ADDED", "MODIFIED"):
                now[obj["metadata"]["name"]] = obj
                found.append(tuple(sorted(name for name in now if is_granted(now[name]))))

    task = asyncio.create_task(follow())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def is_granted(obj: Object) -> bool:
    """With GPU pods on it; one that has none may at any time."""
    requests = [row for row in obj.get("status", {}).get("requests") or () if row["workloads"]]
    return bool(requests) and requests[0]["id"] == wish(obj).get("grant")


def is_held(text: str):
    return lambda obj: str(wish(obj).get("heldBy") or "").startswith(text)


def is_done(obj: Object) -> bool:
    return link(obj, "toolkit").get("reason") == "HandlersKnown"


def says(reason: str):
    return lambda obj: link(obj, "toolkit").get("reason") == reason


def has(kind: str, text: str = ""):
    return lambda obj: (
        condition(obj, kind).get("status") == "True" and text in condition(obj, kind)["message"]
    )


def is_current(obj: Object) -> bool:
    return (obj.get("status") or {}).get("observedGeneration") == obj["metadata"]["generation"]


def wish(obj: Object) -> Object:
    return (obj.get("spec") or {}).get("toolkit") or {}


async def join(cluster: Cluster, *nodes: str, late: bool = False) -> None:
    """late: opted out until they join, so that another one goes first."""
    for node in nodes:
        await label(cluster, node, f"{DEPLOY}container-toolkit", "false" if late else None)


async def runtime_pid(cluster: Cluster, node: str) -> str:
    run = cluster.node_root(node) / "run"
    return next(path.read_text() for path in (run / "containerd.pid", run / "crio.pid") if path.exists())


async def wrap(cluster: Cluster, node: str, text: str) -> None:
    root = cluster.node_root(node)
    program = root / "usr/bin/containerd"
    works = program.rename(program.with_name("containerd-that-works"))
    program.write_text(text.format(root=root, program=works))
    program.chmod(0o755)


async def mend(cluster: Cluster, node: str) -> None:
    """Another program, and a file that has changed: what was rolled back on the old one is tried anew."""
    root = cluster.node_root(node)
    (root / "usr/bin/containerd-that-works").replace(root / "usr/bin/containerd")
    config = root / "etc/containerd/config.toml"
    config.write_text(config.read_text() + "# mended\n")
