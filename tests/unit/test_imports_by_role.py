"""Which libraries a role may have in memory: the daemons run on every GPU node, so each megabyte counts."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"pydantic", "httpx", "grpc", "structlog", "prometheus_client", "textual", "kubernetes"}
# uvicorn brings click along; only rich is ours to keep out of the operator.
TERMINAL = {"rich", "click"}
SIMULATOR = {"gpuready_sim", "starlette", "jsonschema_rs", "cel_expr_python", "cryptography"}

ROLES = {
    "gpuready.operands.device_plugin.daemon": HEAVY
    | TERMINAL
    | SIMULATOR
    | {"aiohttp", "yaml", "gpuready.kube", "gpuready.controller"},
    "gpuready.operands.exporter.daemon": HEAVY
    | TERMINAL
    | SIMULATOR
    | {"aiohttp", "yaml", "uvicorn", "gpuready.kube", "gpuready.controller"}
    | {"difflib", "hashlib", "tempfile", "uuid", "unicodedata", "gpuready.gpu.dcgm"},
    "gpuready.operands.node_agent.daemon": HEAVY
    | TERMINAL
    | SIMULATOR
    | {"pynvml", "grpclib", "yaml", "gpuready.controller"},
    "gpuready.operands.toolkit.daemon": HEAVY
    | TERMINAL
    | SIMULATOR
    | {"aiohttp", "yaml", "pynvml", "gpuready.kube", "gpuready.controller"},
    "gpuready.gpu.inventory_child": HEAVY
    | TERMINAL
    | SIMULATOR
    | {"asyncio", "aiohttp", "msgspec", "grpclib", "yaml", "gpuready.kube"},
    "gpuready.controller.main": (HEAVY - {"prometheus_client"})
    | {"rich"}
    | SIMULATOR
    | {"pynvml", "grpclib", "gpuready.node", "gpuready.gpu"},
    "gpuready.cli": HEAVY
    | TERMINAL
    | SIMULATOR
    | {"asyncio", "aiohttp", "msgspec", "pynvml", "grpclib", "yaml"},
}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_does_not_load_what_it_does_not_need(role):
    program = f"import sys, {role}; print('\\n'.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    forbidden = ROLES[role]
    found = {name for name in loaded if name in forbidden or name.split(".")[0] in forbidden}
    assert not found


@pytest.mark.parametrize("role", ["exporter", "device_plugin", "toolkit"])
def test_a_daemon_that_needs_no_tls_has_no_openssl_in_memory(role):
    program = (
        "from gpuready import without_openssl; without_openssl.leave_out()\n"
        f"import gpuready.operands.{role}.daemon; import hashlib, asyncio\n"
        "assert hashlib.sha256(b'').hexdigest().startswith('e3b0c44298fc')\n"
        "print(open('/proc/self/maps').read())"
    )
    maps = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "python" in maps
    assert [line for line in maps.splitlines() if "libssl" in line or "libcrypto" in line] == []
