"""What is said of an API server that is away, or that keeps something from us."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.unit.kube.scripted_server import (
    ScriptedServer,
    answers_html,
    event,
    gives,
    lists,
    node,
    refuses,
    streams,
)
from tests.unit.kube.test_cache import Seen, quick, running

from gpuready.kube.cache import WatchCache
from gpuready.kube.contact import Contact
from gpuready.kube.errors import Away, Cut, Forbidden
from gpuready.kube.resources import NODES

REFUSED = 'nodes is forbidden: User "u" cannot watch resource "nodes" in API group "" at the cluster scope'


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.levelname} {record.message}" for record in caplog.records]


def test_an_outage_is_said_once_whoever_notices_it_and_its_end_too(caplog) -> None:
    caplog.set_level(logging.INFO)
    contact = Contact()
    refused = Away("no answer", why="connection refused")

    for watch in ("nodes", "pods", "nodes"):
        contact.failed(watch, refused)
    contact.failed("nodes", Away("no answer", why="its certificate was valid until yesterday"))
    contact.works("nodes")
    contact.works("pods")

    assert said(caplog) == ["WARNING API server away"] * 2 + ["INFO API server answers again"]


def test_each_kind_that_is_kept_from_us_is_said_once_with_the_servers_words(caplog) -> None:
    caplog.set_level(logging.INFO)
    contact = Contact()
    refused = Forbidden(REFUSED, status=403, reason="Forbidden")

    contact.failed("nodes", refused)
    contact.failed("nodes", refused)
    contact.works("nodes")

    assert said(caplog) == ["WARNING cannot be read", "INFO can be read again"]
    assert caplog.records[0].fields["error"] == REFUSED


def test_connections_that_all_end_alike_are_said_once_and_again_by_those_for_whom_it_goes_on(caplog) -> None:
    caplog.set_level(logging.INFO)
    contact = Contact()
    ended = {each: Cut(f"no answer to {each}", why="the server closed the connection") for each in "abc"}

    for each in ("a", "b", "c", "a"):
        contact.failed(each, ended[each])
    assert said(caplog) == ["WARNING cannot be read"]
    contact.works("b")
    contact.works("a")
    assert said(caplog)[1:] == ["INFO can be read again"]
    contact.failed("c", ended["c"])
    contact.works("c")
    assert said(caplog)[2:] == ["WARNING cannot be read", "INFO can be read again"]


async def test_one_refusal_may_be_a_server_that_starts_and_troubles_nobody(server: ScriptedServer) -> None:
    told: list[Any] = []
    contact = Contact()
    contact.failed = lambda what, exc, who: told.append(exc)  # type: ignore[method-assign]
    server.answers = [
        lists(version="10"),
        refuses(403, "Forbidden"),
        streams(event("ADDED", node("a", "11")), then="stay"),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES, backoff=quick(), contact=contact)
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "a")

            assert cache.trouble is None
    assert told == []
    assert len(server.requests) == 3  # resumed, not listed again


async def test_a_server_that_comes_back_may_refuse_once_until_it_knows_its_rules(
    server: ScriptedServer,
) -> None:
    told: list[Any] = []
    contact = Contact()
    contact.failed = lambda what, exc, who: told.append(exc)  # type: ignore[method-assign]
    server.answers = [
        lists(version="10"),
        streams(then="cut"),
        refuses(403, "Forbidden"),
        streams(event("ADDED", node("a", "11")), then="stay"),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES, backoff=quick(), contact=contact)
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "a")
    assert told == []
    assert len(server.requests) == 4


async def test_a_watch_that_stays_forbidden_is_in_trouble_and_falls_back_to_lists(
    server: ScriptedServer,
) -> None:
    server.answers = [
        lists(node("a", "1"), version="10"),
        refuses(403, "Forbidden"),
        refuses(403, "Forbidden"),
        lists(node("b", "12"), version="12"),
        refuses(403, "Forbidden"),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES, backoff=quick())
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "b")

            assert isinstance(cache.trouble, Forbidden)
            assert cache.keys() == ["b"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(gives({}), id="an empty object"),
        pytest.param(gives({"kind": "Status", "status": "Success"}), id="a Status"),
        pytest.param(gives({"kind": "NodeList", "items": []}), id="a list of no version"),
        pytest.param(gives([]), id="an array"),
        pytest.param(answers_html(), id="a login page"),
    ],
)
async def test_an_answer_of_somebody_else_never_passes_for_an_empty_cluster(
    server: ScriptedServer, answer: Any
) -> None:
    server.answers = [
        lists(node("a", "1"), version="10"),
        refuses(410, "Expired"),
        answer,
        answer,
        lists(node("a", "1"), node("b", "12"), version="12"),
        streams(then="stay"),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES, backoff=quick())
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "b")

    assert seen.log == [("added", "a"), ("added", "b")]


async def test_a_watch_that_falls_silent_is_asked_for_again_from_its_last_version(
    server: ScriptedServer,
) -> None:
    """Half a line that comes drop by drop is silence too."""
    server.answers = [
        lists(version="10"),
        streams(event("ADDED", node("a", "11")), b'{"type":"ADDED"', then="stay"),
        streams(event("ADDED", node("b", "12")), then="stay"),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES, idle_s=0.1)
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "b")

    assert "resourceVersion=11" in server.paths()[2]
    assert cache.restarts == {}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"\x00\xff{{{\n", id="no JSON"),
        pytest.param(b'{"type":"ADDED"}\n', id="no object"),
        pytest.param(b'{"type":"ADDED","object":5}\n', id="a number"),
        pytest.param(
            b'{"type":"ADDED","object":{"metadata":{"resourceVersion":7}}}\n', id="a version that is no text"
        ),
        pytest.param(b'{"type":"ERROR","object":"no"}\n', id="an error of no shape"),
        pytest.param(
            b'{"type":"ERROR","object":{"code":"x","details":3,"message":[]}}\n', id="an error of odd shapes"
        ),
        pytest.param(b"[" * 100_000 + b"\n", id="too deep"),
    ],
)
async def test_no_line_of_a_watch_ends_it_for_good(server: ScriptedServer, line: bytes) -> None:
    server.answers = [
        lists(version="10"),
        streams(event("ADDED", node("a", "11")), line, then="stay"),
        streams(event("ADDED", node("b", "12")), then="stay"),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES, backoff=quick())
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "b")

    assert seen.log == [("added", "a"), ("added", "b")]


async def test_an_object_without_a_name_does_not_stop_the_others(server: ScriptedServer) -> None:
    server.answers = [
        lists({"metadata": {"labels": {}}}, {"spec": {}}, node("a", "1"), version="10"),
        streams(
            event("ADDED", {"metadata": {"resourceVersion": "11"}}),
            event("ADDED", node("b", "12")),
            then="stay",
        ),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES)
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "b")

    assert cache.keys() == ["a", "b"]


async def test_a_server_restored_from_a_backup_is_listed_anew(server: ScriptedServer) -> None:
    too_large = {
        "kind": "Status",
        "code": 504,
        "reason": "Timeout",
        "message": "Timeout: Too large resource version: 10, current: 3",
        "details": {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        },
    }
    server.answers = [
        lists(node("new", "10"), version="10"),
        gives(too_large, 504),
        lists(node("old", "3"), version="3"),
        streams(then="stay"),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES, backoff=quick())
        seen = Seen(cache)
        async with running(cache):
            await seen.until_last("added", "old")

    assert seen.log == [("added", "new"), ("deleted", "new"), ("added", "old")]
    assert "resourceVersion=10" in server.paths()[1]


def test_of_two_watches_of_one_kind_the_second_that_works_again_is_news_too():
    """The status tells each trouble: it must be written again when the last of them is over."""
    contact = Contact()
    woken: list[str] = []
    refused = Forbidden("daemonsets is forbidden", status=403, reason="Forbidden")
    for who in ("gpu-operator", ""):
        contact.failed("daemonsets", refused, who)
    contact.on_change = lambda: woken.append("again")

    contact.works("daemonsets", "")
    assert woken == ["again"]
    contact.works("daemonsets", "gpu-operator")
    assert woken == ["again", "again"]
