"""CRI-O as a service of a simulated machine: its program, its files, its unit."""

from __future__ import annotations

import sys
from pathlib import Path

from gpuready_sim.crio import merge
from gpuready_sim.crio.service import SOCKET
from gpuready_sim.host_service import HostService, install_program, shell_program

# As the project's packages have it: the root file is nobody's, a drop-in names what came with the package.
_PACKAGED = """\
[crio.image]
signature_policy = "/etc/crio/policy.json"

[crio.runtime]
default_runtime = "crun"

[crio.runtime.runtimes.crun]
runtime_path = "/usr/libexec/crio/crun"
runtime_root = "/run/crun"
monitor_path = "/usr/libexec/crio/conmon"
allowed_annotations = [
    "io.containers.trace-syscall",
]
"""
_PROGRAMS = ("usr/libexec/crio/crun", "usr/libexec/crio/conmon", "usr/bin/crun", "usr/bin/runc")


class Crio(HostService):
    def __init__(self, node_root: Path, release: str) -> None:
        super().__init__(node_root, "crio", [str(node_root / "usr/bin/crio")], SOCKET, always=False)
        self._release = release

    def install(self) -> None:
        """Its program, its configuration and low-level runtimes, where the machine has none yet."""
        argv = [sys.executable, "-m", "gpuready_sim.crio.program", "--node-root", str(self.node_root)]
        install_program(self.node_root / "usr/bin/crio", shell_program([*argv, "--release", self._release]))
        for name in _PROGRAMS:
            install_program(self.node_root / name, "#!/bin/sh\nexit 1\n")
        self.install_manager()
        packaged = self.node_root / merge.DROP_INS.lstrip("/") / "10-crio.conf"
        packaged.parent.mkdir(parents=True, exist_ok=True)
        if not packaged.exists():
            packaged.write_text(_PACKAGED)
