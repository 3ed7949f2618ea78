"""The node's own view of this machine, held by this process: python -m gpuready_sim.kubernetes.node.view.

    view DIRECTORY ADDRESS...     started in a private mount namespace (`unshare --mount`)

In the view, "/" is this machine's "/" with the node's files (DIRECTORY/root) laid over it, copy on write:
whatever a daemon writes goes to memory and is gone with the view. Only DIRECTORY is the real one, and what
has to outlive a daemon or be reached from outside is bound from there:

    DIRECTORY/kubelet     /var/lib/kubelet
    DIRECTORY/containerd  containerd's images and containers

/run and /dev are the node's own; /proc and /sys are the machine's, with the simulated PCI devices and
driver laid over them, and with copies of the kernel's settings that a kubelet changes. The state of the
simulated GPUs is at GPU_STATE, where pods find it that mount /run/nvidia. Other processes enter by
`nsenter --mount`.

It writes its process id to DIRECTORY/view.pid when all is there. When it is told to end (SIGTERM, also when
whoever started it is gone), it kills all that lives in the view or in the node's cgroup and takes cgroups,
address and directories away.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from gpuready_sim.kubernetes.node import leftovers

PID_FILE = "view.pid"
GPU_STATE = "/run/nvidia/gpus.state"
KUBELET_DIR, CONTAINERD_DIR, VIEW_DIR = "kubelet", "containerd", "view"
_END_S = 1.5  # an orphan has two seconds, see launch.c
_DEVICES = ("full", "fuse", "kmsg", "null", "ptmx", "random", "tty", "urandom", "zero")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_OWN = ("dev", "proc", "run", "sys")  # not laid over: each is made in a way of its own
# Parts of the simulated machine that are laid over the kernel's, where the kernel has the place.
_SIMULATED = ("proc/devices", "proc/driver", "proc/modules", "sys/bus/pci/devices", "sys/module")
_KERNEL_SETTINGS = (
    "proc/sys/kernel/keys/root_maxbytes",
    "proc/sys/kernel/keys/root_maxkeys",
    "proc/sys/kernel/panic",
    "proc/sys/kernel/panic_on_oops",
    "proc/sys/net/ipv4/ip_forward",
    "proc/sys/vm/overcommit_memory",
    "proc/sys/vm/panic_on_oom",
)
_GPU_MAJOR, _UVM_MAJOR = 195, 510
_CONTROL_NODES = {
    "nvidiactl": (_GPU_MAJOR, 255),
    "nvidia-modeset": (_GPU_MAJOR, 254),
    "nvidia-uvm": (_UVM_MAJOR, 0),
    "nvidia-uvm-tools": (_UVM_MAJOR, 1),
}


def main(directory: Path, addresses: Sequence[str]) -> None:
    if not leftovers.is_in_own_view():
        sys.exit("view: start it with `unshare --mount`")
    endings = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, endings)
    cgroup = f"{leftovers.PREFIX}{os.getpid()}"
    leftovers.sweep()
    try:
        leftovers.make_cgroup(cgroup)
        for address in addresses:
            leftovers.add_address(address)
        build(directory)
        _say_ready(directory)
        signal.sigwait(endings)
    finally:
        _end(directory, cgroup, addresses)


def build(directory: Path) -> None:
    """Make the view and live in it."""
    disks = _other_disks()
    root = _lay_over(directory)
    for disk in disks:
        _mount("--rbind", disk, _place(root, disk))
    for name in (KUBELET_DIR, CONTAINERD_DIR):
        (directory / name).mkdir(exist_ok=True)
    _mount("--bind", directory, _place(root, directory))
    _mount("--bind", directory / KUBELET_DIR, _place(root, "/var/lib/kubelet"))
    _mount("--rbind", "/proc", _place(root, "/proc"))
    _mount("--rbind", "/sys", _place(root, "/sys"))
    _keep_kernel_settings(root, directory / VIEW_DIR)
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", _place(root, "/run"))
    _bind_file(directory / "gpus.state", root / GPU_STATE.lstrip("/"))
    _make_devices(_place(root, "/dev"), directory / "root/dev")
    for name in _SIMULATED:
        if (directory / "root" / name).exists() and (root / name).exists():
            _mount("--bind", directory / "root" / name, root / name)
    _pivot(root)
    # The kubelet hands mounts down to containers (HostToContainer): they must be shared, within the view.
    _mount("--make-rshared", "/")


def _lay_over(directory: Path) -> Path:
    """The merged root. Its upper layer is in memory: a layer may not lie below the one it is laid over."""
    memory = directory / VIEW_DIR
    memory.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", memory)
    upper, work, root = memory / "upper", memory / "work", memory / "root"
    work.mkdir()
    root.mkdir()
    shutil.copytree(directory / "root", upper, symlinks=True, ignore=_ignore_own(directory / "root"))
    _mount("-t", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", "overlay", root)
    return root


def _ignore_own(top: Path) -> Callable[[str, list[str]], Iterable[str]]:
    return lambda folder, names: [name for name in names if Path(folder) == top and name in _OWN]


def _other_disks() -> list[str]:
    """Mounts right below "/" that are not made anew: a home or a data disk, with all below them."""
    points = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    found: list[str] = []
    for point in sorted(points - {"/"}):
        known = [*found, *(f"/{name}" for name in _OWN)]
        if not any(point == top or point.startswith(f"{top}/") for top in known):
            found.append(point)
    return found


def _keep_kernel_settings(root: Path, memory: Path) -> None:
    """A kubelet and its network set them for the whole machine: here they write to files."""
    for number, name in enumerate(_KERNEL_SETTINGS):
        setting = Path("/", name)
        if setting.exists():
            copy = memory / f"setting-{number}"
            copy.write_text(setting.read_text())
            _mount("--bind", copy, root / name)


def _make_devices(place: Path, simulated: Path) -> None:
    """A /dev with what every program needs, and the GPUs' nodes, which no driver answers."""
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", place)
    for name in _DEVICES:
        if os.path.exists(f"/dev/{name}"):
            found = os.stat(f"/dev/{name}")
            _make_node(place / name, os.major(found.st_rdev), os.minor(found.st_rdev))
    for name, target in _DEVICE_LINKS.items():
        (place / name).symlink_to(target)
    _mount("--bind", "/dev/pts", _place(place, "pts"))
    _mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", _place(place, "shm"))
    for node in simulated.glob("nvidia*"):
        number = node.name.removeprefix("nvidia")
        major, minor = (_GPU_MAJOR, int(number)) if number.isdigit() else _CONTROL_NODES[node.name]
        _make_node(place / node.name, major, minor)


