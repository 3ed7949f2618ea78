"""What a real node needs of this machine, and what of it is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from gpuready_sim.errors import SimulatorError
from gpuready_sim.kubernetes import assets
from gpuready_sim.kubernetes.node import leftovers

CNI_PLUGINS = Path("/usr/lib/cni")
BUSYBOX = "busybox"
_RUNTIMES = ("runc", "crun")
_CONTROLLERS = ("cpu", "cpuset", "devices", "memory", "pids")
_CAP_SYS_ADMIN = 1 << 21


class MissingRequirement(SimulatorError):
    """This machine cannot run a real node."""


def require() -> None:
    """raises MissingRequirement that names all that is missing"""
    missing = list(_missing())
    if missing:
        raise MissingRequirement(
            "no real node can run on this machine", why="; ".join(missing), next_step=_next_step(missing)
        )


def runtime() -> str:
    """The OCI runtime: Debian's runc, or crun."""
    found = next((path for name in _RUNTIMES if (path := shutil.which(name))), None)
    if found is None:
        raise MissingRequirement("no OCI runtime was found", next_step="install runc")
    return found


def _missing() -> Iterator[str]:
    if os.geteuid() != 0:
        yield "it needs root (mounts, cgroups, containers)"
        return
    if not _capabilities() & _CAP_SYS_ADMIN:
        yield "root may not mount here (CAP_SYS_ADMIN is missing)"
    # In version 2 devices are no controller: the runtime guards them by a program in the kernel.
    needed = set(_CONTROLLERS) - ({"devices"} if leftovers.is_unified() else set())
    absent = sorted(needed - leftovers.controllers())
    if absent:
        yield f"no cgroup controller {', '.join(absent)}"
    elif not leftovers.is_writable():
        yield "the cgroups cannot be written to"
    for name in (*assets.CONTROL_PLANE, *assets.NODE):
        if assets.find(name) is None:
            yield f"{name} was not built"
    if not any(shutil.which(name) for name in _RUNTIMES):
        yield "no OCI runtime (Debian: runc)"
    busybox = shutil.which(BUSYBOX)
    if busybox is None or not _is_static(Path(busybox)):
        yield "no static busybox for images (Debian: busybox-static)"
    if not (CNI_PLUGINS / "ptp").exists():
        yield "no CNI plugins (Debian: containernetworking-plugins)"
    for command, package in (("unshare", "util-linux"), ("nsenter", "util-linux"), ("ip", "iproute2")):
        if shutil.which(command) is None:
            yield f"no {command} (Debian: {package})"


def _is_static(program: Path) -> bool:
    """A program that needs libraries names its loader near its beginning."""
    with program.open("rb") as file:
        return b"/ld-" not in file.read(4096)


def _capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def _next_step(missing: list[str]) -> str:
    steps = ["run `make kubernetes`"] if any("was not built" in text for text in missing) else []
    packages = [text.partition("Debian: ")[2].rstrip(")") for text in missing if "Debian: " in text]
    if packages:
        steps.append(f"apt-get install {' '.join(dict.fromkeys(packages))}")
    return "; ".join(steps)
