from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("gpuready.kube.trimmed", ("aiohttp", "yaml", "asyncio")),
        ("gpuready.kube.resources", ("aiohttp", "yaml", "asyncio")),
        ("gpuready.api.policy", ("aiohttp", "yaml", "asyncio")),
        ("gpuready.api.plugin_config", ("aiohttp", "yaml", "asyncio")),
        ("gpuready.api.gpunode", ("aiohttp", "yaml", "asyncio")),
    ],
)
def test_a_daemon_that_needs_only_models_loads_no_http_and_no_yaml(
    module: str, absent: tuple[str, ...]
) -> None:
    script = f"import sys, {module}; print(*[each for each in {absent!r} if each in sys.modules])"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


def test_a_client_of_the_api_server_does_not_read_the_systems_certificates() -> None:
    """aiohttp would while it is imported: 2.5 MB and a tenth of a second, for nobody."""
    script = """
import ssl, gpuready.kube.client, aiohttp.connector
print(aiohttp.connector._SSL_CONTEXT_VERIFIED.cert_store_stats()["x509"])
print(ssl.SSLContext.load_default_certs.__module__, ssl.SSLContext.load_default_certs.__name__)
"""

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["0", "ssl", "load_default_certs"]


def test_http_is_loaded_without_the_systems_certificates() -> None:
    """aiohttp reads them twice, 45 ms of each start, for contexts that we never use."""
    script = """
import ssl
ssl.SSLContext.set_default_verify_paths = lambda self: print("read")
import gpuready.kube.client
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == ""
