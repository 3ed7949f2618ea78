from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from tests.unit.kube.scripted_server import ScriptedServer, gives, refuses

from gpuready.kube.access import Access
from gpuready.kube.client import KubeClient
from gpuready.kube.events import BURST, WARNING, EventRecorder

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u1"}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team"}}


def noon() -> datetime:
    return datetime(2026, 1, 1, 12, tzinfo=UTC)


async def test_an_event_about_a_node_goes_to_the_default_namespace(server: ScriptedServer) -> None:
    server.answers = [gives({})]

    async with server.client() as client:
        recorder = EventRecorder(client, "gpuready-node-agent", instance="n1", now=noon)
        await recorder.event(NODE, WARNING, "DeviceUnhealthy", "GPU-1: XID 79")

    sent = msgspec.json.decode(server.bodies[0])
    assert server.paths() == ["/api/v1/namespaces/default/events"]
    assert sent["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}
    assert (sent["type"], sent["reason"], sent["message"]) == ("Warning", "DeviceUnhealthy", "GPU-1: XID 79")
    assert sent["source"] == {"component": "gpuready-node-agent", "host": "n1"}
    assert (sent["count"], sent["lastTimestamp"]) == (1, "2026-01-01T12:00:00Z")


async def test_the_same_words_again_are_counted_on_the_same_event(server: ScriptedServer) -> None:
    server.answers = [gives({})]

    async with server.client() as client:
        recorder = EventRecorder(client, "c", now=noon)
        for _ in range(3):
            await recorder.event(POD, WARNING, "R", "m")

    name = msgspec.json.decode(server.bodies[0])["metadata"]["name"]
    assert [each.method for each in server.requests] == ["POST", "PATCH", "PATCH"]
    assert server.requests[2].path == f"/api/v1/namespaces/team/events/{name}"
    assert msgspec.json.decode(server.bodies[2]) == {"count": 3, "lastTimestamp": "2026-01-01T12:00:00Z"}


async def test_an_event_that_the_server_forgot_is_created_anew(server: ScriptedServer) -> None:
    server.answers = [gives({}), refuses(404, "NotFound"), gives({})]

    async with server.client() as client:
        recorder = EventRecorder(client, "c")
        await recorder.event(POD, WARNING, "R", "m")
        await recorder.event(POD, WARNING, "R", "m")

    assert [each.method for each in server.requests] == ["POST", "PATCH", "POST"]


async def test_a_flood_about_one_object_is_cut_and_another_object_still_heard(server: ScriptedServer) -> None:
    server.answers = [gives({})]
    now = [0.0]

    async with server.client() as client:
        recorder = EventRecorder(client, "c", clock=lambda: now[0])
        for number in range(BURST + 10):
            await recorder.event(POD, WARNING, "R", f"message {number}")
        assert len(server.requests) == BURST
        await recorder.event(NODE, WARNING, "R", "m")
        assert len(server.requests) == BURST + 1
        now[0] = 300.0
        await recorder.event(POD, WARNING, "R", "later")

    assert len(server.requests) == BURST + 2


async def test_a_caller_never_hears_of_a_failure(server: ScriptedServer) -> None:
    server.answers = [refuses(403, "Forbidden")]

    async with server.client() as client:
        await EventRecorder(client, "c").event(POD, WARNING, "R", "m")
    async with KubeClient(Access(server="http://127.0.0.1:1")) as nobody:
        await EventRecorder(nobody, "c").event(POD, WARNING, "R", "m")
