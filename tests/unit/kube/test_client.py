from __future__ import annotations

import asyncio
import os
import ssl
from asyncio.sslproto import SSLProtocol
from pathlib import Path

import pytest
from tests.unit.kube.certificates import certificate
from tests.unit.kube.scripted_server import ScriptedServer, gives, lists, node, refuses

from gpuready.kube import errors
from gpuready.kube.access import Access, TokenFile
from gpuready.kube.client import KubeClient
from gpuready.kube.resources import DAEMONSETS, NODES, PODS


async def test_a_list_is_read_page_by_page_and_its_objects_say_what_they_are(server: ScriptedServer) -> None:
    bare = {"metadata": {"name": "b"}}  # inside a list the server leaves out apiVersion and kind
    server.answers = [lists(node("a", "1"), version="7", more="token"), lists(bare, version="7")]

    async with server.client() as client:
        items, version = await client.list(NODES, label_selector="gpu=yes", limit=1)

    assert [each["metadata"]["name"] for each in items] == ["a", "b"]
    assert (items[1]["apiVersion"], items[1]["kind"], version) == ("v1", "Node", "7")
    assert server.paths() == [
        "/api/v1/nodes?labelSelector=gpu%3Dyes&limit=1",
        "/api/v1/nodes?labelSelector=gpu%3Dyes&limit=1&continue=token",
    ]


async def test_a_page_is_small_since_what_it_takes_to_read_one_stays_with_the_process(
    server: ScriptedServer,
) -> None:
    server.answers = [gives({"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": []})]

    async with server.client() as client:
        await client.list(NODES)

    assert server.paths() == ["/api/v1/nodes?limit=100"]


async def test_a_connection_by_tls_sets_aside_a_quarter_of_what_asyncio_would() -> None:
    """An operator has four dozen of them."""
    loop = asyncio.get_running_loop()
    protocol = SSLProtocol(loop, asyncio.Protocol(), ssl.create_default_context(), None)

    assert len(protocol._ssl_buffer) == 64 * 1024


async def test_a_list_starts_anew_when_its_continue_token_is_too_old(server: ScriptedServer) -> None:
    server.answers = [lists(node("a", "1"), more="old"), refuses(410, "Expired"), lists(node("b", "2"))]

    async with server.client() as client:
        items, _ = await client.list(NODES)

    assert [each["metadata"]["name"] for each in items] == ["b"]


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        pytest.param(404, "NotFound", errors.NotFound, id="404"),
        pytest.param(409, "AlreadyExists", errors.AlreadyExists, id="409 because it is there"),
        pytest.param(409, "Conflict", errors.Conflict, id="409 because it changed"),
        pytest.param(403, "Forbidden", errors.Forbidden, id="403"),
        pytest.param(401, "Unauthorized", errors.Unauthorized, id="401"),
        pytest.param(410, "Expired", errors.Gone, id="410"),
        pytest.param(422, "Invalid", errors.Invalid, id="422"),
        pytest.param(500, "ServerTimeout", errors.ServerTimeout, id="500 with a reason"),
        pytest.param(500, "InternalError", errors.ApiStatusError, id="500"),
    ],
)
async def test_a_refusal_is_raised_as_its_type(
    server: ScriptedServer, status: int, reason: str, kind: type[errors.ApiStatusError]
) -> None:
    server.answers = [refuses(status, reason)]

    async with server.client() as client:
        with pytest.raises(errors.ApiStatusError) as caught:
            await client.get(NODES, "n1")

    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.reason) == (status, reason)
    assert "GET /api/v1/nodes/n1" in str(caught.value)


async def test_retry_after_is_waited_for_and_the_call_repeated(server: ScriptedServer) -> None:
    server.answers = [
        refuses(429, "TooManyRequests", Retry_After="0.05"),
        refuses(503, "ServiceUnavailable", Retry_After="0.05"),
        gives(node("n1", "1")),
    ]

    async with server.client() as client:
        assert (await client.get(NODES, "n1"))["metadata"]["name"] == "n1"

    assert len(server.requests) == 3


async def test_a_create_is_repeated_after_429_but_never_after_503(server: ScriptedServer) -> None:
    server.answers = [
        refuses(429, "TooManyRequests", Retry_After="0.01"),
        refuses(503, "ServiceUnavailable", Retry_After="0.01"),
    ]

    async with server.client() as client:
        with pytest.raises(errors.ServiceUnavailable):
            await client.create(PODS, {"metadata": {"name": "p", "namespace": "ns"}})

    assert len(server.requests) == 2


async def test_a_busy_server_is_not_asked_for_ever(server: ScriptedServer) -> None:
    server.answers = [refuses(429, "TooManyRequests", Retry_After="0.001")]

    async with server.client() as client:
        with pytest.raises(errors.TooManyRequests) as caught:
            await client.get(NODES, "n1")

    assert len(server.requests) == 5
    assert caught.value.retry_after == 0.001


