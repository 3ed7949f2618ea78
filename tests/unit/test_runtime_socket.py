"""A service of a simulated machine leaves nothing behind, however its manager ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path


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


async def test_a_runtime_ends_with_the_manager_that_was_killed(tmp_path: Path) -> None:
    runtime = ["-m", "gpuready_sim.containerd.program", "--node-root", str(tmp_path), "--release", "1.7.24"]
    (tmp_path / "etc/containerd").mkdir(parents=True)
    (tmp_path / "etc/containerd/config.toml").write_text("version = 2\n")
    starter = "import subprocess, sys\nsubprocess.run([sys.executable, *sys.argv[1:]])\n"
    manager = await asyncio.create_subprocess_exec(sys.executable, "-c", starter, *runtime, "serve")
    async with asyncio.timeout(30):
        while not (tmp_path / "run/containerd/containerd.sock").exists():
            await asyncio.sleep(0.02)

    manager.send_signal(signal.SIGKILL)
    await manager.wait()

    async with asyncio.timeout(30):
        while runs_of(str(tmp_path)):
            await asyncio.sleep(0.02)
