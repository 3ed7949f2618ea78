"""The reflector against a server that misbehaves on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.unit.kube.scripted_server import (
    ScriptedServer,
    bookmark,
    error_event,
    event,
    lists,
    node,
    refuses,
    streams,
)

from gpuready.kube.backoff import Backoff
from gpuready.kube.cache import WatchCache
from gpuready.kube.errors import ApiStatusError, Unreachable
from gpuready.kube.resources import NODES
from gpuready.kube.trimmed import Node, decode_node

DEADLINE_S = 30.0


class Seen:
    """What a handler was told: ("added", name), ("changed", name), ("deleted", name)."""

    def __init__(self, cache: WatchCache[Any]) -> None:
        self.log: list[tuple[str, str]] = []
        self._moved = asyncio.Event()
        cache.add_handler(self._told)

    def _told(self, old: Any, new: Any) -> None:
        what = "added" if old is None else "deleted" if new is None else "changed"
        obj = new if new is not None else old
        self.log.append((what, obj["metadata"]["name"] if isinstance(obj, dict) else obj.metadata.name))
        self._moved.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self._moved.clear()
                await self._moved.wait()

    async def until_last(self, what: str, name: str) -> None:
        await self.until(lambda: self.log[-1:] == [(what, name)])


@asynccontextmanager
async def running(cache: WatchCache[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(cache.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def quick() -> Backoff:
    return Backoff(jitter=lambda: 0.02)


async def test_events_after_the_list_change_the_cache(server: ScriptedServer) -> None:
    server.answers = [
        lists(node("a", "1"), node("b", "2"), version="10"),
        streams(
            event("MODIFIED", node("a", "11", gpu="yes")),
            event("DELETED", node("b", "12")),
            event("ADDED", node("c", "13")),
            then="stay",
        ),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES)
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "c")

            assert seen.log == [
                ("added", "a"), ("added", "b"), ("changed", "a"), ("deleted", "b"), ("added", "c"),
            ]  # fmt: skip
            assert sorted(cache.keys()) == ["a", "c"]
            assert cache.synced
            assert cache.connected
            assert "resourceVersion=10" in server.paths()[1]


async def test_an_expired_watch_relists_and_reports_what_vanished_in_the_gap(server: ScriptedServer) -> None:
    server.answers = [
        lists(node("a", "1"), node("b", "2"), version="10"),
        streams(event("MODIFIED", node("a", "11")), error_event(410, "Expired")),
        lists(node("a", "11"), node("c", "15"), version="20"),
        streams(then="stay"),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES, backoff=quick())
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "c")

    # "a" is the same version as before the gap: nobody is told again
    assert seen.log[2:] == [("changed", "a"), ("deleted", "b"), ("added", "c")]


async def test_a_watch_refused_with_410_relists_as_well(server: ScriptedServer) -> None:
    server.answers = [
        lists(node("a", "1"), version="10"),
        refuses(410, "Expired"),
        lists(version="20"),
        streams(then="stay"),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES, backoff=quick())
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("deleted", "a")


async def test_a_line_cut_in_the_middle_is_resumed_from_the_last_whole_event(server: ScriptedServer) -> None:
    server.answers = [
        lists(version="10"),
        streams(event("ADDED", node("a", "11")), b'{"type":"ADDED","object":{"meta', then="cut"),
        streams(event("ADDED", node("b", "12")), then="stay"),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES, backoff=quick())
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "b")

    assert seen.log == [("added", "a"), ("added", "b")]
    assert "resourceVersion=11" in server.paths()[2]
    assert len(server.requests) == 3  # resumed, not listed again


async def test_a_bookmark_moves_the_version_and_nothing_else(server: ScriptedServer) -> None:
    server.answers = [
        lists(version="10"),
        streams(bookmark("90")),
        streams(event("ADDED", node("a", "91")), then="stay"),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES)
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "a")

    assert seen.log == [("added", "a")]
    assert "resourceVersion=90" in server.paths()[2]


async def test_the_same_event_twice_is_told_once(server: ScriptedServer) -> None:
    server.answers = [
        lists(version="10"),
        streams(
            event("ADDED", node("a", "11")),
            event("ADDED", node("a", "11")),
            event("DELETED", node("a", "12")),
            event("DELETED", node("a", "12")),
            event("ADDED", node("z", "13")),
            then="stay",
        ),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES)
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "z")

    assert seen.log == [("added", "a"), ("deleted", "a"), ("added", "z")]


async def test_a_line_longer_than_a_mebibyte_is_one_event(server: ScriptedServer) -> None:
    big = node("big", "11")
    big["metadata"]["annotations"] = {"text": "x" * (3 << 20)}
    server.answers = [lists(version="10"), streams(event("ADDED", big), then="stay")]
    async with server.client() as client:
        cache: WatchCache[Node] = WatchCache(client, NODES, decode=decode_node)
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "big")
            kept = cache.get("big")

    assert kept is not None
    assert kept.metadata.annotations == {}


async def test_while_the_server_is_away_the_last_state_stays_and_then_it_goes_on(
    server: ScriptedServer,
) -> None:
    away = asyncio.Event()
    server.answers = [lists(node("a", "1"), version="10"), streams(away, then="cut")]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES, backoff=quick())
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "a")
            contact = cache.last_contact
            away.set()
            await server.stop()
            async with asyncio.timeout(DEADLINE_S):
                while cache.connected:
                    await asyncio.sleep(0.01)
            assert cache.synced
            assert cache.keys() == ["a"]

            server.answers = [streams(event("ADDED", node("b", "11")), then="stay")]
            await server.start()
            await seen.until_last("added", "b")

    assert cache.last_contact > contact
    assert seen.log == [("added", "a"), ("added", "b")]


async def test_another_error_event_resumes_without_a_new_list(server: ScriptedServer) -> None:
    server.answers = [
        lists(version="10"),
        streams(error_event(500, "InternalError")),
        streams(event("ADDED", node("a", "11")), then="stay"),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES, backoff=quick())
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "a")

    assert len(server.requests) == 3


async def test_one_object_that_does_not_fit_does_not_stop_the_others(server: ScriptedServer) -> None:
    broken = {"metadata": {"name": "broken", "resourceVersion": "3", "labels": {"a": 1}}}
    server.answers = [lists(broken, node("a", "1"), version="10"), streams(then="stay")]
    async with server.client() as client:
        cache: WatchCache[Node] = WatchCache(client, NODES, decode=decode_node)
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "a")

    assert cache.keys() == ["a"]


async def test_indices_follow_the_objects(server: ScriptedServer) -> None:
    server.answers = [
        lists(node("a", "1", zone="x"), node("b", "2", zone="x"), version="10"),
        streams(event("MODIFIED", node("a", "11", zone="y")), event("DELETED", node("b", "12")), then="stay"),
    ]
    async with server.client() as client:
        cache: WatchCache[Node] = WatchCache(client, NODES, decode=decode_node)
        cache.add_index("zone", lambda each: [each.metadata.labels["zone"]])
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("deleted", "b")

    assert [each.metadata.name for each in cache.by_index("zone", "y")] == ["a"]
    assert cache.by_index("zone", "x") == []


async def test_a_handler_that_fails_is_not_the_others_problem(server: ScriptedServer) -> None:
    server.answers = [lists(node("a", "1")), streams(then="stay")]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES)

        def broken(old: object, new: object) -> None:
            raise RuntimeError("a bug")

        cache.add_handler(broken)
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "a")


def test_waits_grow_to_thirty_seconds_but_stay_at_two_while_the_server_is_away() -> None:
    refused = ApiStatusError("no", status=500)
    backoff = Backoff(jitter=lambda: 1.0)
    assert [backoff.failed(refused) for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    assert backoff.failed(refused, healthy_s=119) == 30.0
    assert backoff.failed(refused, healthy_s=120) == 0.8

    backoff = Backoff(jitter=lambda: 1.0)
    assert [backoff.failed(Unreachable("no")) for _ in range(7)] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


def test_retry_after_of_a_refused_watch_is_followed() -> None:
    busy = ApiStatusError("no", status=429, retry_after=7.0)
    assert Backoff().failed(busy) == 7.0
