"""One simulated machine: the files of its root directory, kept in step with its gpus.state.

    <node_dir>/root/        "/" of the machine: /proc, /sys, /etc, /dev as plain files
    <node_dir>/gpus.state   what NVML sees

A machine is built without a driver. Installing one puts files below a root (driver_tree), loading one makes
the kernel's half: /proc, /sys/module, /dev and the state file.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuready_sim.errors import DriverInUseError, HardwareStateError
from gpuready_sim.hardware.catalogue import Model, find_model
from gpuready_sim.hardware.driver_tree import install_driver, installed_version, remove_driver, update_driver
from gpuready_sim.hardware.state import GpuInfo, GpuState, Holder

__all__ = [
    "MachineSpec",
    "build_node_root",
    "gpu_state",
    "install_driver",
    "installed_version",
    "load_driver",
    "loaded_version",
    "reboot",
    "remove_driver",
    "unload_driver",
    "update_driver",
]

_DIRECTORIES = (
    "dev",
    "etc",
    "proc/sys/kernel/random",
    "run",
    "sys/bus/pci/devices",
    "sys/class/dmi/id",
    "sys/module",
    "tmp",
    "usr/bin",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib64",
    "var/lib/gpuready",
    "var/lib/kubelet/device-plugins",
    "var/lib/kubelet/pod-resources",
    "var/log",
)
_OS_NAMES = {
    "ubuntu": "Ubuntu",
    "rhel": "Red Hat Enterprise Linux",
    "rocky": "Rocky Linux",
    "debian": "Debian",
}
_CONTROL_NODES = ("nvidiactl", "nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools")
# module -> modules that use it; what `lsmod` shows with nothing else loaded
_MODULES = {
    "nvidia": ("nvidia_uvm", "nvidia_modeset"),
    "nvidia_uvm": (),
    "nvidia_modeset": ("nvidia_drm",),
    "nvidia_drm": (),
}
_OTHER_MODULES = (
    "overlay 151552 0 - Live 0x0000000000000000\nbr_netfilter 32768 0 - Live 0x0000000000000000\n"
)
_DEVICES = "Character devices:\n  1 mem\n  5 /dev/tty\n{nvidia}226 drm\n\nBlock devices:\n259 blkext\n"
_INSTANCES, _COMPUTE_INSTANCES = 15, 8  # that a GPU may have at most, as the module counts them
_NVIDIA_DEVICES = "195 nvidia\n195 nvidiactl\n235 nvidia-caps\n510 nvidia-uvm\n"


@dataclass(frozen=True)
class MachineSpec:
    """What a machine is made of. `gpus`: (catalogue key, how many), in bus order."""

    name: str
    gpus: tuple[tuple[str, int], ...] = ()
    kernel: str = "5.15.0-113-generic"
    os_id: str = "ubuntu"
    os_version: str = "22.04"
    product: str = "Simulated Server"

    def models(self) -> list[Model]:
        """One entry per GPU; raises UnknownModelError."""
        return [find_model(key) for key, count in self.gpus for _ in range(count)]


def build_node_root(node_dir: Path, spec: MachineSpec) -> None:
    """Make the machine's root and state file: powered on, no driver loaded or installed."""
    models = spec.models()
    root = node_dir / "root"
    for name in _DIRECTORIES:
        (root / name).mkdir(parents=True, exist_ok=True)
    if not (root / "var/run").is_symlink():
        (root / "var/run").symlink_to("../run")
    boot_id = str(uuid.uuid4())
    with GpuState.create(node_dir / "gpus.state", models, seed=spec.name, boot_id=boot_id) as state:
        for gpu in state.gpus():
            _write_pci_device(root, gpu)
    _write_identity(root, spec)
    _write(root / "proc/sys/kernel/random/boot_id", f"{boot_id}\n")
    _write_without_module(root)


def gpu_state(node_dir: Path) -> GpuState:
    """The machine's GPUs; close it after use."""
    return GpuState(node_dir / "gpus.state")


def loaded_version(node_dir: Path) -> str | None:
    """The version of the loaded module, None when none is."""
    with gpu_state(node_dir) as state:
        return state.module_version


def load_driver(node_dir: Path, version: str) -> None:
    """Load the kernel module. Nothing to do when this version is loaded already."""
    root = node_dir / "root"
    with gpu_state(node_dir) as state:
        gpus = state.gpus()
        loaded = state.module_version
        if not gpus:
            raise HardwareStateError(
                f"modprobe nvidia failed on {node_dir.name}",
                why="the machine has no NVIDIA GPU",
                next_step="choose a node that has GPUs",
            )
        if loaded not in (None, version):
            raise HardwareStateError(
                f"driver {version} cannot be loaded on {node_dir.name}",
                why=f"module {loaded} is loaded",
                next_step="unload it first",
            )
        if loaded is None:
            state.load_module(version)
    _write_module(root, version, gpus)
    for name in (*(f"nvidia{gpu.minor}" for gpu in gpus), *_CONTROL_NODES):
        (root / "dev" / name).touch(mode=0o666)


