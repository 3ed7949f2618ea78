"""Logs and proxied requests reach the node and the pod that they are for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from .harness import NODES, PODS, Api, node, pod


@dataclass
class Backend:
    """A server on loopback that notes what it is asked and answers as it is told."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head.split(b"\r\n")[0].decode())
        writer.write(self.answer)
        await writer.drain()
        writer.close()


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    backend = Backend()
    server = await asyncio.start_server(backend.serve, "127.0.0.1", 0)
    backend.port = server.sockets[0].getsockname()[1]
    yield backend
    server.close()
    await server.wait_closed()


async def a_running_pod(api: Api, backend: Backend) -> None:
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": backend.port}},
    }
    await api.made(NODES, node() | {"status": status})
    one = pod()
    one["metadata"]["labels"] = {"app": "x"}
    one["spec"]["containers"][0]["ports"] = [{"name": "metrics", "containerPort": backend.port}]
    await api.made(PODS, one)
    await api.create(
        f"{PODS}/p1/binding", {"metadata": {"name": "p1"}, "target": {"kind": "Node", "name": "n1"}}
    )
    ready = {"podIP": "127.0.0.1", "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await api.patch(f"{PODS}/p1/status", {"status": ready})


async def test_logs_come_from_the_kubelet(api: Api, backend: Backend) -> None:
    await a_running_pod(api, backend)

    answer = await api.get(f"{PODS}/p1/log?tailLines=3&follow=true")

    assert (answer.code, answer.text) == (200, b"hello")
    assert backend.asked == ["GET /containerLogs/default/p1/main?follow=true&tailLines=3 HTTP/1.1"]


async def test_a_kubelets_refusal_becomes_a_status(api: Api, backend: Backend) -> None:
    await a_running_pod(api, backend)
    backend.answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 18\r\n\r\nwaiting to start: "

    answer = await api.get(f"{PODS}/p1/log")

    assert (answer.code, answer.json["reason"], answer.message) == (400, "BadRequest", "waiting to start:")


async def test_a_log_needs_a_container_and_a_node(api: Api) -> None:
    two = pod()
    two["spec"]["containers"].append({"name": "side", "image": "gpuready:1"})
    await api.made(PODS, two)

    unnamed = await api.get(f"{PODS}/p1/log")
    nowhere = await api.get(f"{PODS}/p1/log?container=side")

    assert unnamed.message == "a container name must be specified for pod p1, choose one of: [main side]"
    assert nowhere.message == "pod p1 does not have a host assigned"


async def test_requests_are_passed_on_to_pods_services_and_nodes(api: Api, backend: Backend) -> None:
    await a_running_pod(api, backend)
    service = {
        "metadata": {"name": "s"},
        "spec": {"selector": {"app": "x"}, "ports": [{"port": 80, "targetPort": "metrics"}]},
    }
    await api.made("/api/v1/namespaces/default/services", service)

    assert (await api.get(f"{PODS}/p1:{backend.port}/proxy/a/b?c=d")).text == b"hello"
    assert (await api.get("/api/v1/namespaces/default/services/s/proxy/x")).text == b"hello"
    assert (await api.get(f"{NODES}/n1/proxy/healthz")).text == b"hello"
    assert backend.asked == ["GET /a/b?c=d HTTP/1.1", "GET /x HTTP/1.1", "GET /healthz HTTP/1.1"]


async def test_a_silent_pod_is_unavailable(api: Api, backend: Backend) -> None:
    await a_running_pod(api, backend)

    answer = await api.get(f"{PODS}/p1:1/proxy/")

    assert (answer.code, answer.json["reason"]) == (503, "ServiceUnavailable")
    assert answer.message.startswith("error trying to reach service: ")
