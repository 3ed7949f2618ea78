"""A view of this machine in which it has GPUs and a driver, and engines that start containers there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuready_sim.hardware import machine, mig
from gpuready_sim.kubernetes import assets
from gpuready_sim.kubernetes.node import view

VERSION = "550.163.01"
_DEADLINE_S = 60
_LOADS = """\
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!dlopen(argv[i], RTLD_NOW)) { puts(dlerror()); return 1; }
        printf("loaded %s\\n", argv[i]);
    }
    return 0;
}
"""


class CdiNode:
    """Two A100: the first whole, with DRM nodes; the second with two partitions."""

    def __init__(self, folder: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("a view of the machine needs root")
        if shutil.which("busybox") is None:
            pytest.skip("no busybox for the container (Debian: busybox-static)")
        self.folder = folder / "node"
        self.rootfs = self.folder / "container"
        self._build()
        self._view = self._open_view()

    def _build(self) -> None:
        root = self.folder / "root"
        root.mkdir(parents=True)
        (root / "lib").symlink_to("usr/lib")
        machine.build_node_root(self.folder, machine.MachineSpec("gpu-1", (("A100-SXM4-40GB", 2),)))
        machine.install_driver(root, VERSION)
        machine.load_driver(self.folder, VERSION)
        with machine.gpu_state(self.folder) as state:
            self.pci_address = state.gpus()[0].pci_address
            self.uuid = state.gpus()[0].uuid
            self.partitions = mig.layout(state, 1, ["1g.5gb", "3g.20gb"])
        drm = root / "sys/bus/pci/devices" / self.pci_address / "drm"
        for name in ("card1", "renderD128"):
            (drm / name).mkdir(parents=True)
        self._build_rootfs()

    def _build_rootfs(self) -> None:
        """busybox, and a program that loads libraries, with the loader and the C library of this machine."""
        for name in ("bin", "dev", "etc", "lib64", "proc", "run", "sys", "tmp", "usr/lib"):
            (self.rootfs / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(str(shutil.which("busybox")), self.rootfs / "bin/busybox")
        for name in ("sh", "ls", "cat", "env", "readlink"):
            (self.rootfs / "bin" / name).symlink_to("busybox")
        source = self.folder / "loads.c"
        source.write_text(_LOADS)
        program = self.rootfs / "bin/loads"
        subprocess.run(["cc", str(source), "-o", str(program), "-ldl"], check=True)
        for line in subprocess.run(["ldd", program], capture_output=True, text=True).stdout.splitlines():
            library = next((word for word in line.split() if word.startswith("/")), "")
            if library:
                target = self.rootfs / library.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, target)

    def _open_view(self) -> subprocess.Popen[bytes]:
        log = (self.folder / "view.log").open("wb")
        argv = ["unshare", "--mount", sys.executable, "-m", view.__name__, str(self.folder)]
        child = subprocess.Popen(argv, stdout=log, stderr=log)
        ready = self.folder / view.PID_FILE
        until = time.monotonic() + _DEADLINE_S
        while not ready.exists():
            if child.poll() is not None or time.monotonic() > until:
                pytest.skip(
                    f"no view of this machine: {(self.folder / 'view.log').read_text().strip()[-300:]}"
                )
            time.sleep(0.02)
        self._enter = ["nsenter", f"--mount=/proc/{ready.read_text()}/ns/mnt", "--"]
        for name, minor in (("card1", 1), ("renderD128", 128)):
            self.run("sh", "-c", f"mkdir -p /dev/dri && mknod -m 660 /dev/dri/{name} c 226 {minor}")
        return child

    def close(self) -> None:
        self._view.terminate()
        self._view.wait(_DEADLINE_S)

    def run(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        """On the node."""
        given = {**os.environ, "NVSIM_STATE": view.GPU_STATE, "NVSIM_DEV": "/dev", **env}
        return subprocess.run(
            [*self._enter, *argv], env=given, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
        )

    def spawn(self, *argv: str, **env: str) -> subprocess.Popen[bytes]:
        log = (self.folder / "daemon.log").open("ab")
        return subprocess.Popen([*self._enter, *argv], env={**os.environ, **env}, stdout=log, stderr=log)

    def cdi(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "gpuready.cli", "cdi", *words)


# crun refuses to start where both versions of cgroups are mounted.
_WITHOUT_CGROUP2 = (
    *("unshare", "--mount", "sh", "-c"),
    'umount -l /sys/fs/cgroup/unified 2>/dev/null; exec "$0" "$@"',
)


def _skip_unable(done: subprocess.CompletedProcess[str], runtime: str) -> None:
    """crun of Debian 12 does not take the OCI version that containerd 2.2 asks for."""
    said = "unknown version specified"
    if said in done.stderr:
        pytest.skip(f"this {runtime} cannot start a container of this engine: {said}")


class Podman:
    """podman of Debian 12 (4.3) reads CDI up to 0.5."""

    def __init__(self, node: CdiNode, runtime: str) -> None:
        for program in ("podman", runtime):
            if shutil.which(program) is None:
                pytest.skip(f"no {program} (Debian: {program})")
        self._node, self._runtime = node, runtime
        self._config = node.folder / "containers.conf"
        # Without CAP_SYS_RESOURCE limits cannot be raised.
        self._config.write_text('[containers]\ndefault_ulimits=["nofile=1024:1024","nproc=1024:1024"]\n')

    def start(self, *command: str, devices: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        place = self._node.folder / "podman"
        words = ["podman", "--root", f"{place}/root", "--runroot", "/run/podman", "--storage-driver", "vfs"]
        words += ["--cgroup-manager", "cgroupfs", "--runtime", self._runtime]
        words += ["run", "--rm", "--network", "none"]
        words += [word for device in devices for word in ("--device", device)]
        words += ["--rootfs", str(self._node.rootfs), *command]
        wrapped = _WITHOUT_CGROUP2 if self._runtime == "crun" else ()
        done = self._node.run(*wrapped, *words, CONTAINERS_CONF=str(self._config))
        _skip_unable(done, self._runtime)
        return done

    def stop(self) -> None:
        pass


class Containerd:
    """containerd 2.x, asked by its own client."""

    def __init__(self, node: CdiNode, runtime: str) -> None:
        programs = {name: assets.find(name) for name in ("containerd", "ctr", "containerd-shim-runc-v2")}
        missing = [name for name, found in programs.items() if found is None]
        if missing or shutil.which(runtime) is None:
            pytest.skip(
                f"{', '.join(missing) or runtime} is not here: run `make kubernetes`, apt-get {runtime}"
            )
        self._node, self._runtime, self._started = node, runtime, 0
        self._programs = {name: str(found.path) for name, found in programs.items() if found}
        self._place = node.folder / f"containerd-{runtime}"
        self._socket = f"{self._place}/sock"
        self._daemon = self._start_daemon()

    def _start_daemon(self) -> subprocess.Popen[bytes]:
        self._place.mkdir()
        config = self._place / "config.toml"
        config.write_text(
            f'version = 3\nroot = "{self._place}/root"\nstate = "{self._place}/state"\n'
            'disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.grpc.v1.cri"]\n'
            f'[grpc]\naddress = "{self._socket}"\n'
        )
        path = f"{Path(self._programs['containerd']).parent}:{os.environ['PATH']}"
        daemon = self._node.spawn(self._programs["containerd"], "--config", str(config), PATH=path)
        until = time.monotonic() + _DEADLINE_S
        while self.ctr("version").returncode != 0:
            assert daemon.poll() is None, (self._node.folder / "daemon.log").read_text()[-2000:]
            assert time.monotonic() < until, "containerd does not answer"
            time.sleep(0.05)
        return daemon

    def start(self, *command: str, devices: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        self._started += 1
        words = ["run", "--rm", "--runc-binary", str(shutil.which(self._runtime))]
        words += [word for device in devices for word in ("--device", device)]
        done = self.ctr(*words, "--rootfs", str(self._node.rootfs), f"c{self._started}", *command)
        _skip_unable(done, self._runtime)
        return done

    def stop(self) -> None:
        self._daemon.terminate()
        self._daemon.wait(_DEADLINE_S)

    def ctr(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._node.run(self._programs["ctr"], "--address", self._socket, *words)
