"""Driver trees for the tests of CDI: recorded ones and small ones."""

from __future__ import annotations

import json
import os
import stat
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuready.gpu.inventory import GPU
from gpuready.gpu.nvml import Partition
from gpuready.gpu.tree import Tree

RECORDED = Path(__file__).parents[3] / "fixtures/originals/cdi"
LIBS = "/usr/lib/x86_64-linux-gnu"
VERSION = "550.163.01"
HOOK = "/usr/local/nvidia/toolkit/nvidia-cdi-hook"


def recorded(profile: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / f"{profile}.json").read_text())
    return found


def touch(root: Path, path: str, text: str = "") -> Path:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def link(root: Path, path: str, target: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to(target)


def make_nodes() -> bool:
    """Whether this process may make character devices (root may)."""
    return os.geteuid() == 0


def node(root: Path, path: str, major: int, minor: int, mode: int = 0o666) -> None:
    """A character device, or for want of rights a plain file."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mknod(file, stat.S_IFCHR | mode, os.makedev(major, minor))
    except PermissionError:
        file.touch()
    file.chmod(mode)


def build_tree(root: Path, files: Iterable[Sequence[str]]) -> None:
    """A recorded tree; sockets are plain files here."""
    for path, kind, *more in files:
        if kind == "symlink":
            link(root, path, more[0])
        elif kind == "dir":
            (root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif kind == "char":
            major, minor = more[0].split(":")
            node(root, path, int(major), int(minor), int(more[1], 8))
        else:
            touch(root, path)


def gpus_of(inputs: Mapping[str, Any]) -> list[GPU]:
    return [
        gpu(
            row["index"],
            uuid=row["uuid"],
            minor=row["minor"],
            pci_address=(address := row["busId"][4:].lower()),
            drm_nodes=tuple(inputs["pciDrmNodes"][address]),
        )
        for row in inputs["gpus"]
    ]


def gpu(index: int = 0, **more: Any) -> GPU:
    values: dict[str, Any] = {
        "uuid": f"GPU-c{index}",
        "index": index,
        "minor": index,
        "pci_address": f"0000:0{index}:00.0",
        "product": "NVIDIA A100",
        "memory_mib": 40960,
        "compute_capability": (8, 0),
    }
    return GPU(**{**values, **more})


def partition(index: int = 0, **more: Any) -> Partition:
    values: dict[str, Any] = {
        "uuid": f"MIG-m{index}",
        "index": index,
        "gpu_instance": index + 1,
        "compute_instance": 0,
    }
    return Partition(**{**values, **more})


def driver_tree(root: Path, *, gpus: int = 1, version: str = VERSION, module: str = VERSION) -> Tree:
    """A host with a small driver: two libraries, nvidia-smi, the nodes of `gpus` GPUs."""
    for name in ("libnvidia-ml", "libcuda"):
        touch(root, f"{LIBS}/{name}.so.{version}")
        link(root, f"{LIBS}/{name}.so.1", f"{name}.so.{version}")
    touch(root, "/usr/bin/nvidia-smi")
    touch(root, "/proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {module}\n")
    for number in range(gpus):
        node(root, f"/dev/nvidia{number}", 195, number)
    for name, minor in (("nvidiactl", 255), ("nvidia-modeset", 254)):
        node(root, f"/dev/{name}", 195, minor)
    node(root, "/dev/nvidia-uvm", 510, 0)
    node(root, "/dev/nvidia-uvm-tools", 510, 1)
    return Tree(root)


def with_mig(root: Path, gpu_minor: int, instances: Iterable[int], first_cap: int = 3) -> None:
    """The kernel's word of GPU instances with one compute instance each, and their nodes."""
    lines = ["config 1", "monitor 2"]
    for cap in (1, 2):
        node(root, f"/dev/nvidia-caps/nvidia-cap{cap}", 235, cap, 0o444)
    for number, instance in enumerate(instances):
        cap = first_cap + 2 * number
        lines.append(f"gpu{gpu_minor}/gi{instance}/access {cap}")
        lines.append(f"gpu{gpu_minor}/gi{instance}/ci0/access {cap + 1}")
        for each in (cap, cap + 1):
            node(root, f"/dev/nvidia-caps/nvidia-cap{each}", 235, each, 0o444)
    touch(root, "/proc/driver/nvidia-caps/mig-minors", "\n".join(lines) + "\n")


def ld_cache(entries: Mapping[str, str], *, old_part: bool = False) -> bytes:
    """A cache as ldconfig of glibc 2.36 writes it, from soname -> path."""
    header = 48
    strings, rows = b"", b""
    base = header + 24 * len(entries)
    for soname, path in entries.items():
        key = base + len(strings)
        strings += soname.encode() + b"\0"
        value = base + len(strings)
        strings += path.encode() + b"\0"
        rows += struct.pack("<iIIIQ", 0x0303, key, value, 0, 0)
    new = struct.pack("<20sIIBxxxI12x", b"glibc-ld.so.cache1.1", len(entries), len(strings), 2, 0)
    cache = new + rows + strings
    if not old_part:
        return cache
    old = struct.pack("<12sI", b"ld.so-1.7.0\0", 1) + struct.pack("<iII", 3, 0, 0)
    return old.ljust((len(old) + 7) // 8 * 8, b"\0") + cache
