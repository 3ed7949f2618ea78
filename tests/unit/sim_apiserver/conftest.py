"""An API server in this process, for every test of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuready_sim.apiserver import pki
from gpuready_sim.apiserver.app import ApiServer
from gpuready_sim.apiserver.resources import Settings

from .harness import Api, Clock


@pytest.fixture(scope="session")
def identity(tmp_path_factory: pytest.TempPathFactory) -> pki.Identity:
    return pki.load_or_create(tmp_path_factory.mktemp("pki"), "127.0.0.1")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def settings() -> Settings:
    return Settings()


@pytest.fixture
async def api(identity: pki.Identity, clock: Clock, settings: Settings, tmp_path: Path) -> AsyncIterator[Api]:
    server = ApiServer(identity, audit=tmp_path / "requests.jsonl", settings=settings, now=clock)
    server.start()
    yield Api(server, identity.admin_token)
    await server.stop()
