"""What the machine shows before any driver: its NVIDIA GPUs on the PCI bus, its kernel, its distribution."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuready.node.root import Root

PCI_DEVICES = "/sys/bus/pci/devices"
_NVIDIA_VENDOR = "0x10de"
_GPU_CLASSES = (
    "0x0300",
    "0x0302",
)  # VGA and 3D controllers; audio functions, bridges and switches are not GPUs
_PASSED_THROUGH = ("vfio-pci", "nvgrace_gpu_vfio_pci")  # such a card belongs to a virtual machine
_ASSIGNMENT = re.compile(r"^\s*([A-Z][A-Z0-9_]*)=(.*?)\s*$")


@dataclass(frozen=True)
class PciGpu:
    """One NVIDIA GPU on the bus; `address` as sysfs names it, "0000:1a:00.0"."""

    address: str
    device_id: str
    class_code: str
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


def gather(host: Root) -> Machine:
    """Read the machine; `host` is the host's whole tree. What cannot be read counts as not there."""
    return Machine(
        gpus=tuple(find_gpus(host)),
        kernel=host.read_text("/proc/sys/kernel/osrelease") or "",
        os_release=os_release_of(host.read_text("/etc/os-release") or ""),
    )


def find_gpus(host: Root) -> list[PciGpu]:
    """NVIDIA GPUs in the order of their addresses."""
    try:
        addresses = sorted(entry.name for entry in host.resolve(PCI_DEVICES).iterdir())
    except OSError:
        return []
    return [gpu for address in addresses if (gpu := _find_gpu(host, address))]


def _find_gpu(host: Root, address: str) -> PciGpu | None:
    directory = f"{PCI_DEVICES}/{address}"
    if host.read_text(f"{directory}/vendor") != _NVIDIA_VENDOR:
        return None
    class_code = host.read_text(f"{directory}/class") or ""
    if not class_code.startswith(_GPU_CLASSES):
        return None
    device_id = host.read_text(f"{directory}/device") or ""
    bound_to = host.resolve(f"{directory}/driver").name
    return PciGpu(address.lower(), device_id, class_code, passed_through=bound_to in _PASSED_THROUGH)


def os_release_of(text: str) -> dict[str, str]:
    """KEY=value lines of os-release(5), quotes stripped."""
    found = {}
    for line in text.splitlines():
        match = _ASSIGNMENT.match(line)
        if match:
            found[match[1]] = match[2].strip("\"'")
    return found
