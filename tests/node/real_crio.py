"""A real CRI-O with directories, a socket and a service manager of its own.

`crio` and `pinns` are looked for in ~/.cache/gpuready/crio and on PATH; conmon, crun and runc are the
machine's. Its configuration lies below the root of a node as on a host, and the toolkit sees nothing else.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpuready_sim.host_service import HostService, install_program

DROP_INS = "etc/crio/crio.conf.d"
_PROGRAM = """\
#!/bin/sh
# The host's paths are below {root}; without words it serves.
[ $# = 0 ] && set -- --config "" --config-dir /{drop_ins}
for word do
    shift
    case $word in /etc/crio*) word="{root}$word" ;; esac
    set -- "$@" "$word"
done
exec '{program}' "$@" 2>>'{root}/crio.log'
"""
_CONFIG = """\
[crio]
root = "{here}/storage"
runroot = "{here}/runroot"
storage_driver = "vfs"
log_dir = "{here}/pods"
version_file = "{here}/version"
clean_shutdown_file = "{here}/clean.shutdown"
[crio.api]
listen = "{socket}"
[crio.image]
signature_policy_dir = "{here}/policies"
[crio.network]
network_dir = "{here}/net.d"
[crio.runtime]
apparmor_profile = "unconfined"
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
container_attach_socket_dir = "{here}/attach"
container_exits_dir = "{here}/exits"
default_runtime = "crun"
hooks_dir = []
irqbalance_config_restore_file = "disable"
namespaces_dir = "{here}/namespaces"
pinns_path = "{pinns}"
[crio.runtime.runtimes.crun]
runtime_path = "/usr/bin/crun"
runtime_root = "{here}/crun"
monitor_path = "/usr/bin/conmon"
"""
_CRUN = Path("/usr/bin/crun")


def programs() -> tuple[Path, Path]:
    """crio and pinns; skips the test where one of them, or what CRI-O runs, is not on the machine."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpuready" / "crio"
    found = [shutil.which(name, path=f"{base}:{os.environ['PATH']}") for name in ("crio", "pinns")]
    if not all(found):
        pytest.skip(f"no CRI-O on this machine: put crio and pinns on PATH or into {base}")
    if not (_CRUN.exists() and Path("/usr/bin/conmon").exists()):
        pytest.skip("CRI-O needs crun and conmon in /usr/bin")
    return Path(str(found[0])), Path(str(found[1]))


class RealCrio(HostService):
    def __init__(self, node_root: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("CRI-O needs root")
        self._crio, self._pinns = programs()
        self.drop_ins = node_root / DROP_INS
        super().__init__(
            node_root, "crio", [str(node_root / "usr/bin/crio")], "run/crio/crio.sock", always=False
        )

    def install(self) -> None:
        here = self.node_root / "crio"
        if here.exists():
            return
        here.mkdir(parents=True)
        text = _PROGRAM.format(root=self.node_root, drop_ins=DROP_INS, program=self._crio)
        install_program(self.node_root / "usr/bin/crio", text)
        for name in ("crun", "runc"):
            install_program(self.node_root / "usr/bin" / name, "the machine's own\n")
        self.install_manager()
        self.drop_ins.mkdir(parents=True)
        self._socket.parent.mkdir(parents=True)
        config = _CONFIG.format(here=here, socket=self._socket, pinns=self._pinns)
        (self.drop_ins / "10-crio.conf").write_text(config)
