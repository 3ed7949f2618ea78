"""CDI specs of a node with 8 GPUs: a fresh process, the toolkit's daemon, and what a container waits for.

The original in a fresh process: 41 ms, 25 MB (nvidia-ctk cdi generate, 8 GPUs, 15 libraries, mock NVML). It
asks NVML itself, as ours does here; the daemon asks in a second process, which a stuck driver may keep.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.sim.plugin_node import PluginNode

from benchmarks import processes
from benchmarks.figures import Figure
from benchmarks.harness import Run
from gpuready.gpu.cdi.build import Place, build
from gpuready.gpu.inventory import Inventory
from gpuready.gpu.inventory_child import look
from gpuready.gpu.tree import Tree
from gpuready.node.cdi.hook import PROGRAM

GPUS = 8
_TOOLKIT = {
    "RUNTIME": "containerd",
    "POD_IP": "127.0.0.1",
    "GPUREADY_HEALTH_PORT": "19413",
    "GPUREADY_RECORDS_DIR": "/run/gpuready/records",
}
_DEADLINE_S = 60


async def measure(run: Run) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        node = PluginNode(Path(folder), gpus=GPUS)
        node.install()
        return [
            fresh_process(node, run),
            in_a_daemon(node, run),
            hook(Path(folder), run),
            *await daemon(node, run),
        ]


def fresh_process(node: PluginNode, run: Run) -> Figure:
    command = [sys.executable, "-m", "gpuready.cli", "cdi", "generate", "-o", "json"]
    command += ["--host-root", str(node.root)]
    env = {**os.environ, **node.env()}
    taken = []
    for _ in range(run.pick(1, 11)):
        begin = time.perf_counter()
        subprocess.run(command, env=env, check=True, capture_output=True)
        taken.append(_ms_since(begin))
    return Figure("generate, a fresh process", taken, "ms", note="the original's: 41 ms")


def in_a_daemon(node: PluginNode, run: Run) -> Figure:
    """Scan, build and check every path: what the daemon does itself, NVML's answer at hand."""
    tree = Tree(node.root)
    gpus = _inventory(node).gpus
    taken = []
    for _ in range(run.pick(3, 51)):
        begin = time.perf_counter()
        json.dumps([each.spec for each in build(Place(tree, tree), gpus)], indent=1)
        taken.append(_ms_since(begin))
    return Figure("both specs, in a daemon", taken, "ms", note="NVML's answer at hand")


def _inventory(node: PluginNode) -> Inventory:
    os.environ.update(node.env())
    found, error = look(Tree(node.root), Tree(node.root))
    assert found is not None, error
    return found


def hook(folder: Path, run: Run) -> Figure:
    """What a container's start waits for: this machine's own cache, with nothing mounted."""
    root = folder / "bundle/rootfs"
    for name in ("etc/ld.so.cache", "lib64/ld-linux-x86-64.so.2"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / "etc/ld.so.cache").write_bytes(Path("/etc/ld.so.cache").read_bytes())
    (root / "lib64/ld-linux-x86-64.so.2").touch()
    (folder / "bundle/config.json").write_text('{"root": {"path": "rootfs"}}')
    state = json.dumps({"bundle": str(folder / "bundle")}).encode()
    taken = []
    for _ in range(run.pick(3, 51)):
        begin = time.perf_counter()
        command = [PROGRAM, "update-ldcache", "--folder", "/usr/lib"]
        subprocess.run(command, input=state, check=True, capture_output=True)
        taken.append(_ms_since(begin))
    return Figure("hook update-ldcache", taken, "ms", note="with the start of its process")


async def daemon(node: PluginNode, run: Run) -> list[Figure]:
    """The toolkit's daemon with its specs written; there is no runtime for it to configure."""
    env = {**os.environ, **node.env(), **_TOOLKIT}
    begin = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gpuready.cli", "toolkit", env=env, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(_DEADLINE_S):
            while not (node.root / "run/cdi/nvidia.com-gpu.json").exists():
                await asyncio.sleep(0.005)
        written = _ms_since(begin)
        await asyncio.sleep(2)  # until it has nothing left to do
        used, window_s = processes.cpu_s(process.pid), run.pick(2.0, 20.0)
        await asyncio.sleep(window_s)
        idle = (processes.cpu_s(process.pid) - used) / window_s * 100
        resident = processes.memory(process.pid).rss_mb
    finally:
        process.terminate()
        await process.wait()
    return [
        Figure("toolkit start -> specs written", [written], "ms"),
        Figure("toolkit resident", [resident], "MB", owed=35),
        Figure("toolkit idle CPU", [idle], "%", owed=0.1, note="no runtime: it looks each 5 s for one"),
    ]


def _ms_since(begin: float) -> float:
    return (time.perf_counter() - begin) * 1000
