"""The node's container runtime as it answers for itself, asked anew whenever its socket changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuready.chain.cdi_support import RunningRuntime
from gpuready.gpu.tree import Tree
from gpuready.node import cri
from gpuready.node.cri import RuntimeAnswer, RuntimeSilent
from gpuready.node.inotify import Changes

# Upstream's, and those of the distributions that bring a containerd of their own.
SOCKETS = (
    "/run/containerd/containerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/k0s/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
    "/run/crio/crio.sock",
)
_AGAIN_S = 1.0  # a socket is there a moment before its CRI answers


def runtime_of(answer: RuntimeAnswer) -> RunningRuntime:
    containerd = answer.config.get("containerd") or {}
    tables = (containerd.get("runtimes") or {}).values()
    programs = [str((table.get("options") or {}).get("BinaryName") or "") for table in tables]
    cdi = answer.config.get("enableCDI")
    return RunningRuntime(
        answer.name, answer.version, cdi if isinstance(cdi, bool) else None, tuple(programs)
    )


class RuntimeWatch:
    """`runtime` is what answered last, None before; `tell` is called when it changes, and the first time."""

    def __init__(self, host: Tree, tell: Callable[[], None], sockets: Sequence[str] = SOCKETS) -> None:
        self._host, self._tell, self._sockets = host, tell, sockets
        self.runtime: RunningRuntime | None = None
        self.was_asked = False

    async def run(self) -> None:
        """Until cancelled. One that falls silent keeps its last answer: it is being restarted."""
        paths = [self._host.resolve(path) for path in self._sockets]
        changes = Changes(paths)
        try:
            while True:
                found = await self._ask()
                if not self.was_asked or (found is not None and found != self.runtime):
                    self.runtime, self.was_asked = found or self.runtime, True
                    self._tell()
                is_there = any(path.exists() for path in paths)
                await changes.wait(_AGAIN_S if found is None and is_there else None)
        finally:
            changes.close()

    async def _ask(self) -> RunningRuntime | None:
        for socket in self._sockets:
            path = self._host.resolve(socket)
            if not path.exists():
                continue
            try:
                return runtime_of(await cri.ask(path))
            except RuntimeSilent:
                continue
        return None
