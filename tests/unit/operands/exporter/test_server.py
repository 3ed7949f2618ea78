"""What scrapers, probes and strangers get on port 9400."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import os
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpuready.chain.verdict import State
from gpuready.errors import UsageError
from gpuready.operands.exporter import server as serving
from gpuready.operands.exporter import web_config
from gpuready.operands.exporter.exposition import GAUGE, Family
from gpuready.operands.exporter.health import Health
from gpuready.operands.exporter.page import Page
from gpuready.operands.exporter.server import CannotListen, Server, Site

FINE = Health(State.OK, "Ready", "every GPU answers")
PAGE = Page([Family("DCGM_FI_DEV_GPU_UTIL", GAUGE, "utilisation", [('{gpu="0"}', 97)])])
BIG = Page([Family("big", GAUGE, "x", [(f'{{n="{n:04000}"}}', n) for n in range(3000)])])
TLS_FILE = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
ALICE = "basic_auth_users: {alice: $2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a}\n"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server(Site(lambda: PAGE, lambda: FINE))
    yield made
    await made.close()


async def ask(port: int, path: str, *headers: str, method: str = "GET", tls: ssl.SSLContext | None = None):
    """(status, headers, body) of a request that ends its connection."""
    name = "localhost" if tls else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(30):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rows = head.decode().split("\r\n")
    return int(first.split()[1]), dict(row.split(": ", 1) for row in rows), body


async def test_metrics_are_text_unless_asked_otherwise(server):
    port = await server.listen("127.0.0.1", 0)

    status, headers, body = await ask(port, "/metrics")

    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert body.decode() == (
        "# HELP DCGM_FI_DEV_GPU_UTIL utilisation\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 97\n'
    )


async def test_open_metrics_and_gzip_for_those_who_ask(server):
    port = await server.listen("127.0.0.1", 0)

    status, headers, body = await ask(
        port, "/metrics", "Accept: application/openmetrics-text", "Accept-Encoding: gzip"
    )

    assert status == 200
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body).endswith(b'{gpu="0"} 97\n# EOF\n')


async def test_a_wish_that_is_sent_in_two_lines_is_one_wish(server):
    port = await server.listen("127.0.0.1", 0)
    wishes = ("Accept: application/openmetrics-text;q=0.9", "Accept: text/plain;q=0.1")

    _, headers, _ = await ask(port, "/metrics", *wishes, "Connection: keep-alive")

    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert headers["Connection"] == "close"  # `ask` wishes for it first


@pytest.mark.parametrize(
    ("health", "status", "text"),
    [
        pytest.param(FINE, 200, "OK\n", id="all is well"),
        pytest.param(
            Health(State.DEGRADED, "GpuSilent", "1 of 8 GPUs is silent", "reset it", ("GPU 3: 12 s",)),
            200,
            "DEGRADED\n1 of 8 GPUs is silent\nGPU 3: 12 s\nnext: reset it\n",
            id="one GPU is silent",
        ),
        pytest.param(
            Health(State.WAITING, "WaitingForDriver", "the gate driver-ready is not there"),
            503,
            "WAITING\nthe gate driver-ready is not there\n",
            id="no driver yet",
        ),
    ],
)
async def test_health_names_what_is_wrong_and_fails_only_when_there_is_nothing_to_scrape(
    server, health, status, text
):
    server.site = Site(lambda: PAGE, lambda: health)
    port = await server.listen("127.0.0.1", 0)

    assert (await ask(port, "/health"))[::2] == (status, text.encode())


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/", 200, b'href="./metrics"'),
        ("GET", "/metric", 404, b"ask /metrics or /health"),
        ("POST", "/metrics", 405, b"only GET"),
        ("HEAD", "/metrics", 200, b""),
        ("GET", "/metrics?x=1", 200, b"97"),
    ],
)
async def test_other_requests_get_a_clear_answer(server, method, path, status, words):
    port = await server.listen("127.0.0.1", 0)

    found, headers, body = await ask(port, path, method=method)

    assert found == status
    assert words in body
    assert method != "HEAD" or (body == b"" and int(headers["Content-Length"]) > 0)


@pytest.mark.parametrize("junk", [b"\x16\x03\x01\x02\x00\r\n\r\n", b"hello\r\n\r\n", b"GET / SMTP/1\r\n\r\n"])
async def test_what_is_no_http_is_told_so(server, junk):
    port = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(junk)

    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()


async def test_a_head_without_end_is_cut_off(server):
    port = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 10_000)

    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()


async def test_a_scraper_keeps_its_connection(server):
    port = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(3):
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(3) == b"OK\n"
        assert b"Connection: close" not in head
    writer.close()


async def test_a_reader_that_reads_nothing_holds_up_nobody_and_is_dropped(server, monkeypatch):
    monkeypatch.setattr(serving, "WRITE_S", 0.3)
    server.site = Site(lambda: BIG, lambda: FINE)
    port = await server.listen("127.0.0.1", 0)
    slow_reader, slow = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    slow.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    await slow_reader.readexactly(1)

    server.site = Site(lambda: PAGE, lambda: FINE)
    assert (await ask(port, "/metrics"))[0] == 200, "another scraper is served meanwhile"

    async with asyncio.timeout(30):
        while server._open:
            await asyncio.sleep(0.02)
    slow.close()


async def test_clients_that_send_many_requests_at_once_take_turns_with_a_scraper(server):
    served = 0

    def page() -> Page:
        nonlocal served
        served += 1
        return PAGE

    clients, each = 20, 200
    when_asked = []
    server.site = Site(page, lambda: when_asked.append(served) or FINE)
    port = await server.listen("127.0.0.1", 0)
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(clients)]
    for _, writer in opened:
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n" * each)
    assert (await ask(port, "/health"))[0] == 200

    assert when_asked[0] < clients * each / 4, "the scraper waited until all of them had been served"
    for _, writer in opened:
        writer.close()


async def test_a_scraper_that_closes_its_half_still_gets_its_answer(server):
    port = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    writer.write_eof()

    assert (await reader.read()).endswith(b'{gpu="0"} 97\n')
    writer.close()


async def test_two_scrapers_read_the_same_bytes(server):
    port = await server.listen("127.0.0.1", 0)

    answers = await asyncio.gather(*(ask(port, "/metrics") for _ in range(8)))

    assert len({body for _, _, body in answers}) == 1


async def test_whoever_keeps_connections_and_asks_nothing_keeps_no_scraper_out(server, monkeypatch):
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 2)
    port = await server.listen("127.0.0.1", 0)
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    for reader, writer in idle:
        writer.write(b"GET /health HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"OK\n")

    assert (await ask(port, "/health"))[::2] == (200, b"OK\n")

    oldest, newer = (reader for reader, _ in idle)
    assert await oldest.read() == b""
    assert not newer.at_eof()
    for _, writer in idle:
        writer.close()


async def test_a_burst_of_connections_that_ask_nothing_keeps_no_scraper_out_either(server, monkeypatch):
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 8)
    port = await server.listen("127.0.0.1", 0)
    with contextlib.ExitStack() as opened:
        connections = [opened.enter_context(socket.socket()) for _ in range(81)]
        for connection in connections:  # all there before the server has looked at the first
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
        scraper = connections[-1]
        scraper.send(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")

        async with asyncio.timeout(30):
            answer = await asyncio.get_running_loop().sock_recv(scraper, 100)

        assert answer.startswith(b"HTTP/1.1 200 OK")


async def test_more_connections_that_all_ask_are_refused_and_told(server, monkeypatch):
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 2)
    port = await server.listen("127.0.0.1", 0)
    asking = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    for _, writer in asking:
        writer.write(b"GET /health HT")  # and no more of it
    while server._idle or len(server._open) < 2:
        await asyncio.sleep(0)

    assert (await ask(port, "/health"))[::2] == (503, b"too many connections\n")
    for _, writer in asking:
        writer.close()


async def test_a_taken_port_is_named_with_what_to_do(server):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CannotListen) as caught:
            await server.listen("127.0.0.1", port)
    assert caught.value.what == f"cannot listen on 127.0.0.1, port {port}"
    assert "another program holds it" in caught.value.why
    assert "DCGM_EXPORTER_LISTEN" in caught.value.next_step


async def test_every_address_means_both_families(server):
    port = await server.listen("", 0)

    assert (await ask(port, "/health"))[0] == 200
    if socket.has_dualstack_ipv6():
        _, writer = await asyncio.open_connection("::1", port)
        writer.close()


def test_a_page_is_made_once_for_each_way_of_asking():
    page = Page([Family("a", GAUGE, "A.", [("", 1)])])

    assert page.body() is page.body()
    assert page.body(zipped=True) is page.body(zipped=True)
    assert page.series == 1


def test_what_was_asked_of_the_last_page_is_ready_in_the_next():
    first = Page([])
    first.body(zipped=True)

    after = Page([Family("a", GAUGE, "A.", [("", 1)])], like=first)

    assert set(after._bodies) == {("text", False), ("text", True)}


# --- TLS and passwords ------------------------------------------------------------------------------------


def basic(name: str, password: str) -> str:
    return f"Authorization: Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


async def test_a_password_opens_metrics_and_probes_need_none(server, tmp_path):
    config = written(tmp_path, ALICE)
    server.site = Site(lambda: PAGE, lambda: FINE, web_config.Door(config.users).allows)
    port = await server.listen("127.0.0.1", 0)

    assert (await ask(port, "/metrics", basic("alice", "secret")))[0] == 200
    assert (await ask(port, "/metrics", basic("alice", "secret")))[0] == 200, "from memory"
    status, headers, _ = await ask(port, "/metrics")
    assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="gpuready exporter"')
    for wrong in (
        basic("alice", "Secret"),
        basic("bob", "secret"),
        "Authorization: Basic ???",
        basic("", ""),
    ):
        assert (await ask(port, "/metrics", wrong))[0] == 401
    assert (await ask(port, "/health"))[::2] == (200, b"OK\n")


async def test_a_stranger_learns_no_reason_from_health(server, tmp_path):
    sick = Health(State.DEGRADED, "GpuSilent", "GPU-secret is silent")
    door = web_config.Door(written(tmp_path, ALICE).users)
    server.site = Site(lambda: PAGE, lambda: sick, door.allows)
    port = await server.listen("127.0.0.1", 0)

    assert (await ask(port, "/health"))[2] == b"DEGRADED\n"
    assert b"GPU-secret" in (await ask(port, "/health", basic("alice", "secret")))[2]


async def test_tls_by_the_file_of_prometheus_exporters(server, tmp_path):
    make_certificate(tmp_path)
    config = written(tmp_path, TLS_FILE)
    port = await server.listen("127.0.0.1", 0, tls=web_config.tls_context(config, tmp_path / "web.yml"))
    client = ssl.create_default_context(cafile=tmp_path / "cert.pem")

    status, _, body = await ask(port, "/metrics", tls=client)

    assert status == 200
    assert body.endswith(b'{gpu="0"} 97\n')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("basic_auth_user: {a: b}", "unknown field basic_auth_user in the file"),
        ("basic_auth_users: {a: secret}", "the password of a is no bcrypt hash"),
        ("tls_server_config: {cert: x}", "unknown field cert in tls_server_config"),
        ("[1]", "the file is not an object"),
        (TLS_FILE, "certificate, key or CA: No such file or directory"),
        ("tls_server_config: {cipher_suites: [X]}", "cipher_suites is not supported here"),
        ("tls_server_config: {client_auth_type: RequireAnyClientCert}", "RequireAnyClientCert"),
        ("tls_server_config: {min_version: TLS9}", "allowed are TLS10"),
        ("http_server_config: {headers: [a]}", "headers is not an object"),
        ('http_server_config: {headers: {X: "a\\r\\nb"}}', "the header 'X' cannot be sent"),
        ("http_server_config: {headers: {Content-Length: 3}}", "is the server's own"),
        ('tls_server_config: {cert_file: "a\\0b", key_file: x}', "embedded null byte"),
        ("basic_auth_users: {a: $2b$31$x}", "each look at it would take minutes"),
    ],
)
def test_a_wrong_web_configuration_is_named_and_opens_nothing(tmp_path, text, words):
    with pytest.raises(UsageError) as caught:
        web_config.tls_context(written(tmp_path, text), tmp_path / "web.yml")
    assert words in str(caught.value)
    assert "web.yml" in str(caught.value)


def test_a_pipe_in_the_place_of_the_web_configuration_holds_nobody_up(tmp_path):
    os.mkfifo(tmp_path / "web.yml")
    with pytest.raises(UsageError, match="it is no ordinary file"):
        web_config.load(tmp_path / "web.yml")


@pytest.mark.parametrize("header", ["Basic \xe9\xe9", "Basic !", "Basic", "Basic /w=="])
async def test_a_header_that_nobody_can_read_opens_nothing(header):
    assert not await web_config.Door({"a": "$2b$10$x"}).allows(header)


def test_a_missing_web_configuration_is_named(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        web_config.load(tmp_path / "web.yml")


def written(folder: Path, text: str) -> web_config.WebConfig:
    path = folder / "web.yml"
    path.write_text(text)
    return web_config.load(path)


def make_certificate(folder: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
