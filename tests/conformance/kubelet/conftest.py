"""Both kubelets, each started once for all tests, and a scene for each test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from .kubelets import KUBELETS, RunningKubelet, running
from .scene import Scene

_numbers = itertools.count(1)


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=KUBELETS)
async def kubelet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RunningKubelet]:
    async with running(request.param, tmp_path_factory.mktemp(request.param)) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def scene(kubelet: RunningKubelet) -> AsyncIterator[Scene]:
    made = Scene(kubelet, f"t{next(_numbers)}")
    yield made
    await made.end()
