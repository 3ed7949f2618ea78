"""The demonstration with a real control plane: the operator, its daemons and their RBAC are really tried."""

from __future__ import annotations

import subprocess
import sys
import uuid

import pytest

from gpuready_sim.kubernetes import assets


@pytest.mark.timeout(240)
def test_the_demo_tells_its_story_on_real_kubernetes() -> None:
    try:
        assets.require()
    except assets.MissingAssets as exc:
        pytest.skip(str(exc))
    argv = [sys.executable, "-m", "gpuready_sim.cli", "demo", "--api", "kubernetes"]
    argv += ["--name", f"demo-{uuid.uuid4().hex[:6]}"]
    told = subprocess.run(argv, capture_output=True, text=True, timeout=230, check=False)
    assert told.returncode == 0, told.stdout[-3000:] + told.stderr[-3000:]
