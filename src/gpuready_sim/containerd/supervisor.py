"""containerd as a service of a simulated machine: its program, its files, its unit."""

from __future__ import annotations

import sys
from pathlib import Path

from gpuready_sim.containerd.program import CONFIG
from gpuready_sim.containerd.service import SOCKET
from gpuready_sim.host_service import HostService, install_program, shell_program

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


class Containerd(HostService):
    def __init__(self, node_root: Path, release: str) -> None:
        super().__init__(
            node_root, "containerd", [str(node_root / "usr/bin/containerd"), "serve"], SOCKET, always=True
        )
        self._release = release

    def install(self) -> None:
        """Its program, its configuration and a runc, where the machine has none yet."""
        argv = [sys.executable, "-m", "gpuready_sim.containerd.program", "--node-root", str(self.node_root)]
        install_program(
            self.node_root / "usr/bin/containerd", shell_program([*argv, "--release", self._release])
        )
        install_program(self.node_root / "usr/bin/runc", "#!/bin/sh\nexit 1\n")
        self.install_manager()
        (self.node_root / "etc/containerd/conf.d").mkdir(parents=True, exist_ok=True)
        config = self.node_root / CONFIG.lstrip("/")
        if not config.exists():
            config.write_text(_ROOT_FILE)
