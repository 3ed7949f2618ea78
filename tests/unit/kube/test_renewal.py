"""Credentials and CAs that others replace on disk, and answers that no honest server gives."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.unit.kube.certificates import certificate
from tests.unit.kube.scripted_server import ScriptedServer, gives, node, refuses

from gpuready.kube import answers, errors
from gpuready.kube.access import TokenFile, in_cluster
from gpuready.kube.client import KubeClient
from gpuready.kube.resources import DAEMONSETS, NODES

ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"


async def test_a_ca_that_was_replaced_on_disk_is_trusted_without_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / ACCOUNT
    folder.mkdir(parents=True)
    (old, _), (new, key) = certificate(), certificate()
    (folder / "ca.crt").write_bytes(old)
    (folder / "token").write_text("t")
    (tmp_path / "server.pem").write_bytes(new + key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.pem")
    server = ScriptedServer()
    server.answers = [gives(node("n1", "1"))]
    await server.start(tls)
    env = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(server.port),
        "GPUREADY_ROOT": str(tmp_path),
    }

    async with KubeClient(in_cluster(env)) as client:
        with pytest.raises(errors.Away, match="not trusted"):
            await client.get(NODES, "n1")
        (folder / "ca.crt").write_bytes(new)
        assert (await client.get(NODES, "n1"))["metadata"]["name"] == "n1"
    await server.stop()


async def test_a_token_that_is_being_written_does_not_replace_the_last_one(
    server: ScriptedServer, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    server.answers = [gives({})]
    async with server.client(TokenFile(file)) as client:
        await client.get(NODES, "n1")
        for content in (b"", b"\xff\xfe", b"two\nlines"):
            file.write_bytes(content)
            os.utime(file, ns=(1, len(content)))
            await client.get(NODES, "n1")

    assert {each.headers["Authorization"] for each in server.requests} == {"Bearer first"}


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"two\nlines"], ids=["empty", "binary", "two lines"])
async def test_what_is_no_token_is_an_error_that_names_the_file(
    server: ScriptedServer, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    async with server.client(TokenFile(file, named="/var/run/token")) as client:
        with pytest.raises(errors.Away, match="cannot read the token /var/run/token"):
            await client.get(NODES, "n1")

    assert server.requests == []


def test_the_clock_of_the_wall_does_not_move_a_token(tmp_path: Path) -> None:
    """The file's age is counted by a clock that nobody sets; its time on disk may go back."""
    file, now = tmp_path / "token", [0.0]
    file.write_text("first")
    token = TokenFile(file, clock=lambda: now[0])
    assert token.token() == "first"

    file.write_text("second")
    os.utime(file, (0, 0))
    assert token.token() == "second", "an hour back, or fifty years"


async def test_a_long_wait_is_left_to_the_caller(server: ScriptedServer) -> None:
    server.answers = [refuses(429, "TooManyRequests", Retry_After="60")]
    async with server.client() as client:
        with pytest.raises(errors.TooManyRequests) as caught:
            async with asyncio.timeout(10):
                await client.get(NODES, "n1")

    assert caught.value.retry_after == 60
    assert len(server.requests) == 1


async def test_a_kept_connection_that_the_server_closed_costs_one_more_try_for_what_may_arrive_twice(
    server: ScriptedServer,
) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    body = {"metadata": {"name": "d", "namespace": "ns"}}
    for call in ("get", "apply", "delete"):
        server.answers = [cut, cut, gives(body)]  # the HTTP library itself tries some verbs once more
        async with server.client() as client:
            if call == "get":
                await client.get(NODES, "n1")
            elif call == "apply":
                server.answers.pop(0)
                await client.apply(DAEMONSETS, body)
            else:
                await client.delete(DAEMONSETS, "d", "ns")

    server.requests.clear()
    server.answers = [cut, gives(body)]
    async with server.client() as client:
        with pytest.raises(errors.Cut):
            await client.create(DAEMONSETS, body)
    assert len(server.requests) == 1, "a create may have been done"


async def test_an_answer_without_an_end_is_given_up_not_kept(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MAX_ANSWER_BYTES", 1 << 20)
    written = [0]

    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b"x" * (64 << 10))
            written[0] += 1
        return response

    server.answers = [flood]
    async with server.client() as client:
        with pytest.raises(errors.Unreachable, match="larger than 1 MiB"):
            await client.get(NODES, "n1")
    assert written[0] < 1000


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(500, b"[" * 100_000, id="too deep"),
        pytest.param(500, b'{"details":"text","reason":7,"message":["a"],"code":"x"}', id="odd shapes"),
        pytest.param(502, b"<html>bad gateway</html>", id="a page"),
        pytest.param(400, b"\xff\xfe", id="no text"),
        pytest.param(418, b"x" * (1 << 20), id="long"),
        pytest.param(200, b"[" * 100_000, id="too deep, 200"),
        pytest.param(200, b'"text"', id="no object"),
        pytest.param(200, b"null", id="null"),
        pytest.param(304, b"", id="not modified"),
    ],
)
async def test_no_answer_whatever_its_shape_is_anything_but_an_error_of_ours(
    server: ScriptedServer, status: int, body: bytes
) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body)

    server.answers = [answer]
    async with server.client() as client:
        with pytest.raises((errors.ApiStatusError, errors.Unreachable)) as caught:
            await client.get(NODES, "n1")

    assert "GET /api/v1/nodes/n1" in str(caught.value)
    assert len(str(caught.value)) < 600


async def test_a_redirect_is_never_followed(server: ScriptedServer) -> None:
    async def redirect(_: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    server.answers = [redirect]
    async with server.client() as client:
        with pytest.raises(errors.Unreachable, match="sends us elsewhere"):
            await client.merge_patch(NODES, "n1", {"a": 1})
    assert [request.method for request in server.requests] == ["PATCH"]


def test_a_retry_after_that_is_no_number_of_seconds_is_not_believed() -> None:
    for text in ("Wed, 21 Oct 2026 07:28:00 GMT", "-5", "inf", "nan", "soon"):
        assert errors.error_of(429, {}, retry_after=text).retry_after is None
    details: dict[str, Any] = {"details": {"retryAfterSeconds": 3}}
    assert errors.error_of(429, details, retry_after="soon").retry_after == 3


@pytest.mark.parametrize(
    ("status", "body", "why", "next_step"),
    [
        pytest.param(
            502,
            "<html>Bad Gateway</html>",
            "but of a proxy, gateway or load balancer before it",
            "behind it runs",
            id="page",
        ),
        pytest.param(
            407, "", "but of a proxy", "that its address is right", id="a proxy that wants a password"
        ),
        pytest.param(404, "404 page not found", "", "", id="plain words are the API server's own"),
        pytest.param(
            429,
            {"message": "slow down", "details": {"retryAfterSeconds": 7}},
            "takes no more requests of ours just now",
            "try again in 7 s",
            id="too many requests",
        ),
    ],
)
def test_who_did_not_let_us_through_and_what_to_do(status: int, body: Any, why: str, next_step: str) -> None:
    error = errors.error_of(status, body)
    assert why in error.why
    assert next_step in error.next_step
    assert bool(error.why) == bool(error.next_step) == bool(why)
