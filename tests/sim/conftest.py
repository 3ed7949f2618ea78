"""Clusters for tests: real processes, a state directory of their own, gone when the test ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from gpuready_sim.cluster.handle import Cluster

StartCluster = Callable[..., Awaitable[Cluster]]

ONE_CPU_NODE = "nodes: [{name: cpu-0}]"
TWO_CPU_NODES = "nodes: [{name: cpu, count: 2}]"
ONE_L4_NODE = "nodes: [{name: l4-0, gpus: {L4: 2}}]"


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Clusters of this test live here and nowhere else."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "gpuready-sim"


@pytest.fixture
async def start_cluster() -> AsyncIterator[StartCluster]:
    """start_cluster(spec, operator=False) starts one; spec is the text or the path of a cluster.yaml."""
    async with AsyncExitStack() as stack:

        async def start(
            spec: str | Path = ONE_CPU_NODE, *, name: str = "", operator: bool = False
        ) -> Cluster:
            return await stack.enter_async_context(Cluster.started(spec, name=name, operator=operator))

        yield start
