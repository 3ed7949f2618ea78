"""A gRPC call that is cancelled from inside ends itself and nobody else."""

from __future__ import annotations

import asyncio

import pytest

from gpuready.node.kubelet.calls import alone


async def test_a_call_whose_task_is_cancelled_by_its_library_is_a_lost_connection():
    async def call() -> str:
        asyncio.current_task().cancel()  # as grpclib does when the connection is lost
        await asyncio.sleep(60)
        return "never"

    with pytest.raises(ConnectionResetError, match="the connection was lost"):
        await alone(call())


async def test_a_cancellation_that_comes_after_the_answer_ends_nothing():
    async def call() -> str:
        asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)
        return "here"

    assert await alone(call()) == "here"
    await asyncio.sleep(0)


async def test_who_is_cancelled_takes_the_call_along():
    ended = asyncio.Event()

    async def call() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    waiting = asyncio.ensure_future(alone(call()))
    await asyncio.sleep(0)
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(30):
        await ended.wait()
