"""The operator on many nodes: its process and the API server are real, the nodes are objects.

As the original was measured (nodes as NFD labels them, driver disabled, no kubelets), with two stand-ins for
what nobody runs here: one says of each GPUNode what its agent would, one of each DaemonSet what the
DaemonSet controller would. The API server is kube-apiserver where it was built (`make kubernetes`), else the
simulator's. In the same run the same nodes are labelled the original's way: one patch after another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from tests.sim.operator_cluster import (
    DEPLOY,
    GPU_NODES,
    POLICIES,
    POLICY,
    Object,
    Operator,
    edit,
    labels,
    policy,
    ready,
)

from benchmarks import processes
from benchmarks.fake_nodes import PATCH_AS_THE_ORIGINAL, StandIns, create_nodes, node_name
from benchmarks.figures import Figure
from benchmarks.harness import Run
from benchmarks.requests import DETAILS_S, asked, by_kind, until_quiet
from gpuready_sim.client import NODES, SERVICE_ACCOUNTS
from gpuready_sim.cluster.control_plane import (
    OPERATOR_NAMESPACE,
    ControlPlane,
    EmbeddedControlPlane,
    create_namespace,
    install_crds,
)
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.cluster.places import Place
from gpuready_sim.cluster.processes import ensure_native
from gpuready_sim.kubernetes import assets
from gpuready_sim.kubernetes.control_plane import KubernetesControlPlane
from gpuready_sim.request_log import RequestLine

SAMPLE = 200  # nodes patched one after another
REPAIRS = 5
API_SERVERS = ("apiserver", "kube-apiserver")
PATIENT = {"GPUREADY_SILENCE_S": "100000"}  # the agents' pods are objects too; nobody restarts them
# all labels, policy ready: what the original took with its real API server, from reference/real-parts.md
ORIGINAL = {100: (0.67, 3.8), 1000: (6.3, 9.4), 5000: (42.5, 46.5)}
READY_OWED_S = {1000: 4.0}
MEMORY_OWED_MB = {5000: 100.0}
REPAIR_OWED_S = 1.0
REQUESTS_OWED = 4


async def measure(run: Run) -> list[Figure]:
    figures = []
    for count in run.pick((20,), (100, 1000), (100, 1000, 5000)):
        figures += await _at(count, run)
    return figures


async def _at(count: int, run: Run) -> list[Figure]:
    run.say(f"  {count} nodes, {'kube-apiserver' if _is_real() else 'the API server of the simulator'}")
    async with _bare_cluster(f"scale-{count}") as (cluster, api_pid):
        await create_nodes(cluster.client, count)
        one_s = await _one_after_another(cluster, min(count, SAMPLE))
        async with StandIns(cluster.client), Operator(cluster, **PATIENT) as operator:
            await operator.wait_ready()
            pid = processes.find("operator", str(cluster.kubeconfig))[0]
            figures = await _from_policy_to_ready(cluster, count, pid, api_pid, one_s)
            run.say("  ready; repairs, one new node, one env edit")
            figures.append(await _repairs(cluster, count))
            figures.append(await _new_node(cluster, count))
            figures.append(await _env_edit(cluster, count))
            figures += await _memory(cluster, count, pid)
        return figures


@asynccontextmanager
async def _bare_cluster(name: str) -> AsyncIterator[tuple[Cluster, int]]:
    """An API server that serves our kinds, and nothing that acts on nodes or DaemonSets; with its pid."""
    await asyncio.to_thread(ensure_native)
    place = Place.of(name)
    place.clean()
    server = _control_plane(place)
    await server.start()
    try:
        async with Cluster.attached_to(place) as cluster:
            await install_crds(cluster.client)
            await create_namespace(cluster.client, OPERATOR_NAMESPACE)
            await _wait_for_account(cluster)
            launcher = next(pid for name, pid in server.processes if name in API_SERVERS)
            assert launcher is not None
            yield cluster, processes.child_of(launcher)
    finally:
        await server.stop()
        place.remove()


def _control_plane(place: Place) -> ControlPlane:
    if _is_real():
        return KubernetesControlPlane(place, node_grace_s=100_000, controllers="serviceaccount-controller")
    return EmbeddedControlPlane(place)


def _is_real() -> bool:
    return all(assets.find(name) is not None for name in assets.CONTROL_PLANE)


async def _wait_for_account(cluster: Cluster) -> None:
    """A real API server refuses pods until their namespace has its default account."""
    if _is_real():
        await cluster.wait(SERVICE_ACCOUNTS, "default", OPERATOR_NAMESPACE)


async def _one_after_another(cluster: Cluster, count: int) -> float:
    """Seconds for one node's labels when each patch waits for the answer to the one before."""
    names = [node_name(number) for number in range(count)]
    start = time.perf_counter()
    for name in names:
        await cluster.client.merge_patch(NODES, name, PATCH_AS_THE_ORIGINAL)
    taken = time.perf_counter() - start
    undo = {"metadata": {"labels": dict.fromkeys(PATCH_AS_THE_ORIGINAL["metadata"]["labels"])}}
    for name in names:
        await cluster.client.merge_patch(NODES, name, undo)
    return taken / count


# --- from a policy to a status --------------------------------------------------------------------------


