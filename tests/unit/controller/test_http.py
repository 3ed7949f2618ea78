"""Where the operator listens."""

from __future__ import annotations

import socket

import pytest

from gpuready.controller import http
from gpuready.errors import UsageError


def test_a_pod_with_an_ipv6_address_is_listened_on_like_any_other() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    for host in ("127.0.0.1", "::1"):
        try:
            listener = http.listen(host, _free_port())
        except UsageError as exc:
            pytest.skip(f"{host}: {exc}")
        assert listener is not None
        with listener:
            assert listener.getsockname()[0] == host


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
