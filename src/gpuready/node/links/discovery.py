"""What the machine shows before any driver: its NVIDIA GPUs on the PCI bus, its kernel, its distribution."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuready.gpu.inventory import pci_gpus
from gpuready.gpu.tree import Tree

_PASSED_THROUGH = ("vfio-pci", "nvgrace_gpu_vfio_pci")  # such a card belongs to a virtual machine
_ASSIGNMENT = re.compile(r"^\s*([A-Z][A-Z0-9_]*)=(.*?)\s*$")


@dataclass(frozen=True)
class PciGpu:
    """One NVIDIA GPU on the bus; `address` as sysfs names it, "0000:1a:00.0"."""

    address: str
    passed_through: bool = False


@dataclass(frozen=True)
class Machine:
    """What can be known without a driver."""

    gpus: tuple[PciGpu, ...] = ()
    kernel: str = ""
    os_release: dict[str, str] = field(default_factory=dict)

    @property
    def pci_addresses(self) -> tuple[str, ...]:
        """Of the GPUs that containers may use."""
        return tuple(gpu.address for gpu in self.gpus if not gpu.passed_through)


def gather(host: Tree) -> Machine:
    """Read the machine; `host` is the host's whole tree. What cannot be read counts as not there."""
    return Machine(
        gpus=tuple(PciGpu(address, _is_passed_through(host, address)) for address in pci_gpus(host)),
        kernel=host.read_text("/proc/sys/kernel/osrelease") or "",
        os_release=os_release_of(host.read_text("/etc/os-release") or ""),
    )


def _is_passed_through(host: Tree, address: str) -> bool:
    return host.resolve(f"/sys/bus/pci/devices/{address}/driver").name in _PASSED_THROUGH


def os_release_of(text: str) -> dict[str, str]:
    """KEY=value lines of os-release(5), quotes stripped."""
    found = {}
    for line in text.splitlines():
        match = _ASSIGNMENT.match(line)
        if match:
            found[match[1]] = match[2].strip("\"'")
    return found
