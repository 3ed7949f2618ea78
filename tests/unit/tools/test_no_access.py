"""`status` and `doctor` that cannot look: one error with what, why and next step, and exit status 2."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.kube.certificates import certificate

from gpuready.cli import main

COMMANDS = [pytest.param(name, id=name) for name in ("status", "doctor")]
TOMORROW, YESTERDAY = (datetime.now(UTC) + timedelta(days=days) for days in (1, -1))


@contextmanager
def server(
    pair: tuple[bytes, bytes], folder: Path, status: int = 200, body: Any = None, **headers: str
) -> Iterator[str]:
    """Something that listens with this certificate and answers everything alike; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = body.encode() if isinstance(body, str) else json.dumps(body or {}).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    (folder / "server.pem").write_bytes(b"".join(pair))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "server.pem")
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.socket = tls.wrap_socket(listening.socket, server_side=True, do_handshake_on_connect=False)
    listening.handle_error = lambda *args: None  # type: ignore[method-assign, assignment]
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"https://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def kubeconfig(folder: Path, address: str, ca: bytes, token: str = "t") -> str:
    cluster = {"server": address, "certificate-authority-data": base64.b64encode(ca).decode()}
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "prod",
                "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": token}}],
            }
        )
    )
    return str(path)


def said(capsys: pytest.CaptureFixture[str], command: str, config: str) -> tuple[str, str, str]:
    """(what, why, next step) of the one error that is printed."""
    assert main([command, "--kubeconfig", config]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    what, why, step = err.rstrip("\n").split("\n")
    assert (what[:7], why[:8], step[:8]) == ("error: ", "  why   ", "  next  ")
    return what[7:], why[8:], step[8:]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_expired_server_certificate_is_said_with_its_date_and_who_renews_it(command, tmp_path, capsys):
    pair = certificate(days=-1)
    with server(pair, tmp_path) as address:
        config = kubeconfig(tmp_path, address, pair[0])
        what, why, step = said(capsys, command, config)

    assert address in what
    assert f"its certificate was valid until {YESTERDAY:%Y-%m-%d}" in why
    assert "this machine's clock says" in why
    assert step.startswith("renew the API server's certificate")
    assert step.endswith(f"(see {config}, context prod)")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_certificate_of_the_future_points_at_the_clock(command, tmp_path, capsys):
    pair = certificate(days=400, lasts_days=300)
    with server(pair, tmp_path) as address:
        _, why, step = said(capsys, command, kubeconfig(tmp_path, address, pair[0]))

    assert why == "its certificate is not valid yet"
    assert step.startswith("correct this machine's clock: it says")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_certificate_of_another_host_names_the_host_that_was_asked_for(command, tmp_path, capsys):
    pair = certificate(host="kubernetes.example")
    with server(pair, tmp_path) as address:
        _, why, step = said(capsys, command, kubeconfig(tmp_path, address, pair[0]))

    assert why.startswith("its certificate is for other names")
    assert "127.0.0.1" in why
    assert "tls-server-name" in step


@pytest.mark.parametrize("command", COMMANDS)
def test_a_certificate_of_another_ca_is_not_trusted(command, tmp_path, capsys):
    other, _ = certificate()
    with server(certificate(), tmp_path) as address:
        _, why, step = said(capsys, command, kubeconfig(tmp_path, address, other))

    assert why.startswith("its certificate is not trusted: self-signed certificate")
    assert "fetch a new kubeconfig" in step


@pytest.mark.parametrize("command", COMMANDS)
def test_an_expired_token_is_said_with_its_date(command, tmp_path, capsys):
    claims = {"exp": YESTERDAY.timestamp(), "sub": "system:serviceaccount:x:y"}
    token = ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "RS256"}, claims, {"signature": 1})
    )
    pair = certificate()
    refusal = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}
    with server(pair, tmp_path, 401, refusal) as address:
        config = kubeconfig(tmp_path, address, pair[0], token)
        _, why, step = said(capsys, command, config)

    assert why == f'the token in {config}, user "u" was valid until {YESTERDAY:%Y-%m-%d %H:%M} UTC'
    assert step == "fetch a new kubeconfig from whoever runs the cluster"


@pytest.mark.parametrize(
    ("status", "body", "headers", "reason"),
    [
        pytest.param(
            302, "", {"Location": "https://login.example"}, "it sends us elsewhere (HTTP 302", id="login"
        ),
        pytest.param(200, "<html>hello</html>", {}, "it is a page of HTML", id="a page"),
        pytest.param(200, {}, {}, "it is no list but has no kind", id="an empty object"),
        pytest.param(200, "", {}, "it is empty", id="nothing"),
    ],
)
def test_what_is_no_api_server_is_told_from_one(status, body, headers, reason, tmp_path, capsys):
    pair = certificate()
    with server(pair, tmp_path, status, body, **headers) as address:
        _, why, step = said(capsys, "status", kubeconfig(tmp_path, address, pair[0]))

    assert reason in why
    assert "a proxy, gateway or login page" in step


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_permission_is_said_in_the_servers_words(command, tmp_path, capsys):
    pair = certificate()
    text = 'nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster scope'
    refusal = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": text}
    with server(pair, tmp_path, 403, refusal) as address:
        assert main([command, "--kubeconfig", kubeconfig(tmp_path, address, pair[0])]) == 2

    err = capsys.readouterr().err
    assert text in err
    assert "grant the missing verb to this account in RBAC" in err
    assert "Traceback" not in err


def test_a_kubeconfig_that_logs_nobody_in_is_not_sent_after_rules(tmp_path, capsys):
    pair = certificate()
    text = 'nodes is forbidden: User "system:anonymous" cannot list resource "nodes"'
    refusal = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": text}
    with server(pair, tmp_path, 403, refusal) as address:
        assert main(["status", "--kubeconfig", kubeconfig(tmp_path, address, pair[0])]) == 2

    err = capsys.readouterr().err
    assert "has a token or a certificate" in err
    assert "RBAC" not in err
