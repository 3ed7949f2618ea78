from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.kube.scripted_server import ScriptedServer


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    scripted = await ScriptedServer().start()
    yield scripted
    await scripted.stop()
