"""The simulator's client when the API server is too busy."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpuready_sim.client import BUSY_TRIES, NODES, Access, ApiStatus, SimClient


class Busy:
    """Answers 429 so often, then as it should."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.asked = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.asked <= self.times:
            return web.json_response({"reason": "TooManyRequests"}, status=429, headers={"Retry-After": "0"})
        return web.json_response({"items": [], "metadata": {"resourceVersion": "7"}})


async def _listed(busy: Busy) -> str:
    app = web.Application()
    app.router.add_get("/api/v1/nodes", busy.answer)
    async with TestServer(app) as server, SimClient(Access(str(server.make_url("")).rstrip("/"))) as client:
        return (await client.list(NODES))[1]


async def test_it_asks_again_when_it_is_told_to() -> None:
    assert await _listed(Busy(2)) == "7"


async def test_it_gives_up_in_the_end() -> None:
    busy = Busy(1000)
    with pytest.raises(ApiStatus):
        await _listed(busy)
    assert busy.asked == BUSY_TRIES
