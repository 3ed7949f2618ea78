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
