"""The original operator's cluster becomes gpuready's: what both want stays and runs on, the rest goes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sim.operator_cluster import Operator
from tests.sim.takeover_scene import Takeover

from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def takeover(state_home: Path) -> AsyncIterator[Takeover]:
    async with Cluster.started("nodes: [{name: cpu}]", operator=False) as cluster:
        scene = await Takeover.prepared(cluster)
        await scene.plan(state_home / "policy.json")
        async with Operator(cluster):
            await scene.is_over()
            yield scene


async def test_no_field_and_no_manager_of_the_original_is_left_on_what_is_ours_now(takeover):
    await takeover.expect_no_leftovers()


async def test_everything_belongs_to_the_policy_as_before(takeover):
    await takeover.expect_owners()


async def test_a_daemonset_whose_pods_are_as_wanted_is_not_rolled_out_and_one_that_differs_is(takeover):
    await takeover.expect_pods_left_alone()


async def test_each_takeover_is_told_by_an_event(takeover):
    await takeover.expect_events()


async def test_what_the_policy_has_switched_off_goes_and_what_a_user_owns_stays(takeover):
    await takeover.expect_only_unwanted_gone()


async def test_somebody_elses_object_in_the_way_is_named_and_left_as_it_is(takeover):
    await takeover.expect_strangers_untouched()


async def test_the_plan_has_told_what_is_taken_over_what_goes_and_who_is_in_the_way(takeover):
    await takeover.expect_as_planned()


async def test_another_way_of_installing_the_driver_is_told_for_the_originals_pods_too(takeover):
    await takeover.expect_another_install_to_be_told()
