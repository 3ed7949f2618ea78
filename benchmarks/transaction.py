"""The toolkit's transaction on a real containerd: what a node's runtime goes through, and for how long.

A change is: read the effective configuration as the daemon does, plan, write, evaluate the merge, restart,
and ask the new daemon for the handlers. The original writes and restarts, and does not ask.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import pytest
from tests.node.real_containerd import RealContainerd
from tests.node.test_toolkit_on_real_containerd import BEFORE_2, engine_of

from benchmarks.figures import Figure
from benchmarks.harness import Run

RELEASES = ("1.7", "2.2")


async def measure(run: Run) -> list[Figure]:
    return [figure for release in RELEASES for figure in await _of_release(release, run)]


async def _of_release(release: str, run: Run) -> list[Figure]:
    name = f"containerd {release}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            daemon = RealContainerd(release, Path(folder) / release)
        except pytest.skip.Exception as exc:
            return [Figure(f"{name}: a change", [], "ms", note=str(exc))]
        daemon.config.write_text(daemon.basics(2 if release in BEFORE_2 else 3))
        try:
            await asyncio.to_thread(daemon.start)
            return await _measured(name, daemon, run)
        finally:
            await asyncio.to_thread(daemon.stop)


async def _measured(name: str, daemon: RealContainerd, run: Run) -> list[Figure]:
    changed, unchanged, undone = [], [], []
    for _ in range(run.pick(1, 7)):
        engine = engine_of(daemon)
        begin = time.perf_counter()
        await engine.change(await engine.look())
        changed.append(_ms_since(begin))
        starts = daemon.starts
        begin = time.perf_counter()
        await engine.change(await engine.look())
        unchanged.append(_ms_since(begin))
        if daemon.starts != starts:
            raise RuntimeError("the runtime was restarted though nothing was to be changed")
        begin = time.perf_counter()
        await engine.uninstall()
        undone.append(_ms_since(begin))
    note = "its restart included"
    return [
        Figure(f"{name}: a change", changed, "ms", note=note),
        Figure(f"{name}: a look where all is as it should be", unchanged, "ms"),
        Figure(f"{name}: undone", undone, "ms", note=note),
    ]


def _ms_since(begin: float) -> float:
    return (time.perf_counter() - begin) * 1000
