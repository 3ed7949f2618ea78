"""While one text of the policy is applied: a newer one ends that, and a slow API server is told of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

SLOW_AFTER_S = 2.0


async def unless_overtaken(
    work: Coroutine[Any, Any, T],
    newer: asyncio.Event,
    on_slow: Callable[[], Awaitable[None]],
) -> T | None:
    """What `work` returns or raises; None when `newer` was set before that, and then it is cancelled.

    A write that is cancelled under way has happened or not: the next pass sees which in the caches.

    on_slow  called once, beside the work, when it takes longer than SLOW_AFTER_S
    """
    working = asyncio.ensure_future(work)
    overtaken = asyncio.ensure_future(newer.wait())
    try:
        await asyncio.wait({working, overtaken}, timeout=SLOW_AFTER_S, return_when=asyncio.FIRST_COMPLETED)
        if not (working.done() or overtaken.done()):
            await on_slow()
            await asyncio.wait({working, overtaken}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, overtaken):
            task.cancel()
        await asyncio.gather(working, overtaken, return_exceptions=True)
