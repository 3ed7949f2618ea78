"""A service of a simulated machine leaves nothing behind, however its manager ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest


def runs_of(mark: str) -> list[int]:
    """Processes with these words in their command line; no zombies."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdigit() and mark.encode() in (each / "cmdline").read_bytes():
                found.append(int(each.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


@pytest.fixture
def runtime(tmp_path: Path) -> list[str]:
    """The command line of one, behind the interpreter."""
    (tmp_path / "etc/containerd").mkdir(parents=True)
    (tmp_path / "etc/containerd/config.toml").write_text("version = 2\n")
    machine = ["--node-root", str(tmp_path), "--release", "1.7.24"]
    return ["-m", "gpuready_sim.containerd.program", *machine, "serve"]


async def test_a_runtime_ends_with_the_manager_that_was_killed(tmp_path: Path, runtime: list[str]) -> None:
    starter = "import subprocess, sys\nsubprocess.run([sys.executable, *sys.argv[1:]])\n"
    manager = await asyncio.create_subprocess_exec(sys.executable, "-c", starter, *runtime)
    async with asyncio.timeout(30):
        while not (tmp_path / "run/containerd/containerd.sock").exists():
            await asyncio.sleep(0.02)

    manager.send_signal(signal.SIGKILL)
    await manager.wait()

    async with asyncio.timeout(30):
        while runs_of(str(tmp_path)):
            await asyncio.sleep(0.02)


KILLED_AT_ONCE = """
import asyncio, os, signal, sys
from pathlib import Path
from gpuready_sim.host_service import HostService

async def main():
    root = Path(sys.argv[1])
    argv = [sys.executable, *sys.argv[2:]]
    service = HostService(root, "containerd", argv, "run/containerd/containerd.sock", always=True)
    starting = asyncio.create_task(service.start())
    while not (root / "run/containerd.pid").exists():
        await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_a_runtime_whose_manager_was_killed_before_it_could_know_him_ends_too(
    tmp_path: Path, runtime: list[str]
) -> None:
    manager = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED_AT_ONCE, str(tmp_path), *runtime
    )
    await manager.wait()
    try:
        async with asyncio.timeout(30):
            while runs_of(str(tmp_path)):
                await asyncio.sleep(0.02)
    finally:
        for pid in runs_of(str(tmp_path)):
            os.kill(pid, signal.SIGKILL)
