"""Three operators under their own rules, and faults at random: as if one had worked all the time."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable

import pytest
from tests.sim.operator_cluster import SETTLED_S, edit, policy, quiet, ready
from tests.sim.operator_seats import LEASE_S, Seat, expect_one_at_a_time, follows, leader, operators, work

from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.control_plane import install_crds
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.kubernetes import assets

SPEC = """
nodes:
- {name: l4, gpus: {L4: 1}, driver: {where: host}}
nodeGraceSeconds: 20
"""
NAMES = ("one", "two", "three")
ROUNDS = 8


@pytest.fixture(params=[Api.EMBEDDED, Api.KUBERNETES])
def server(request: pytest.FixtureRequest) -> Api:
    if request.param is Api.KUBERNETES:
        try:
            assets.require()
        except assets.MissingAssets as exc:
            pytest.skip(str(exc))
    return Api(request.param)


@pytest.mark.timeout(400)
async def test_of_three_operators_that_are_lost_at_random_one_works_at_any_time(
    server: Api, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201, to tell the story again
    chance = random.Random(seed)
    async with Cluster.started(SPEC, operator=False, api=server, name=f"e-{uuid.uuid4().hex[:6]}") as cluster:
        await install_crds(cluster.client)
        await cluster.apply(policy())
        async with operators(cluster, *NAMES) as seats:
            for turn in range(ROUNDS):
                await edit(cluster, {"daemonsets": {"labels": {"roll-out": f"turn-{turn}"}}})
                await asyncio.sleep(chance.uniform(0, 0.5))
                await chance.choice(FAULTS)(await leader(cluster, seats), chance)
            await follows(cluster, f"turn-{ROUNDS - 1}")
            await ready(cluster)
            await quiet(cluster, SETTLED_S)
            terms = expect_one_at_a_time(cluster)
            assert set(terms) <= {seat.user for seat in seats}
            assert len(terms) > 2
        assert await cluster.allocatable("l4") == 1

        async with operators(cluster, NAMES[0]) as alone:
            start = await quiet(cluster)
            await leader(cluster, alone)
            await asyncio.sleep(LEASE_S)
            assert work(cluster, start) == []


async def _killed(seat: Seat, chance: random.Random) -> None:
    await seat.operator.kill()
    await asyncio.sleep(chance.uniform(0, LEASE_S))
    await seat.operator.start()


async def _ended(seat: Seat, chance: random.Random) -> None:
    assert await seat.operator.end() == 0
    await asyncio.sleep(chance.uniform(0, LEASE_S))
    await seat.operator.start()


async def _stopped(seat: Seat, chance: random.Random) -> None:
    seat.operator.stop()
    await asyncio.sleep(chance.uniform(0, 2 * LEASE_S))
    seat.operator.go_on()


async def _cut_off(seat: Seat, chance: random.Random) -> None:
    seat.wire.cut()
    await asyncio.sleep(chance.uniform(0, 2 * LEASE_S))
    seat.wire.mend()


async def _slowed(seat: Seat, chance: random.Random) -> None:
    """From what a busy server takes to five times the Lease, as ten seconds a call are of one of two."""
    seat.wire.slow(chance.uniform(0.1, 5 * LEASE_S))
    await asyncio.sleep(chance.uniform(LEASE_S, 4 * LEASE_S))
    seat.wire.mend()


FAULTS: tuple[Callable[[Seat, random.Random], Awaitable[None]], ...] = (
    _killed,
    _ended,
    _stopped,
    _cut_off,
    _slowed,
)