async def _from_policy_to_ready(
    cluster: Cluster, count: int, pid: int, api_pid: int, one_s: float
) -> list[Figure]:
    operator_cpu, server_cpu = processes.cpu_s(pid), processes.cpu_s(api_pid)
    start, begin = datetime.now(UTC), time.perf_counter()
    await cluster.apply(policy(driver={"enabled": False}, gfd={"enabled": False}))
    await _all_ready(cluster, count, timeout_s=60 + count / 10)
    ready_s = time.perf_counter() - begin
    operator_cpu, server_cpu = processes.cpu_s(pid) - operator_cpu, processes.cpu_s(api_pid) - server_cpu
    await _check(cluster, count)
    await until_quiet(cluster)
    lines = asked(cluster, start)
    labelled_s = _last(lines, "patch", "nodes", count, start)
    made_s = _last(lines, "create", "gpunodes", count, start)
    known = ORIGINAL.get(count)
    of_the_original = [f"original: {each:g} s" for each in known or ()] or [""] * 2
    one_by_one_s = one_s * count
    server = "kube-apiserver's" if _is_real() else "simulated API server's"
    return [
        Figure(f"{count} nodes: all labels", [labelled_s], "s", note=of_the_original[0]),
        Figure(
            f"{count} nodes: all labels / patched one by one",
            [labelled_s / one_by_one_s],
            "",
            owed=0.5,
            note=f"one by one, as the original does: {one_by_one_s:.1f} s",
        ),
        Figure(f"{count} nodes: all GPUNodes made", [made_s], "s"),
        Figure(
            f"{count} nodes: policy ready",
            [ready_s],
            "s",
            owed=READY_OWED_S.get(count),
            note=of_the_original[1],
        ),
        Figure(f"{count} nodes: operator's CPU to ready", [operator_cpu], "s"),
        Figure(f"{count} nodes: {server} CPU to ready", [server_cpu], "s"),
        Figure(f"{count} nodes: operator's requests to ready", [len(lines)], "", note=by_kind(lines)),
    ]


async def _all_ready(cluster: Cluster, count: int, *, timeout_s: float) -> None:
    """The policy says ready, and speaks of every node."""

    def is_so(policy: Object) -> bool:
        status = policy.get("status") or {}
        return status.get("state") == "ready" and (status["nodes"]["gpu"], status["nodes"]["ready"]) == (
            count,
            count,
        )

    await cluster.wait(POLICIES, POLICY, until=is_so, timeout_s=timeout_s)


async def _check(cluster: Cluster, count: int) -> None:
    nodes, _ = await cluster.client.list(NODES)
    gpu_nodes, _ = await cluster.client.list(GPU_NODES)
    done = sum(labels(node).get(f"{DEPLOY}device-plugin") == "true" for node in nodes)
    if done != count or len(gpu_nodes) != count:
        raise RuntimeError(f"ready with {done} labelled nodes and {len(gpu_nodes)} GPUNodes of {count}")


# --- small changes --------------------------------------------------------------------------------------


async def _repairs(cluster: Cluster, count: int) -> Figure:
    taken = []
    key = f"{DEPLOY}device-plugin"
    for number in range(REPAIRS):
        name = node_name(number)
        removed = await cluster.client.merge_patch(NODES, name, {"metadata": {"labels": {key: None}}})
        begin = time.perf_counter()
        version = removed["metadata"]["resourceVersion"]
        only = f"metadata.name={name}"
        async for _, node in cluster.client.watch(NODES, version, field_selector=only):
            if labels(node).get(key) == "true":
                break
        taken.append(time.perf_counter() - begin)
    return Figure(
        f"{count} nodes: removed label is back", taken, "s", owed=REPAIR_OWED_S, note="original: never"
    )


async def _new_node(cluster: Cluster, count: int) -> Figure:
    start = await until_quiet(cluster)
    await create_nodes(cluster.client, 1, first=count)
    await _all_ready(cluster, count + 1, timeout_s=60)
    await until_quiet(cluster, DETAILS_S)
    return _requests(cluster, start, f"{count} nodes: requests for one new node", "147")


async def _env_edit(cluster: Cluster, count: int) -> Figure:
    start = await until_quiet(cluster)
    await edit(cluster, {"devicePlugin": {"env": [{"name": "TEAM", "value": "ml"}]}})
    await ready(cluster)
    await until_quiet(cluster, DETAILS_S)
    return _requests(cluster, start, f"{count} nodes: requests for one env edit", "289")


def _requests(cluster: Cluster, start: datetime, name: str, original: str) -> Figure:
    lines = asked(cluster, start)
    note = f"original: {original}; {by_kind(lines)}"
    return Figure(name, [len(lines)], "", owed=REQUESTS_OWED, note=note)


# --- memory ---------------------------------------------------------------------------------------------


async def _memory(cluster: Cluster, count: int, pid: int) -> list[Figure]:
    """After all of the above, with one node agent's pod, one Node and one GPUNode each."""
    await until_quiet(cluster)
    found = processes.memory(pid)
    return [
        Figure(
            f"{count} nodes: operator, Rss",
            [found.rss_mb],
            "MB",
            owed=MEMORY_OWED_MB.get(count),
            note=f"Pss {found.pss_mb:.0f}, peak {processes.peak_mb(pid):.0f}; original 195 at 5,000",
        )
    ]


# --- the request log ------------------------------------------------------------------------------------


def _last(lines: list[RequestLine], verb: str, resource: str, count: int, start: datetime) -> float:
    """Seconds after `start` at which the last of `count` such requests had succeeded."""
    fitting = [
        line
        for line in lines
        if (line.fields["verb"], line.fields["resource"]) == (verb, resource) and line.fields["code"] < 300
    ]
    if len({line.name for line in fitting}) < count:
        raise RuntimeError(f"{len(fitting)} times {verb} {resource} for {count} nodes")
    return max((line.time - start).total_seconds() for line in fitting)