async def test_a_rotated_token_is_used_at_once(server: ScriptedServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    server.answers = [gives({})]

    async with server.client(TokenFile(file)) as client:
        await client.get(NODES, "n1")
        file.write_text("second\n")
        os.utime(file, ns=(1, 1))
        await client.get(NODES, "n1")

    assert [each.headers["Authorization"] for each in server.requests] == ["Bearer first", "Bearer second"]


def test_a_token_is_read_again_after_a_minute_even_when_its_time_stands_still(tmp_path: Path) -> None:
    file, now = tmp_path / "token", [0.0]
    file.write_text("first")
    os.utime(file, ns=(5, 5))
    token = TokenFile(file, clock=lambda: now[0])
    assert token.token() == "first"
    file.write_text("second")
    os.utime(file, ns=(5, 5))

    now[0] = 59.0
    assert token.token() == "first"
    now[0] = 60.0
    assert token.token() == "second"


async def test_a_refused_token_is_read_again_and_tried_once_more(
    server: ScriptedServer, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("t")
    server.answers = [refuses(401, "Unauthorized"), gives({})]

    async with server.client(TokenFile(file)) as client:
        await client.get(NODES, "n1")

    assert len(server.requests) == 2


async def test_no_server_is_unreachable_and_says_why() -> None:
    async with KubeClient(Access(server="http://127.0.0.1:1")) as client:
        with pytest.raises(errors.Unreachable) as caught:
            await client.get(NODES, "n1")

    assert "http://127.0.0.1:1 did not answer GET /api/v1/nodes/n1" in caught.value.what
    assert caught.value.why == "nothing listens there (connection refused)"
    assert caught.value.next_step == "check that the API server runs and that its address is right"


async def test_a_server_that_speaks_no_tls_is_said_in_words(server: ScriptedServer) -> None:
    where = Access(
        server=f"https://127.0.0.1:{server.port}",
        tls=ssl.create_default_context(),
        source="/home/u/.kube/config, context c",
    )
    async with KubeClient(where) as client:
        with pytest.raises(errors.Unreachable) as caught:
            await client.get(NODES, "n1")

    assert caught.value.why == "what listens there does not speak TLS as we do"
    assert caught.value.next_step.endswith("(see /home/u/.kube/config, context c)")


async def test_a_server_of_another_cluster_is_not_trusted_and_the_way_out_is_said(tmp_path: Path) -> None:
    signed, key = certificate()
    (tmp_path / "pem").write_bytes(signed + key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "pem")
    listener = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0, ssl=tls)
    host, port = listener.sockets[0].getsockname()
    async with (
        listener,
        KubeClient(Access(server=f"https://{host}:{port}", tls=ssl.create_default_context())) as client,
    ):
        with pytest.raises(errors.Unreachable) as caught:
            await client.get(NODES, "n1")

    assert caught.value.why.startswith("its certificate is not trusted: self-signed certificate")
    assert "fetch a new kubeconfig" in caught.value.next_step


async def test_an_answer_that_is_no_json_is_unreachable(server: ScriptedServer) -> None:
    async def html(_: object) -> object:
        from aiohttp import web

        return web.Response(text="<html>proxy</html>", content_type="text/html")

    server.answers = [html]  # type: ignore[list-item]

    async with server.client() as client:
        with pytest.raises(errors.Unreachable, match="cannot be read"):
            await client.get(NODES, "n1")


async def test_apply_and_patches_carry_manager_and_content_type(server: ScriptedServer) -> None:
    server.answers = [gives({"metadata": {}})]
    obj = {"metadata": {"name": "d", "namespace": "ns"}}

    async with server.client() as client:
        await client.apply(DAEMONSETS, obj)
        await client.merge_patch(NODES, "n1", {"a": 1}, subresource="status")
        await client.strategic_patch(NODES, "n1", {"a": 1})
        await client.json_patch(NODES, "n1", [{"op": "remove", "path": "/x"}])

    assert [(each.headers["Content-Type"], each.path_qs) for each in server.requests] == [
        (
            "application/apply-patch+yaml",
            "/apis/apps/v1/namespaces/ns/daemonsets/d?fieldManager=gpuready&force=true",
        ),
        ("application/merge-patch+json", "/api/v1/nodes/n1/status?fieldManager=gpuready"),
        ("application/strategic-merge-patch+json", "/api/v1/nodes/n1?fieldManager=gpuready"),
        ("application/json-patch+json", "/api/v1/nodes/n1?fieldManager=gpuready"),
    ]
    assert all(each.headers["User-Agent"].startswith("test/") for each in server.requests)


async def test_of_an_answer_that_nobody_reads_only_the_metadata_is_asked_for(server: ScriptedServer) -> None:
    server.answers = [gives({})]

    async with server.client() as client:
        await client.strategic_patch(NODES, "n1", {"metadata": {"labels": {"a": "b"}}})
        await client.get(NODES, "n1")

    asked = [each.headers["Accept"] for each in server.requests]
    assert asked == ["application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json"]


async def test_delete_tells_propagation_and_preconditions(server: ScriptedServer) -> None:
    server.answers = [gives({})]

    async with server.client() as client:
        await client.delete(PODS, "p", "ns", propagation="Foreground", preconditions={"uid": "u"})

    assert b'"propagationPolicy":"Foreground"' in server.bodies[0]
    assert b'"preconditions":{"uid":"u"}' in server.bodies[0]
