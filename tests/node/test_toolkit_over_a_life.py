"""C07: the toolkit's daemon over a node's life, restart by restart."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.sim.test_toolkit_life_cycle import CRUN
from tests.sim.toolkit_node import OURS, ROOT, ToolkitNode, toolkit_node

from gpuready.node.root import Root
from gpuready.operands.toolkit import daemon, dry_run
from gpuready.operands.toolkit.host_exec import Host
from gpuready.operands.toolkit.settings import Settings
from gpuready_sim.containerd import merge

RECORD = "run/gpuready/records/toolkit.json"


class Life:
    """A node's toolkit as its pods come and go; `restarts` are those that are ours."""

    def __init__(self, node: ToolkitNode) -> None:
        self.node, self.by_others = node, 0
        self._daemon: daemon.Daemon | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def restarts(self) -> int:
        return self.node.restarts - self.by_others

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.node.root / RECORD).read_text())
        return found

    async def start_pod(self) -> None:
        root = Root(self.node.root)
        settings = Settings(records_dir="/run/gpuready/records", health_port=0, as_default=True, cdi=True)
        self._daemon = daemon.Daemon(settings, root, Host(root, enters=False))
        self._task = asyncio.create_task(self._daemon.run())
        await self.until(lambda: (self.node.root / RECORD).exists() and self.record()["whole"])

    async def stop_pod(self) -> None:
        assert self._daemon is not None
        assert self._task is not None
        self._daemon.stop()
        await self._task
        (self.node.root / RECORD).unlink(missing_ok=True)  # so that the next one is seen to write its own

    @asynccontextmanager
    async def restarted_by_others(self) -> AsyncIterator[None]:
        """What happens inside, happens while the runtime is down."""
        self.by_others += 1
        await self.node.service.stop()
        yield
        await self.node.service.start()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds():
                await asyncio.sleep(0.02)

    async def default(self) -> str:
        running = (await self.node.engine(as_default=True).look()).running
        return running.default if running else ""


async def test_c07_restarts_once_to_install_once_to_repair_and_once_to_leave(tmp_path: Path) -> None:
    async with toolkit_node(tmp_path, "2.2.1", CRUN) as node:
        life, counter = Life(node), {}

        await life.start_pod()
        counter["s1 installed"] = life.restarts
        told = merge.cri_of(merge.configuration(tmp_path, f"/{ROOT}", "2.2.1"))["containerd"]
        assert told["default_runtime_name"] == await life.default() == "nvidia"
        assert told["runtimes"]["runc"]["options"]["SystemdCgroup"] is True
        assert told["runtimes"]["nvidia"]["options"]["BinaryName"] == "/usr/bin/runc", "nothing of ours stays"

        await life.stop_pod()
        await life.start_pod()
        counter["s2 its pod was deleted"] = life.restarts

        await life.stop_pod()
        async with life.restarted_by_others():  # a reboot empties /run, and starts everything anew
            shutil.rmtree(tmp_path / "run/gpuready")
        await life.start_pod()
        counter["s3 the node was rebooted"] = life.restarts

        async with life.restarted_by_others():  # by a tool that puts the original content back
            node.config.write_text(CRUN)
        await life.until(lambda: life.restarts == 2 and life.record()["whole"])
        counter["s4 repaired"] = life.restarts
        repaired = life.record()["repaired"]  # the node agent makes an Event of it
        assert repaired["files"] == [f"/{ROOT}"]
        assert "default_runtime_name" in " ".join(repaired["keys"])
        assert await life.default() == "nvidia"

        await life.stop_pod()
        await life.start_pod()
        counter["s5 a newer toolkit with the same table"] = life.restarts

        await life.stop_pod()
        plan, look = await node.engine(as_default=True).look_back()
        said = dry_run.text_of(node.engine().layout, look, plan)
        assert {change.path for change in plan.files} == {f"/{ROOT}", f"/{OURS}"}
        assert all(f"-{line}" in said for line in (tmp_path / OURS).read_text().splitlines())
        await node.engine(as_default=True).uninstall()
        counter["s6 uninstalled"] = life.restarts

        assert list(counter.values()) == [1, 1, 1, 2, 2, 3], counter
        assert node.config.read_text() == CRUN
        assert not (tmp_path / OURS).exists()
        assert await life.default() == "crun"


async def test_a_file_that_was_put_back_without_a_restart_is_repaired_without_one(tmp_path: Path) -> None:
    """C07, s4, when the other tool does not restart what it has configured.

    The case counts a restart for the repair. Here the daemon has never read the other content: what it has in
    force is what we want, so that the file is put right and nothing else need happen. A restart would cut off
    image pulls and exec sessions for nothing, which is what the case is about.
    """
    async with toolkit_node(tmp_path, "2.2.1", CRUN) as node:
        life = Life(node)
        await life.start_pod()

        node.config.write_text(CRUN)
        await life.until(lambda: bool(life.record()["repaired"]) and life.record()["whole"])

        assert life.restarts == 1
        assert await life.default() == "nvidia"
        told = merge.cri_of(merge.configuration(tmp_path, f"/{ROOT}", "2.2.1"))["containerd"]
        assert told["default_runtime_name"] == "nvidia", "and after its next restart, too"
        await life.stop_pod()
