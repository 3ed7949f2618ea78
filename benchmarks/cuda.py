"""The proof of CUDA on a node with 8 GPUs: what it costs, and the time it adds until the node is ready."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.sim.operator_cluster import condition, policy, wait_process
from tests.sim.plugin_node import PluginNode

from benchmarks.figures import Figure
from benchmarks.harness import Run
from gpuready_sim.client import NODES
from gpuready_sim.cluster.handle import Cluster

GPUS = 8
_SPEC = f"nodes:\n- {{name: h100, gpus: {{H100-SXM5-80GB: {GPUS}}}, driver: {{where: host}}}}\n"
_DEADLINE_S = 60


async def measure(run: Run) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        node = PluginNode(Path(folder), gpus=GPUS)
        node.install()
        figures = proofs(node, run)
    rounds = run.pick(1, 5)
    proved = [await until_ready() for _ in range(rounds)]
    unproved = [await until_ready(WITH_WORKLOAD="false") for _ in range(rounds)]
    return [
        *figures,
        Figure("policy applied → GPUReady", [seconds for seconds, _ in proved], "s"),
        Figure("the same without a proof", [seconds for seconds, _ in unproved], "s"),
        Figure("node agent, after the proof", [mib for _, mib in proved], "MiB", owed=60),
    ]


def proofs(node: PluginNode, run: Run) -> list[Figure]:
    """A fresh process each time; memory is that of the largest of its processes."""
    command = ["-m", "gpuready.gpu.cuda_child", "--driver-root", str(node.root), *node.uuids()]
    env = {**os.environ, **node.env()}
    taken, mib = [], []
    for _ in range(run.pick(1, 11)):
        told = subprocess.run(
            [sys.executable, "-c", _LAUNCHER, *command], env=env, check=True, capture_output=True, text=True
        )
        seconds, kib = told.stdout.split()
        taken.append(float(seconds) * 1000)
        mib.append(int(kib) / 1024)
    return [
        Figure(f"a program on each of {GPUS} GPUs", taken, "ms"),
        Figure("its largest process", mib, "MiB", note="a real libcuda takes some 150 MiB more"),
    ]


# Small itself: what a process had before its exec counts to its peak.
_LAUNCHER = """
import resource, subprocess, sys, time
begin = time.perf_counter()
subprocess.run([sys.executable, *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL)
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


async def until_ready(**env: str) -> tuple[float, float]:
    """(seconds until the node says GPUReady, MiB of its node agent then)"""
    rows = [{"name": name, "value": value} for name, value in env.items()]
    async with Cluster.started(_SPEC) as cluster:
        begin = time.perf_counter()
        await cluster.apply(policy(validator={"cuda": {"env": rows}}))
        await cluster.wait(NODES, "h100", until=_is_ready, timeout_s=_DEADLINE_S)
        seconds = time.perf_counter() - begin
        pid = await wait_process(cluster, "h100", "node-agent")
        return seconds, _resident_mib(pid)


def _is_ready(node: dict[str, Any]) -> bool:
    return bool(condition(node, "GPUReady").get("status") == "True")


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024
