"""Streams that stay open while thousands of things change: nothing is missed, nothing grows.

Nobody is killed here, so that what a program holds can be followed from the beginning to the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.node_cluster import gpu_node, is_whole, pod, registrations, remove_pod
from tests.sim.operator_cluster import NAMESPACE, Object, label, offers, quiet

from gpuready_sim.client import CONFIG_MAPS, NODES, PODS, Resource
from gpuready_sim.cluster.handle import Cluster

from .growth import Usage, slope
from .scene import Scene, budget_s, scene, tell

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(0)]

NODE = "l4"
SHARE = 0.3  # of the time of all soaks
WARM = 0.25  # of that, until memory has the size of the work
SAMPLE_S = 1.0
WATCH_S = 300  # our clients ask for so long
LEAST_CHANGES_S = 5  # a second, on a busy machine
# What grows by itself: pages that Python does not give back.
GROWTH_KIB, GROWTH = 2048, 0.03
SIMULATOR = "simulator"  # keeps logs and events of everything, and is measured nowhere


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def flooded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    home: Path = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        async with scene({NODE: "gpus: {L4: 2}, driver: {where: host}, containerd: 2.2.1"}) as started:
            await started.end_of("plain")
            yield started


async def test_of_thousands_of_changes_none_is_missed_and_nothing_grows(flooded: Scene) -> None:
    cluster = flooded.cluster
    first, watches, began = flooded.daemons(), _watches(flooded), time.monotonic()
    want, seen = await flooded.end_state(), _Seen()
    samples: dict[str, list[Usage]] = defaultdict(list)
    until = time.monotonic() + max(20.0, budget_s() * SHARE)

    async with asyncio.TaskGroup() as group:
        following = [group.create_task(seen.follow(cluster, one)) for one in (NODES, CONFIG_MAPS, PODS)]
        changes = [group.create_task(change(cluster, until)) for change in CHANGES]
        while time.monotonic() < until:
            await asyncio.sleep(SAMPLE_S)
            for name, usage in flooded.usage().items():
                samples[name].append(usage)
        made = sum([await each for each in changes])
        for each in following:
            each.cancel()

    tell(f"{made} changes, {sum(seen.count.values())} seen by a watch that was open all the time")
    assert made > LEAST_CHANGES_S * (time.monotonic() - began)
    assert sum(seen.count.values()) >= made / 2
    await flooded.until_as(want)
    assert flooded.daemons() == first, "somebody has ended and was started anew"
    assert [kind for kind, n in _watches(flooded).items() if n > watches[kind] + _ended(began)] == []
    assert await registrations(cluster, NODE) == 1
    assert flooded.tracebacks() == []
    assert _grown(samples) == []


async def test_watches_that_are_cut_again_and_again_leave_nothing_behind(flooded: Scene) -> None:
    first = flooded.daemons()
    want, before = await flooded.end_state(), flooded.usage()

    await _cut_watches(flooded, 40)

    await flooded.until_as(want)
    after = flooded.usage()
    assert flooded.daemons() == first
    assert [f"{n}: {before[n]} -> {after[n]}" for n in first if after[n].files > before[n].files + 4] == []
    assert [
        f"{n}: {before[n]} -> {after[n]}" for n in first if after[n].threads > before[n].threads + 1
    ] == []
    assert flooded.tracebacks() == []


async def _cut_watches(flooded: Scene, times: int) -> None:
    """Each time all of them, and something changes while they are away."""
    for number in range(times):
        flooded.proxy.cut_all()
        await label(flooded.cluster, NODE, "soak", f"cut-{number}")
        await asyncio.sleep(0.3)
    await label(flooded.cluster, NODE, "soak", None)
    await quiet(flooded.cluster)


# --- what changes -----------------------------------------------------------------------------------------


async def _labels(cluster: Cluster, until: float) -> int:
    """Of the node, which operator and agent watch."""
    return await _again(until, 0.03, lambda n: label(cluster, NODE, "soak", f"n{n}" if n else None))


async def _config_maps(cluster: Cluster, until: float) -> int:
    """In the operator's namespace, of no concern to anybody."""

    def text(number: int) -> Object:
        meta = {"name": "soak", "namespace": NAMESPACE}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"number": str(number)}}

    made = await _again(until, 0.1, lambda n: cluster.apply(text(n)))
    await cluster.client.delete(CONFIG_MAPS, "soak", NAMESPACE)
    return made


async def _xids(cluster: Cluster, until: float) -> int:
    """One GPU leaves and comes back: each time ListAndWatch says so."""

    async def once(number: int) -> None:
        await cluster.fault("xid", target=f"{NODE}/1", code=109)
        await cluster.wait(NODES, NODE, until=offers(1))
        await cluster.fault("reset", target=f"{NODE}/1")
        await gpu_node(cluster, NODE, is_whole)
        await cluster.wait(NODES, NODE, until=offers(2))

    return 4 * await _again(until, 0.2, once)


async def _pods(cluster: Cluster, until: float) -> int:
    """Of users, of which none can be placed."""

    async def once(number: int) -> None:
        nowhere = {**pod(f"soak-{number}", "nowhere"), "metadata": {"name": f"soak-{number}"}}
        await cluster.apply({**nowhere, "metadata": {"name": f"soak-{number}", "namespace": "default"}})
        await remove_pod(cluster, f"soak-{number}")

    return 2 * await _again(until, 0.2, once)


CHANGES: Sequence[Callable[[Cluster, float], Awaitable[int]]] = (_labels, _config_maps, _xids, _pods)


async def _again(until: float, wait_s: float, once: Callable[[int], Awaitable[object]]) -> int:
    """How often; the last time with 0, which leaves nothing."""
    for number in itertools.count(1):
        await once(number)
        if time.monotonic() > until:
            await once(0)
            return number
        await asyncio.sleep(wait_s)
    raise AssertionError("unreachable")


# --- what is seen -----------------------------------------------------------------------------------------


class _Seen:
    """How many changes a watch has brought, by kind."""

    def __init__(self) -> None:
        self.count: dict[str, int] = defaultdict(int)

    async def follow(self, cluster: Cluster, resource: Resource) -> None:
        _, version = await cluster.client.list(resource)
        with contextlib.suppress(asyncio.CancelledError):
            async for _ in cluster.client.watch(resource, version):
                self.count[resource.plural] += 1


def _watches(flooded: Scene) -> Mapping[tuple[str, str, str], int]:
    return {kind: n for kind, n in flooded.proxy.kinds().items() if kind[1] == "watch" and kind[0]}


def _ended(began: float) -> int:
    """How often the server may have ended each watch since then: it does so when their time is over."""
    return math.ceil((time.monotonic() - began) / WATCH_S) if time.monotonic() - began > WATCH_S / 2 else 0


def _grown(samples: Mapping[str, Sequence[Usage]]) -> list[str]:
    found = []
    for name, rows in samples.items():
        warm = rows[int(len(rows) * WARM) :]
        memory = slope([row.rss_kib for row in warm])
        first = warm[0]
        tell(f"{name}: {first.rss_kib} KiB {memory:+.0f}, {first.files} files, {first.threads} threads")
        if name == SIMULATOR:
            continue
        files, threads = slope([row.files for row in warm]), slope([row.threads for row in warm])
        if memory > max(GROWTH_KIB, GROWTH * first.rss_kib) or files >= 3 or threads >= 2:
            found.append(f"{name}: {memory:+.0f} KiB, {files:+.0f} files, {threads:+.0f} threads")
    return found
