"""Where the programs of Kubernetes are on this machine, and which versions.

A program is looked for in KUBEBUILDER_ASSETS (the convention of the Kubernetes project's own tests, whoever
put it there), then in the cache that `make kubernetes` fills, then on PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuready_sim.errors import SimulatorError

KUBERNETES_VERSION = "v1.36.3"
CONTAINERD_VERSION = "v2.2.1"
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE = ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr")
VARIABLE = "KUBEBUILDER_ASSETS"
_VERSION_S = 20


class MissingAssets(SimulatorError):
    """A program of Kubernetes is not on this machine."""


@dataclass(frozen=True)
class Asset:
    """One program: its file, and why it was looked for there ("KUBEBUILDER_ASSETS", "cache", "PATH")."""

    name: str
    path: Path
    place: str

    def version(self) -> str:
        """What the program says of itself, "v1.36.3" or "3.6.8"; empty when it says nothing known."""
        option = "-v" if "shim" in self.name else "--version"
        try:
            done = subprocess.run(
                [self.path, option], capture_output=True, text=True, timeout=_VERSION_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        found = re.search(r"(?:Kubernetes |etcd Version: |containerd/v2 |Version: +)(\S+)", done.stdout)
        return found.group(1) if found else ""


def cache_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Where our own builds are, and where the next one goes."""
    base = env.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "gpuready" / "kubernetes" / KUBERNETES_VERSION


def target_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Where a build goes: KUBEBUILDER_ASSETS when it is set, the cache otherwise."""
    chosen = env.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else cache_dir(env)


def find(name: str, env: Mapping[str, str] = os.environ) -> Asset | None:
    """The program, None when it is nowhere."""
    chosen = env.get(VARIABLE)
    folders = [(Path(chosen).expanduser(), VARIABLE)] if chosen else []
    for folder, place in [*folders, (cache_dir(env), "cache")]:
        if os.access(folder / name, os.X_OK):
            return Asset(name, folder / name, place)
    found = shutil.which(name, path=env.get("PATH"))
    return Asset(name, Path(found), "PATH") if found else None


def require(names: Iterable[str] = CONTROL_PLANE, env: Mapping[str, str] = os.environ) -> dict[str, Asset]:
    """All of them; raises MissingAssets that names those that are nowhere."""
    found = {name: find(name, env) for name in names}
    missing = [name for name, asset in found.items() if asset is None]
    if missing:
        raise MissingAssets(
            f"real Kubernetes is not on this machine: {', '.join(missing)} not found",
            why=f"looked in {VARIABLE} ({env.get(VARIABLE) or 'not set'}), in {cache_dir(env)} and on PATH",
            next_step=f"run `make kubernetes` (needs Go; about 12 minutes), or let {VARIABLE} name a folder "
            "that has them",
        )
    return {name: asset for name, asset in found.items() if asset is not None}
