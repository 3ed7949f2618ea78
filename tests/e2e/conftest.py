"""One cluster for all tests; skipped with the reason where no real node can run."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gpuready_sim.kubernetes.node import requirements

from .cluster import RealCluster, started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealCluster]:
    try:
        requirements.require()
    except requirements.MissingRequirement as exc:
        pytest.skip(str(exc))
    async with started(tmp_path_factory.mktemp("e2e")) as running:
        await running.apply_policy()
        await running.until_allocatable(4)
        yield running
