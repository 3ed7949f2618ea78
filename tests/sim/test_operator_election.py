"""Several operators, of which one works: killed, stopped and cut off in the middle of what they do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.operator_cluster import DEADLINE_S, POLICY, edit, policy, quiet, ready
from tests.sim.operator_seats import (
    LEASE_S,
    Seat,
    expect_one_at_a_time,
    follows,
    leader,
    lease,
    operators,
    roll_out,
    stands_by,
    work,
)

from gpuready_sim.client import LEASES
from gpuready_sim.cluster.control_plane import install_crds
from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = """
nodes:
- {name: no-gpu}
nodeGraceSeconds: 20
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC, operator=False) as running:
        await install_crds(running.client)
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(cluster: Cluster) -> AsyncIterator[list[Seat]]:
    await cluster.apply(policy())
    async with operators(cluster, "first", "second") as seats:
        await ready(cluster)
        yield seats


async def test_the_second_waits_and_takes_over_at_once_when_the_first_ends(
    cluster: Cluster, pair: list[Seat]
) -> None:
    first, second = pair
    status, text = await second.operator.readiness()
    assert (status, text.split(":")[0]) == (200, "ok, standing by")
    assert expect_one_at_a_time(cluster) == [first.user]

    await first.operator.end()
    assert "lease released" in first.operator.log()
    assert await leader(cluster, [second]) is second
    await roll_out(cluster, "b")
    await first.operator.start()
    await first.operator.wait_ready(timeout_s=DEADLINE_S)

    assert expect_one_at_a_time(cluster) == [first.user, second.user]
    assert (await lease(cluster))["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("fault", ["stopped", "cut off", "killed"])
async def test_a_leader_that_is_lost_in_the_middle_of_a_roll_out_writes_nothing_more(
    cluster: Cluster, pair: list[Seat], fault: str
) -> None:
    lost = await leader(cluster, pair)
    (other,) = (seat for seat in pair if seat is not lost)

    await edit(cluster, {"daemonsets": {"labels": {"roll-out": "one"}}})
    await asyncio.sleep(random.uniform(0, 0.1))  # anywhere in the middle of it
    match fault:
        case "stopped":
            lost.operator.stop()
        case "cut off":
            lost.wire.cut()
        case "killed":
            await lost.operator.kill()
    assert await leader(cluster, [other]) is other
    await follows(cluster, "one")
    await roll_out(cluster, fault.replace(" ", "-"))  # of which the lost one hears when it comes back
    match fault:
        case "stopped":
            lost.operator.go_on()
        case "cut off":
            lost.wire.mend()
        case "killed":
            await lost.operator.start()
    await stands_by(lost)

    await ready(cluster)
    assert expect_one_at_a_time(cluster)[-2:] == [lost.user, other.user]
    await quiet(cluster)


async def test_an_operator_that_is_killed_and_back_in_its_pod_waits_for_nobodys_time(
    cluster: Cluster, pair: list[Seat]
) -> None:
    for seat in pair:
        await seat.operator.end()
    async with operators(cluster, "alone", lease_s=10 * DEADLINE_S) as alone:
        held = await leader(cluster, alone)
        changes = (await lease(cluster))["spec"]["leaseTransitions"]
        await held.operator.kill()
        await held.operator.start()

        assert await leader(cluster, alone) is held
        await roll_out(cluster, "of-the-same-pod")
        assert (await lease(cluster))["spec"]["leaseTransitions"] == changes


async def test_while_the_original_operator_leads_ours_only_watches(
    cluster: Cluster, pair: list[Seat]
) -> None:
    for seat in pair:
        await seat.operator.end()
    original = asyncio.create_task(_renew_as_the_original(cluster))
    start = datetime.now(UTC)
    await edit(cluster, {"daemonsets": {"labels": {"roll-out": "of-the-original"}}})
    await pair[0].operator.start()

    await stands_by(pair[0])
    await asyncio.sleep(2 * LEASE_S)
    assert work(cluster, start) == []
    assert "gpu-operator-0_1 holds the Lease" in (await pair[0].operator.readiness())[1]
    said = await cluster.events(POLICY)
    assert [(event["reason"], event["type"]) for event in said if event["reason"].startswith("Original")] == [
        ("OriginalOperatorLeads", "Warning")
    ]

    original.cancel()
    assert await leader(cluster, pair[:1]) is pair[0]
    await follows(cluster, "of-the-original")


async def _renew_as_the_original(cluster: Cluster) -> None:
    """Takes the Lease as client-go does, whose writes leave the annotations as they are."""
    found = await lease(cluster)
    found["spec"] |= {"holderIdentity": "gpu-operator-0_1", "leaseDurationSeconds": LEASE_S}
    while True:
        found["spec"]["renewTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        found = await cluster.client.replace(LEASES, found)
        await asyncio.sleep(LEASE_S / 5)