def _make_node(path: Path, major: int, minor: int) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    path.chmod(0o666)


def _bind_file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch()
    _mount("--bind", source, target)


def _place(root: Path, path: str | Path) -> Path:
    place = root / str(path).lstrip("/")
    place.mkdir(parents=True, exist_ok=True)
    return place


def _pivot(root: Path) -> None:
    """`root` becomes "/"; what was "/" is out of reach."""
    libc = ctypes.CDLL(None, use_errno=True)
    os.chdir(root)
    if libc.pivot_root(b".", b".") != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"pivot_root to {root}: {os.strerror(number)}")
    subprocess.run(["umount", "--lazy", "."], check=True)  # the old root, stacked upon the new one
    os.chdir("/")


def _mount(*words: str | Path) -> None:
    done = subprocess.run(["mount", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"mount {' '.join(map(str, words))}: {done.stderr.strip()}")


def _say_ready(directory: Path) -> None:
    fresh = directory / f".{PID_FILE}"
    fresh.write_text(str(os.getpid()))
    fresh.rename(directory / PID_FILE)


def _end(directory: Path, cgroup: str, addresses: Sequence[str]) -> None:
    deadline = time.monotonic() + _END_S
    while leftovers.kill_all_in_my_view() and time.monotonic() < deadline:
        time.sleep(0.02)
    leftovers.remove_cgroup(cgroup, max(0.1, deadline - time.monotonic()))
    for address in addresses:
        leftovers.remove_address(address)
    # A directory on which something is mounted in this very view cannot be removed.
    subprocess.run(["umount", "--recursive", "--lazy", "/var/lib/kubelet"], check=False, capture_output=True)
    (directory / PID_FILE).unlink(missing_ok=True)
    for name in (KUBELET_DIR, CONTAINERD_DIR, VIEW_DIR):
        shutil.rmtree(directory / name, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
