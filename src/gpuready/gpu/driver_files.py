"""What of the NVIDIA driver lies in a directory tree: libraries, their version, the kernel module's version.

Reads files only: no NVML, so that it answers while a driver is broken, half updated or absent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpuready.gpu.tree import Tree

NVML_SONAME = "libnvidia-ml.so.1"
LIBRARY_DIRS = (
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
)
# Source: k8s-device-plugin v0.19.3, internal/lookup/root (library search inside a driver root).
MODULE_VERSION_FILES = ("/proc/driver/nvidia/version", "/sys/module/nvidia/version")

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")


@dataclass(frozen=True)
class NvmlLibrary:
    """The NVML library of a driver tree.

    path     real file, to be loaded
    folder   its directory as the tree's own programs name it: "/usr/lib/x86_64-linux-gnu"
    version  from the file name; "" when the name carries none
    """

    path: Path
    folder: str
    version: str


def find_nvml_library(driver: Tree) -> NvmlLibrary | None:
    for folder in LIBRARY_DIRS:
        try:
            path = driver.resolve(f"{folder}/{NVML_SONAME}")
        except OSError:
            continue
        if path.is_file():
            return NvmlLibrary(path, driver.inside(path.parent), version_of_library(path.name))
    return None


def version_of_library(file_name: str) -> str:
    """ "libnvidia-ml.so.550.163.01" -> "550.163.01"; a plain soname ("libx.so.1") has no version."""
    _, _, suffix = file_name.partition(".so.")
    return suffix if _VERSION.fullmatch(suffix) else ""


def find_module_version(kernel: Tree) -> str:
    """Version of the loaded nvidia kernel module; "" when it is not loaded."""
    for path in MODULE_VERSION_FILES:
        text = kernel.read_text(path)
        if text:
            return parse_module_version(text)
    return ""


def parse_module_version(text: str) -> str:
    """From the bare text of /sys/module or from "NVRM version: NVIDIA UNIX … 550.163.01 …" of /proc."""
    match = _VERSION.search(text.splitlines()[0]) if text else None
    return match.group() if match else ""
