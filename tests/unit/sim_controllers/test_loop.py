"""The keyed loop, the control socket and the request log."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpuready_sim import control, request_log
from gpuready_sim.client import Unreachable
from gpuready_sim.cluster.places import Place, owned
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
        answer = await asyncio.to_thread(control.ask, Place(directory), "hello", {"a": 1})
        assert answer == {"command": "hello", "args": {"a": 1}}
        with pytest.raises(control.Refused) as caught:
            await asyncio.to_thread(control.ask, Place(directory), "fail")
        assert (caught.value.what, caught.value.why, caught.value.next_step) == ("no", "because", "try again")
    finally:
        server.close()


def test_nobody_listening_says_how_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(control.NotRunning, match="is not running") as caught:
        control.ask(Place.of("one"), "status")

    assert caught.value.next_step == "start it with `gpuready-sim up --detach --name one`"


async def test_nobody_listening_names_the_clusters_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    other = Place.of("other")
    other.clean()

    async def handler(command: str, args: object) -> object:
        return None

    with owned(other):
        server = await control.serve(other.control, handler)
        with pytest.raises(control.NotRunning) as caught:
            control.ask(Place.of("gpuready"), "status")
        server.close()

    assert caught.value.why == "other runs"
    assert caught.value.next_step == "say --name other, or start it with `gpuready-sim up --detach`"
    assert not other.lock.exists()


def test_a_cluster_that_starts_is_not_called_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    place = Place.of("one")
    with owned(place), pytest.raises(control.NotRunning) as caught:
        control.ask(place, "status")

    assert caught.value.why == "it is starting or ending"


def test_requests_can_be_limited_to_writes_clients_and_a_time(tmp_path: Path):
    rows = [
        {"time": "2026-01-01T00:00:00.000Z", "verb": "get", "resource": "pods"},
        {"time": "2026-01-01T00:00:01.000Z", "verb": "patch", "resource": "nodes", "name": "n1"},
        {"time": "2026-01-01T00:00:02.000Z", "verb": "create", "resource": "pods", "client": "kubectl"},
        {"time": "2026-01-01T00:00:03.000Z", "verb": "update", "resource": "leases"},
    ]
    log = tmp_path / "requests.jsonl"
    log.write_text("\n".join(json.dumps(r) for r in rows) + '\n{"cut sho')

    since = datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)

    def verbs(**wanted: Any) -> list[str]:
        return [line.fields["verb"] for line in request_log.read(log, request_log.Filter(**wanted))]

    assert verbs() == ["get", "patch", "create", "update"]
    assert verbs(writes_only=True) == ["patch", "create", "update"]
    assert verbs(writes_only=True, leases=False) == ["patch", "create"]
    assert verbs(since=since) == ["create", "update"]
    assert verbs(client="kubectl") == ["create"]