def unload_driver(node_dir: Path, *, tolerate: Callable[[Holder], bool] | None = None) -> None:
    """Unload the kernel module; its user-space files stay.

    tolerate  holders that do not stand in the way: their NVML calls answer "driver not loaded" afterwards
    raises    DriverInUseError naming every other process that has NVML open
    """
    with gpu_state(node_dir) as state:
        in_the_way = [holder for holder in state.holders() if tolerate is None or not tolerate(holder)]
        if in_the_way:
            raise DriverInUseError(node_dir.name, in_the_way)
        state.unload_module()
    _write_without_module(node_dir / "root")


def reboot(node_dir: Path) -> str:
    """Start the machine anew: new boot id (returned), /run empty, no module, faults gone, disks kept."""
    root = node_dir / "root"
    boot_id = str(uuid.uuid4())
    with gpu_state(node_dir) as state:
        state.reboot(boot_id)
    _write_without_module(root)
    for directory in (root / "run", root / "tmp"):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(exist_ok=True)
    _write(root / "proc/sys/kernel/random/boot_id", f"{boot_id}\n")
    return boot_id


def _write_identity(root: Path, spec: MachineSpec) -> None:
    name = _OS_NAMES.get(spec.os_id, spec.os_id)
    _write(
        root / "etc/os-release",
        f'NAME="{name}"\nPRETTY_NAME="{name} {spec.os_version}"\nID={spec.os_id}\n'
        f'VERSION_ID="{spec.os_version}"\nVERSION="{spec.os_version}"\n',
    )
    _write(root / "etc/hostname", f"{spec.name}\n")
    _write(root / "etc/machine-id", f"{uuid.uuid5(uuid.NAMESPACE_DNS, spec.name).hex}\n")
    _write(root / "proc/sys/kernel/osrelease", f"{spec.kernel}\n")
    _write(root / "proc/version", f"Linux version {spec.kernel} (simulated) #1 SMP\n")
    _write(root / "proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{spec.kernel} root=/dev/vda1 ro\n")
    _write(root / "sys/class/dmi/id/product_name", f"{spec.product}\n")


def _write_pci_device(root: Path, gpu: GpuInfo) -> None:
    device = root / "sys/bus/pci/devices" / gpu.pci_address
    _write(device / "vendor", "0x10de\n")
    _write(device / "device", f"{gpu.pci_device_id:#06x}\n")
    _write(device / "class", f"0x{gpu.pci_class:04x}00\n")
    _write(device / "numa_node", f"{gpu.numa_node}\n")
    _write(device / "subsystem_vendor", "0x10de\n")
    _write(device / "subsystem_device", f"{gpu.pci_subsystem_id:#06x}\n")


def _write_module(root: Path, version: str, gpus: list[GpuInfo]) -> None:
    _write(
        root / "proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Apr  8 12:41:17 UTC 2025\n"
        "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n",
    )
    for gpu in gpus:
        _write(root / "proc/driver/nvidia/gpus" / gpu.pci_address / "information", _information(gpu))
    _write(root / "proc/driver/nvidia-caps/mig-minors", _mig_minors(len(gpus)))
    for module, users in _MODULES.items():
        _write(root / "sys/module" / module / "version", f"{version}\n")
        _write(root / "sys/module" / module / "refcnt", f"{len(users)}\n")
    lines = []
    for module, users in _MODULES.items():
        used_by = "".join(f"{user}," for user in users) or "-"
        lines.append(f"{module} 56000000 {len(users)} {used_by} Live 0x0000000000000000 (POE)\n")
    _write(root / "proc/modules", "".join(lines) + _OTHER_MODULES)
    _write(root / "proc/devices", _DEVICES.format(nvidia=_NVIDIA_DEVICES))


def _write_without_module(root: Path) -> None:
    for node in (root / "dev").glob("nvidia*"):
        node.unlink()
    for module in _MODULES:
        shutil.rmtree(root / "sys/module" / module, ignore_errors=True)
    for name in ("nvidia", "nvidia-caps"):
        shutil.rmtree(root / "proc/driver" / name, ignore_errors=True)
    _write(root / "proc/modules", _OTHER_MODULES)
    _write(root / "proc/devices", _DEVICES.format(nvidia=""))


def _information(gpu: GpuInfo) -> str:
    return (
        f"Model: \t\t {gpu.name}\n"
        f"IRQ:   \t\t {64 + gpu.minor}\n"
        f"GPU UUID: \t {gpu.uuid}\n"
        f"Bus Type: \t PCIe\n"
        f"Bus Location: \t {gpu.pci_address}\n"
        f"Device Minor: \t {gpu.minor}\n"
        f"GPU Excluded:\t No\n"
    )


def _mig_minors(gpus: int) -> str:
    """Every capability that there could be, whether its instance exists or not: a module's list is fixed."""
    lines = ["config 1", "monitor 2"]
    for gpu in range(gpus):
        for gi in range(_INSTANCES):
            first = 3 + (gpu * _INSTANCES + gi) * (_COMPUTE_INSTANCES + 1)
            lines.append(f"gpu{gpu}/gi{gi}/access {first}")
            lines += [f"gpu{gpu}/gi{gi}/ci{ci}/access {first + 1 + ci}" for ci in range(_COMPUTE_INSTANCES)]
    return "\n".join(lines) + "\n"


def _write(path: Path, text: str) -> None:
    """Write so that a reader sees the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    fresh.replace(path)
