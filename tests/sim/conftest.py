"""Clusters for tests: real processes, a state directory of their own, gone when the test ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from gpuready_sim.cluster.handle import Cluster

StartCluster = Callable[..., Awaitable[Cluster]]


@pytest.fixture(autouse=True, scope="module")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Clusters of a test module live here and nowhere else."""
    home = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        yield home / "gpuready-sim"


@pytest.fixture
async def start_cluster() -> AsyncIterator[StartCluster]:
    """start_cluster(spec, operator=False) starts one; spec is the text or the path of a cluster.yaml.

    Tests that can share one take a module-scoped fixture around Cluster.started instead.
    """
    async with AsyncExitStack() as stack:

        async def start(spec: str | Path, *, name: str = "", operator: bool = False) -> Cluster:
            return await stack.enter_async_context(Cluster.started(spec, name=name, operator=operator))

        yield start
