"""The agent starts small: what it needs now and then is imported then."""

from __future__ import annotations

import subprocess
import sys

FORBIDDEN = ("pynvml", "grpclib", "google.protobuf", "gpuready.controller", "gpuready.tools", "rich", "click")


def test_the_agent_starts_without_nvml_grpc_and_the_controller() -> None:
    program = "import sys, gpuready.operands.node_agent.daemon; print(*sys.modules)"
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout

    loaded = printed.split()
    assert [name for name in FORBIDDEN if name in loaded] == []
