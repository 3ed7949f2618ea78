"""Which device nodes give access to a MIG device, and to MIG itself.

Source: k8s-device-plugin v0.19.3, internal/mig; /proc/driver/nvidia/capabilities of the kernel module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuready.gpu.cdi.model import DeviceNode
from gpuready.gpu.inventory import GPU
from gpuready.gpu.nvml import Partition
from gpuready.gpu.tree import Tree

MINORS_FILE = "/proc/driver/nvidia-caps/mig-minors"
CAPABILITIES_DIR = "/proc/driver/nvidia/capabilities"
_MAJOR = re.compile(r"^\s*(\d+)\s+nvidia-caps$", re.MULTILINE)
_MINOR = re.compile(r"^DeviceFileMinor:\s*(\d+)\s*$", re.MULTILINE)
_MODE = 0o444  # as nvidia-modprobe makes them
_LINE = re.compile(r"^(\S+)\s+(\d+)\s*$", re.MULTILINE)


class Capabilities:
    """Read once, as the kernel tells them now."""

    def __init__(self, kernel: Tree) -> None:
        """kernel  the tree with the host's /proc"""
        self._kernel = kernel
        self._minors = dict(_LINE.findall(kernel.read_text(MINORS_FILE) or ""))

    def of_partition(self, gpu: GPU, partition: Partition) -> list[str]:
        """Paths below the device root of its GPU instance and its compute instance.

        An empty list when the kernel names one of the two not: the partition was destroyed meanwhile.
        """
        instance = f"gi{partition.gpu_instance}"
        found = [
            self._node(f"gpu{gpu.minor}/{instance}/access"),
            self._node(f"gpu{gpu.minor}/{instance}/ci{partition.compute_instance}/access"),
        ]
        return [path for path in found if path] if all(found) else []

    def of_mig(self) -> list[str]:
        """Nodes that allow to configure and to monitor MIG on every GPU."""
        return [path for name in ("config", "monitor") if (path := self._node(name))]

    def described(self, path: str) -> DeviceNode | None:
        """The node of a capability that the host has not made yet; None while its module is not loaded."""
        major = _MAJOR.search(self._kernel.read_text("/proc/devices") or "")
        minor = path.rpartition("nvidia-cap")[2]
        if major is None or not minor.isdigit():
            return None
        return DeviceNode(path, path, (int(major.group(1)), int(minor)), _MODE, is_made=True)

    def _node(self, name: str) -> str:
        minor = self._minors.get(name) or next(self._told(name), "")
        return f"/dev/nvidia-caps/nvidia-cap{minor}" if minor else ""

    def _told(self, name: str) -> Iterator[str]:
        """Older drivers have no list, each capability a file of its own."""
        gpu, slash, rest = name.partition("/")
        path = f"{gpu}/mig/{rest}" if slash else f"mig/{name}"
        match = _MINOR.search(self._kernel.read_text(f"{CAPABILITIES_DIR}/{path}") or "")
        if match:
            yield match.group(1)
