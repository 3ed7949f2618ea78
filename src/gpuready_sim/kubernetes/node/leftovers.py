"""What a node changes on the machine while it runs, and how that goes: cgroups, processes, an address.

Each node has one cgroup of its own in every hierarchy, `gpuready-sim-<process id of its view>`; all its
containers are below it. What a machine's crash or `kill -9` left is swept away when the next node starts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "gpuready-sim-"
_LABEL = "lo:g"
_POLL_S = 0.02
_CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")


def sweep() -> None:
    """Take away what is left of nodes whose view is gone."""
    _sweep_cgroups()
    _sweep_addresses()


# --- cgroups ----------------------------------------------------------------------------------------------
def controllers() -> set[str]:
    """Names of the controllers that can be used here, of either version."""
    found: set[str] = set()
    for place, options in _hierarchies():
        file = place / "cgroup.controllers"
        found.update(file.read_text().split() if file.exists() else options)
    return found


def is_unified() -> bool:
    """Version 2 alone is mounted; beside version 1 it has only what nobody has bound to that."""
    return all((place / "cgroup.controllers").exists() for place, _ in _hierarchies())


def is_writable() -> bool:
    return all(os.access(place, os.W_OK) for place, _ in _hierarchies())


def make_cgroup(name: str) -> None:
    """One in every hierarchy, with all CPUs and memory nodes of its parent."""
    for place, _ in _hierarchies():
        _hand_down_controllers(place)
        (place / name).mkdir(exist_ok=True)
        for file in _CPUSET_FILES:
            if (place / name / file).exists() and (place / file).exists():
                (place / name / file).write_text((place / file).read_text())


def remove_cgroup(name: str, timeout_s: float) -> bool:
    """Kill all that is in it and take it away; False when something is left when the time is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        left = [group for place, _ in _hierarchies() for group in _tree(place / name)]
        for group in left:
            _kill_all_in(group)
            try:
                group.rmdir()
            except OSError:
                pass  # its processes are still ending
        if not left:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)


def _sweep_cgroups() -> None:
    for name in {group.name for place, _ in _hierarchies() for group in place.glob(f"{PREFIX}*")}:
        if not _is_view(name.removeprefix(PREFIX)):
            remove_cgroup(name, timeout_s=5)


def _is_view(pid: str) -> bool:
    try:
        return b"kubernetes.node.view" in Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return False


def _hierarchies() -> Iterator[tuple[Path, list[str]]]:
    """(mount point, options) of every cgroup filesystem; bind mounts of parts of one are left out."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        _, _, _, root, point, *_ = before.split()
        kind, _, options = after.split()
        if kind in ("cgroup", "cgroup2") and root == "/":
            yield Path(point), options.split(",")


def _hand_down_controllers(place: Path) -> None:
    """Version 2 only: children get a controller when their parent says so."""
    file = place / "cgroup.subtree_control"
    if not file.exists():
        return
    for controller in (place / "cgroup.controllers").read_text().split():
        try:
            file.write_text(f"+{controller}")
        except OSError:
            pass  # not every controller can be handed down


def _tree(group: Path) -> list[Path]:
    """The cgroup and those below it, the innermost first."""
    return [Path(path) for path, _, _ in os.walk(group, topdown=False)]


def _kill_all_in(group: Path) -> None:
    try:
        processes = (group / "cgroup.procs").read_text().split()
    except OSError:
        return
    for process in processes:
        _kill(int(process))


# --- processes --------------------------------------------------------------------------------------------
def is_in_own_view() -> bool:
    """Whether this process has a mount namespace apart from its parent's and from the first process's."""
    return not any(_shares_my_view(pid) for pid in (1, os.getppid()))


def kill_all_in_my_view() -> int:
    """Every other process of this mount namespace; how many there were."""
    assert is_in_own_view(), "this would end every process of the machine"
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    found = [pid for pid in pids if pid != os.getpid() and _shares_my_view(pid)]
    for pid in found:
        _kill(pid)
    return len(found)


def _shares_my_view(pid: int) -> bool:
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/ns/mnt"), os.stat("/proc/self/ns/mnt"))
    except OSError:
        return False  # it has ended, or is none of ours


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


# --- the address ------------------------------------------------------------------------------------------
def add_address(address: str) -> None:
    """Give the loopback interface an address that is not a loopback address: a kubelet refuses those.

    Its label says whose it is.
    """
    _ip("address", "replace", f"{address}/32", "dev", "lo", "label", f"{_LABEL}{os.getpid()}")


def remove_address(address: str) -> None:
    try:
        _ip("address", "delete", f"{address}/32", "dev", "lo")
    except subprocess.CalledProcessError:
        pass  # it is gone


def _sweep_addresses() -> None:
    (interface,) = json.loads(_ip("-json", "address", "show", "dev", "lo"))
    for row in interface["addr_info"]:
        label = row.get("label", "")
        if label.startswith(_LABEL) and not _is_view(label.removeprefix(_LABEL)):
            remove_address(row["local"])


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
