"""The machine's service manager, as far as containerd is concerned: it is started, and again when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

from gpuready_sim.containerd.program import CONFIG
from gpuready_sim.containerd.service import SOCKET

RESTART_S = 0.2  # RestartSec of the unit is 5
_START_S = 20.0
_ROOT_FILE = """\
version = 2
imports = ["/etc/containerd/conf.d/*.toml"]
# written when the machine was set up
[plugins."io.containerd.grpc.v1.cri".containerd]
  default_runtime_name = "runc"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
"""


class Containerd:
    """The service on one machine. `starts`: how often it was started."""

    def __init__(self, node_root: Path, release: str) -> None:
        self._root, self._release = node_root, release
        self._task: asyncio.Task[None] | None = None
        self._child: asyncio.subprocess.Process | None = None
        self.starts = 0

    def install(self) -> None:
        """Its program, its configuration and a runc, where the machine has none yet."""
        argv = [sys.executable, "-m", "gpuready_sim.containerd.program", "--node-root", str(self._root)]
        words = " ".join(f"'{word}'" for word in [*argv, "--release", self._release])
        programs = {
            "usr/bin/containerd": f'#!/bin/sh\nexec {words} "$@"\n',
            "usr/bin/runc": "#!/bin/sh\nexit 1\n",
        }
        for name, text in programs.items():
            path = self._root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        (self._root / "etc/containerd/conf.d").mkdir(parents=True, exist_ok=True)
        config = self._root / CONFIG.lstrip("/")
        if not config.exists():
            config.write_text(_ROOT_FILE)

    async def start(self) -> None:
        """Returns once its socket is there."""
        (self._root / SOCKET).unlink(missing_ok=True)  # of one that was killed
        self._task = asyncio.create_task(self._keep())
        async with asyncio.timeout(_START_S):
            while not (self._root / SOCKET).exists():
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _keep(self) -> None:
        try:
            while True:
                self.starts += 1
                self._child = await asyncio.create_subprocess_exec(
                    str(self._root / "usr/bin/containerd"), "serve", stdin=asyncio.subprocess.DEVNULL
                )
                await self._child.wait()
                await asyncio.sleep(RESTART_S)
        finally:
            if self._child is not None and self._child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._child.kill()
                await self._child.wait()
