"""A machine with two GPUs and a driver, and containers on it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gpuready_sim.hardware import machine
from gpuready_sim.runtime.container import Container, ContainerConfig, Runtime

DRIVER = "570.86.10"


@pytest.fixture
def node_dir(tmp_path: Path) -> Path:
    node = tmp_path / "nodes/gpu-1"
    machine.build_node_root(node, machine.MachineSpec("gpu-1", gpus=(("L4", 2),)))
    return node


@pytest.fixture
def loaded_node(node_dir: Path) -> Path:
    machine.install_driver(node_dir / "root", DRIVER)
    machine.load_driver(node_dir, DRIVER)
    return node_dir


Create = Callable[..., Any]


@pytest.fixture
async def create(node_dir: Path) -> AsyncIterator[Create]:
    made: list[Container] = []
    numbers = itertools.count()

    async def build(*command: str, image: str = "any", **more: Any) -> Container:
        log = node_dir / f"logs/{next(numbers)}.log"
        config = ContainerConfig("main", image, command, (), more.pop("env", {}), log, **more)
        made.append(await Runtime(node_dir).create(config))
        return made[-1]

    yield build
    for container in made:
        container.kill()
        if container.is_running:
            await container.wait()
