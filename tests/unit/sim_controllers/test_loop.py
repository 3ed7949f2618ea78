"""The keyed loop, the control socket and the request log."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpuready_sim import control, request_log
from gpuready_sim.client import Unreachable
from gpuready_sim.controllers.loop import KeyedLoop
from gpuready_sim.errors import SimulatorError


async def run_until(loop: KeyedLoop, done: asyncio.Event) -> None:
    task = asyncio.create_task(loop.run())
    await asyncio.wait_for(done.wait(), 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_key_marked_while_it_is_handled_is_handled_once_more():
    seen: list[str] = []
    done = asyncio.Event()

    async def act(key: str) -> None:
        seen.append(key)
        if len(seen) == 1:
            loop.mark(key)
            loop.mark(key)
            await asyncio.sleep(0)
        else:
            done.set()

    loop = KeyedLoop("test", act)
    loop.mark("a")
    await run_until(loop, done)

    assert seen == ["a", "a"]


async def test_a_failed_key_comes_back():
    tries: list[str] = []
    done = asyncio.Event()

    async def act(key: str) -> None:
        tries.append(key)
        if len(tries) == 1:
            raise Unreachable("not now")
        done.set()

    loop = KeyedLoop("test", act)
    loop.mark("a")
    await run_until(loop, done)

    assert tries == ["a", "a"]


async def test_the_control_socket_works_at_paths_longer_than_a_socket_name_may_be(tmp_path: Path):
    directory = tmp_path / ("x" * 100) / ("y" * 100)
    directory.mkdir(parents=True)

    async def handler(command: str, args: object) -> object:
        if command == "fail":
            raise SimulatorError("no", why="because", next_step="try again")
        return {"command": command, "args": args}

    server = await control.serve(directory / "control.sock", handler)
    try:
        answer = await asyncio.to_thread(control.ask, directory / "control.sock", "hello", {"a": 1})
        assert answer == {"command": "hello", "args": {"a": 1}}
        with pytest.raises(control.Refused) as caught:
            await asyncio.to_thread(control.ask, directory / "control.sock", "fail")
        assert (caught.value.what, caught.value.why, caught.value.next_step) == ("no", "because", "try again")
    finally:
        server.close()


def test_nobody_listening_says_how_to_start(tmp_path: Path):
    with pytest.raises(control.NotRunning, match="is not running") as caught:
        control.ask(tmp_path / "control.sock", "status")

    assert f"gpuready-sim up --name {tmp_path.name}" in caught.value.next_step


def test_requests_can_be_limited_to_writes_and_to_a_time(tmp_path: Path):
    rows = [
        {"time": "2026-01-01T00:00:00.000Z", "verb": "get", "resource": "pods"},
        {"time": "2026-01-01T00:00:01.000Z", "verb": "patch", "resource": "nodes", "name": "n1"},
        {"time": "2026-01-01T00:00:02.000Z", "verb": "create", "resource": "pods"},
    ]
    log = tmp_path / "requests.jsonl"
    log.write_text("\n".join(json.dumps(r) for r in rows) + '\n{"cut sho')

    since = datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)

    assert [line.fields["verb"] for line in request_log.read(log)] == ["get", "patch", "create"]
    assert [line.fields["verb"] for line in request_log.read(log, writes_only=True)] == ["patch", "create"]
    assert [line.fields["verb"] for line in request_log.read(log, since=since)] == ["create"]
