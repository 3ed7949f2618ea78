"""What the tests' proxy says of its calls can be relied on."""

from __future__ import annotations

import aiohttp
import pytest
from tests.sim.faults import closes_after
from tests.sim.faulty_proxy import UNDER_WAY, Exchange, FaultyProxy


async def test_a_write_whose_answer_was_lost_with_its_connection_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fault of an earlier call closes the connection while this call, with a fault of its own, is away.

    Whoever sent it must send it again: that is no needless write.
    """

    async def closed_meanwhile(exchange: Exchange) -> tuple[int, dict[str, str], bytes]:
        assert exchange.request.transport is not None
        exchange.request.transport.close()
        exchange.done.version = "1"
        return 200, {}, b"{}"

    monkeypatch.setattr(Exchange, "forward", closed_meanwhile)
    proxy = FaultyProxy("http://127.0.0.1:1")
    proxy.add(closes_after())
    await proxy.start(None)
    try:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await session.patch(f"http://127.0.0.1:{proxy.port}/api/v1/nodes/a")
    finally:
        await proxy.stop()
    assert [done.fault for done in proxy.calls] == [UNDER_WAY]
