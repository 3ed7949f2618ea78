"""A simulated machine with a loaded driver, and clients of its NVML in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuready_sim.hardware import machine
from gpuready_sim.hardware.state import GpuState

VERSION = "550.163.01"
DEADLINE_S = 60


@dataclass
class Machine:
    """A node directory; `run` executes Python with `from pynvml import *` against its NVML."""

    node_dir: Path
    state: GpuState
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.node_dir / "root"

    def env(self, dev: Path | None = None) -> dict[str, str]:
        return {
            **os.environ,
            "NVSIM_STATE": str(self.node_dir / "gpus.state"),
            "NVSIM_DEV": str(dev or self.root / "dev"),
            "LD_LIBRARY_PATH": str(self.root / "usr/lib/x86_64-linux-gnu"),
        }

    def run(self, code: str, *, dev: Path | None = None) -> Any:
        """What the code's `answer` is at its end; NVML errors come back as {"error": code}."""
        program = (
            "import json\nfrom pynvml import *\ntry:\n"
            + textwrap.indent(textwrap.dedent(code), "    ")
            + "\nexcept NVMLError as error:\n    answer = {'error': error.value}\nprint(json.dumps(answer))"
        )
        outcome = subprocess.run(
            [sys.executable, "-c", program],
            env=self.env(dev),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert outcome.returncode == 0, outcome.stderr
        return json.loads(outcome.stdout)

    def start(self, code: str) -> subprocess.Popen[str]:
        """A client that lives on; it prints a line when it is ready, which has been read."""
        process = subprocess.Popen(
            [sys.executable, "-c", "from pynvml import *\n" + textwrap.dedent(code)],
            env=self.env(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def command(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv, env=self.env(), capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """build(*gpus, version=...) -> Machine with the driver installed and loaded."""
    made: list[Machine] = []

    def build_machine(*gpus: tuple[str, int], version: str = VERSION) -> Machine:
        node_dir = tmp_path / f"node-{len(made)}"
        spec = machine.MachineSpec("gpu-1", gpus or (("A100-SXM4-40GB", 4),))
        machine.build_node_root(node_dir, spec)
        machine.install_driver(node_dir / "root", version)
        machine.load_driver(node_dir, version)
        made.append(Machine(node_dir, machine.gpu_state(node_dir)))
        return made[-1]

    yield build_machine
    for each in made:
        for process in each.running:
            process.kill()
            process.communicate()
        each.state.close()
