"""Somebody sets the clock of all machines an hour forth or back: nobody stops, waits, or starts anew."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.node_cluster import device, gpu_node, is_whole, log_of, pod, running_pod, says, whole
from tests.sim.operator_cluster import (
    condition,
    expect_no_writes,
    operand_pods,
    policy,
    quiet,
    ready,
)
from tests.sim.operator_seats import LEASE_S, Seat, expect_one_at_a_time, leader, lease, operators, roll_out

from gpuready_sim.cluster.control_plane import install_crds
from gpuready_sim.cluster.handle import Cluster

from .jumping_clock import JumpingClock

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

SPEC = "nodes: [{name: l4, gpus: {L4: 2}, driver: {where: host}}]\n"
HOUR_S = 3600


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clock_and_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[JumpingClock, Cluster, list[Seat]]]:
    home, folder = (Path(tmp_path_factory.mktemp(name)) for name in ("state", "clock"))
    clock = JumpingClock(folder)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"XDG_STATE_HOME": str(home), **clock.environment}.items():
            patch.setenv(name, value)
        async with Cluster.started(SPEC, operator=False) as cluster:
            await install_crds(cluster.client)
            await cluster.apply(policy())
            async with operators(cluster, "first", "second") as seats:
                await ready(cluster)
                await whole(cluster, "l4")
                yield clock, cluster, seats


@pytest.mark.parametrize("offset_s", [HOUR_S, -HOUR_S, 0])
async def test_a_jump_of_the_clock_changes_nothing_and_work_goes_on(
    clock_and_cluster: tuple[JumpingClock, Cluster, list[Seat]], offset_s: int
) -> None:
    clock, cluster, seats = clock_and_cluster
    first = await leader(cluster, seats)
    pods = await operand_pods(cluster)
    since = condition(await cluster.node("l4"), "GPUReady")["lastTransitionTime"]
    start = await quiet(cluster)

    clock.set(offset_s)
    await _lease_is_renewed_at(cluster, offset_s)
    await asyncio.sleep(2 * LEASE_S)

    await expect_no_writes(cluster, start)
    assert await leader(cluster, seats) is first
    assert set(expect_one_at_a_time(cluster)) == {first.user}
    assert await operand_pods(cluster) == pods
    assert condition(await cluster.node("l4"), "GPUReady")["lastTransitionTime"] == since

    await roll_out(cluster, f"at-{abs(offset_s)}-{offset_s < 0}")
    await ready(cluster)
    await whole(cluster, "l4")
    async with running_pod(cluster, pod("train", "l4")):
        await cluster.fault("xid", target="l4/1", code=109)
        found = await gpu_node(cluster, "l4", says("device-plugin", "UnhealthyDevices", "XID 109"))
        assert _is_about(device(found, 1)["lastXid"]["time"], offset_s)
        await cluster.fault("reset", target="l4/1")
        await gpu_node(cluster, "l4", is_whole)
    for role in ("node-agent", "device-plugin"):
        assert "Traceback" not in await log_of(cluster, "l4", role)
    await whole(cluster, "l4")
    await ready(cluster)


async def _lease_is_renewed_at(cluster: Cluster, offset_s: int) -> None:
    """The operator has seen the jump."""
    async with asyncio.timeout(30):
        while not _is_about((await lease(cluster))["spec"]["renewTime"], offset_s):
            await asyncio.sleep(0.1)


def _is_about(text: str, offset_s: int) -> bool:
    time = datetime.fromisoformat(re.sub(r"Z$", "+00:00", text))
    return abs(time - datetime.now(UTC) - timedelta(seconds=offset_s)) < timedelta(minutes=2)
