"""Every request is told once, under the name that RBAC and the audit log give it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from tests.unit.kube.scripted_server import ScriptedServer, error_event, gives, lists, node, refuses, streams

from gpuready.kube.access import Access
from gpuready.kube.backoff import Backoff
from gpuready.kube.cache import WatchCache
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import ApiStatusError, Unreachable
from gpuready.kube.requests import name_of
from gpuready.kube.resources import DAEMONSETS, NODES

APPS = "/apis/apps/v1"
Row = tuple[str, str, str]


@pytest.mark.parametrize(
    ("method", "path", "params", "name"),
    [
        pytest.param("GET", "/api/v1/nodes", {}, ("list", "nodes"), id="a list"),
        pytest.param("GET", "/api/v1/nodes", {"watch": "true"}, ("watch", "nodes"), id="a watch"),
        pytest.param("GET", "/api/v1/nodes/gpu-17", {}, ("get", "nodes"), id="one object"),
        pytest.param("PATCH", "/api/v1/nodes/gpu-17/status", {}, ("patch", "nodes/status"), id="its status"),
        pytest.param(
            "GET", f"{APPS}/namespaces/n/daemonsets", {}, ("list", "daemonsets"), id="in a namespace"
        ),
        pytest.param(
            "DELETE", f"{APPS}/namespaces/n/daemonsets/d", {}, ("delete", "daemonsets"), id="delete"
        ),
        pytest.param(
            "DELETE", f"{APPS}/namespaces/n/daemonsets", {}, ("deletecollection", "daemonsets"), id="all"
        ),
        pytest.param(
            "POST", "/api/v1/namespaces/n/pods/p/eviction", {}, ("create", "pods/eviction"), id="evict"
        ),
        pytest.param("PUT", "/api/v1/namespaces/n/configmaps/c", {}, ("update", "configmaps"), id="replace"),
        pytest.param("GET", "/api/v1/namespaces/n", {}, ("get", "namespaces"), id="a namespace itself"),
        pytest.param("PUT", "/api/v1/namespaces/n/status", {}, ("update", "namespaces/status"), id="and its"),
        pytest.param("GET", "/version", {}, ("get", "other"), id="no resource"),
        pytest.param("GET", "/apis/apps/v1", {}, ("get", "other"), id="discovery"),
    ],
)
def test_a_request_has_the_verb_and_resource_of_rbac(
    method: str, path: str, params: dict[str, str], name: tuple[str, str]
) -> None:
    assert name_of(method, path, params) == name


async def test_every_try_is_told_with_its_answer(server: ScriptedServer) -> None:
    server.answers = [refuses(429, "TooManyRequests", Retry_After="0.01"), lists(node("a", "1")), gives({})]
    told: list[Row] = []

    async with server.client() as client:
        client.observer = lambda *row: told.append(row)
        await client.list(NODES)
        await client.merge_patch(NODES, "a", {}, subresource="status")
        server.answers = [refuses(422, "Invalid")]
        with pytest.raises(ApiStatusError):
            await client.apply(DAEMONSETS, {"metadata": {"name": "d", "namespace": "n"}})

    assert told == [
        ("list", "nodes", "429"),
        ("list", "nodes", "200"),
        ("patch", "nodes/status", "200"),
        ("patch", "daemonsets", "422"),
    ]


async def test_a_request_without_an_answer_is_told_too() -> None:
    told: list[Row] = []

    async with KubeClient(Access(server="http://127.0.0.1:1")) as client:
        client.observer = lambda *row: told.append(row)
        with pytest.raises(Unreachable):
            await client.create(NODES, {"metadata": {"name": "a"}})

    assert told == [("create", "nodes", "unreachable")]


async def test_a_watch_counts_why_it_started_anew(server: ScriptedServer) -> None:
    server.answers = [
        lists(version="10"),
        streams(error_event(410, "Expired")),
        lists(version="20"),
        refuses(403, "Forbidden"),
        streams(then="cut"),
        streams({"type": "ADDED", "object": node("a", "21")}, then="stay"),
    ]
    async with server.client() as client:
        cache: WatchCache[dict[str, Any]] = WatchCache(client, NODES, backoff=Backoff(jitter=lambda: 0.02))
        found = asyncio.Event()
        cache.add_handler(lambda old, new: found.set())
        task = asyncio.create_task(cache.run())
        await asyncio.wait_for(found.wait(), 30)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    assert cache.restarts == {"expired": 1, "refused": 1, "unreachable": 1}
