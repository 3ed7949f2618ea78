"""A gRPC call that can end nothing but itself."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def alone(call: Coroutine[Any, Any, T]) -> T:
    """The answer to `call`, which runs in a task of its own.

    Where a connection is lost, grpclib cancels the task that waits on it, at times just after that task was
    woken: then whatever it did next would end without a reason.

    raises  ConnectionResetError when the call was ended so, else what the call raises
    """
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait({task})
    finally:
        task.cancel()  # we are being cancelled ourselves; nothing happens to a task that is done
    if task.cancelled():
        raise ConnectionResetError(errno.ECONNRESET, "the connection was lost")
    return task.result()
