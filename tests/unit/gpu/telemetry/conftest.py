"""A simulated machine and, in a process of its own, the reader that looks at its GPUs."""

from __future__ import annotations

import base64
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuready.gpu.telemetry.model import Collection, Sample, Value
from gpuready_sim.hardware import machine
from gpuready_sim.hardware.state import GpuState

CHILD = Path(__file__).with_name("reading_child.py")
VERSION = "550.163.01"
DEADLINE_S = 30


@dataclass
class Node:
    """`collect` is one look; everything else is what happens to the machine between two."""

    node_dir: Path
    state: GpuState
    process: subprocess.Popen[str]

    def collect(self, *names: str, interval_s: float = 30, patience_s: float = 20) -> Collection:
        found: Collection = self.tell("collect", str(interval_s), str(patience_s), *names)
        return found

    def tell(self, *words: str) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the reader's process has ended"
        return pickle.loads(base64.b64decode(line))

    def until(self, there: Callable[[], Any]) -> Any:
        """What `there` answers as soon as it is true."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            if answer := there():
                return answer
        raise AssertionError("it did not happen in time")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """node(*gpus, xid_window_s=300) -> Node with the driver loaded and a reader that has not looked yet."""
    made: list[Node] = []

    def build(*gpus: tuple[str, int], xid_window_s: float = 300, version: str = VERSION) -> Node:
        node_dir = tmp_path / f"node-{len(made)}"
        machine.build_node_root(node_dir, machine.MachineSpec("gpu-1", gpus or (("A100-SXM4-40GB", 2),)))
        machine.install_driver(node_dir / "root", version)
        machine.load_driver(node_dir, version)
        env = {
            **os.environ,
            "NVSIM_STATE": str(node_dir / "gpus.state"),
            "NVSIM_DEV": str(node_dir / "root/dev"),
        }
        process = subprocess.Popen(
            [sys.executable, str(CHILD), str(node_dir / "root"), str(xid_window_s)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        made.append(Node(node_dir, machine.gpu_state(node_dir), process))
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        return made[-1]

    yield build
    for each in made:
        each.process.kill()
        each.process.communicate()
        each.state.close()


def values(collection: Collection, name: str) -> list[Value]:
    """Of the field, in the order of the collection."""
    return [sample.value for sample in samples(collection, name)]


def samples(collection: Collection, name: str) -> list[Sample]:
    return [sample for sample in collection.samples if name in sample.field.names or _short(sample) == name]


def _short(sample: Sample) -> str:
    return sample.field.name.removeprefix("DCGM_FI_")
