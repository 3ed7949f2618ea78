"""One machine with a container runtime, and our toolkit's engine on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gpuready.node.root import Root
from gpuready.operands.toolkit.engine import Engine
from gpuready.operands.toolkit.host_exec import Host
from gpuready.operands.toolkit.settings import Settings
from gpuready.operands.toolkit.transaction import Outcome
from gpuready_sim.containerd.supervisor import Containerd
from gpuready_sim.host_service import HostService

ROOT = "etc/containerd/config.toml"
OURS = "etc/containerd/conf.d/99-nvidia.toml"


class ToolkitNode:
    def __init__(self, root: Path, service: HostService) -> None:
        self.root, self.service = root, service

    @property
    def config(self) -> Path:
        return self.root / ROOT

    @property
    def restarts(self) -> int:
        return self.service.starts - 1

    def engine(self, **settings: object) -> Engine:
        host = Host(Root(self.root), enters=False)
        given = Settings(**{"restart_s": 20.0, **settings})  # type: ignore[arg-type]
        return Engine(given, host, self.root / given.journal.lstrip("/"))

    async def install(self, **settings: object) -> Outcome:
        """What the daemon does when it starts: finish what was cut off, look, change."""
        engine = self.engine(**settings)
        engine.recover()
        return await engine.change(await engine.look())


@asynccontextmanager
async def toolkit_node(root: Path, release: str, config: str | None = None) -> AsyncIterator[ToolkitNode]:
    service = Containerd(root, release)
    service.install()
    node = ToolkitNode(root, service)
    if config is not None:
        node.config.write_text(config)
    await service.start()
    try:
        yield node
    finally:
        await service.stop()
