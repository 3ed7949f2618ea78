"""An API server for one node, and an agent that waits less than in life."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.operands.node_agent.fake_api import FakeApi

from gpuready.kube import backoff
from gpuready.operands.node_agent import daemon, reporter


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    server = FakeApi()
    await server.start()
    yield server
    await server.go_away()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "TICK_S", 0.05)
    monkeypatch.setattr(daemon, "PLUGIN_QUIET_S", 0.2)
    monkeypatch.setattr(reporter, "STATUS_INTERVAL_S", 0.05)
    monkeypatch.setattr(backoff, "FIRST_S", 0.05)
