"""The original's cluster becomes ours on a real API server too, where managedFields have their real rules."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.sim.operator_cluster import Operator
from tests.sim.takeover_scene import Takeover

from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.kubernetes import assets

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def takeover(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Takeover]:
    try:
        assets.require()
    except assets.MissingAssets as exc:
        pytest.skip(str(exc))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        async with Cluster.started("nodes: [{name: cpu}]", operator=False, api=Api.KUBERNETES) as cluster:
            scene = await Takeover.prepared(cluster)
            async with Operator(cluster):
                await scene.is_over()
                yield scene


@pytest.mark.parametrize(
    "expectation",
    [
        Takeover.expect_no_leftovers,
        Takeover.expect_owners,
        Takeover.expect_pods_left_alone,
        Takeover.expect_events,
        Takeover.expect_only_unwanted_gone,
        Takeover.expect_strangers_untouched,
        Takeover.expect_another_install_to_be_told,
    ],
    ids=lambda expectation: expectation.__name__,
)
async def test_a_takeover_on_a_real_api_server(takeover: Takeover, expectation) -> None:  # type: ignore[no-untyped-def]
    await expectation(takeover)
