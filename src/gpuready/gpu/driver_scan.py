"""Read which files of the driver a container needs: the facts behind the CDI spec."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence

from gpuready.gpu.cdi import DeviceNode, DriverScan, gpu_node_paths
from gpuready.gpu.driver_files import find_nvml_library
from gpuready.gpu.inventory import GPU
from gpuready.gpu.tree import Tree

_PROGRAMS = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
)
_PROGRAM_DIRS = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/bin")
_SOCKETS = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")
_CONTROL = ("/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl")
_GRAPHICS = (
    "/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
    "/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
    "/usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json",
    "/usr/share/vulkan/icd.d/nvidia_icd.json",
    "/usr/share/vulkan/implicit_layer.d/nvidia_layers.json",
    "/usr/share/nvidia/nvoptix.bin",
    "/etc/OpenCL/vendors/nvidia.icd",
    "/etc/vulkan/icd.d/nvidia_icd.json",
    "/etc/vulkan/implicit_layer.d/nvidia_layers.json",
)
_FIRMWARE_DIRS = ("/lib/firmware/nvidia", "/usr/lib/firmware/nvidia")
# Source: nvidia-container-toolkit v1.19.1, pkg/nvcdi (driver-nvml.go, common-nvml.go), internal/discover.


def scan_driver(
    driver: Tree, host: Tree, driver_root: str, gpus: Sequence[GPU], hooks: Iterable[str], dev_root: str = ""
) -> DriverScan | None:
    """None when the tree holds no driver library.

    driver       the tree with the libraries; `driver_root` is its path on the host
    host         the host's tree, for sockets, hooks and device nodes
    hooks        paths of hook programs on the host, the best first
    dev_root     where on the host /dev of the driver lies; "" finds out
    """
    library = find_nvml_library(driver)
    if library is None or not library.version:
        return None
    libraries, links = _libraries(driver, library.folder, library.version)
    below = dev_root or _dev_root(host, driver_root)
    return DriverScan(
        root=driver_root,
        version=library.version,
        libraries=tuple(libraries),
        links=tuple(links),
        files=tuple(_files(driver, library.version)),
        sockets=tuple(path for path in _SOCKETS if host.exists(path)),
        control=tuple(node for path in _CONTROL if (node := _node(host, below, path))),
        nodes={
            path: node for gpu in gpus for path in gpu_node_paths(gpu) if (node := _node(host, below, path))
        },
        hook=next((path for path in hooks if path and host.exists(path)), ""),
    )


def missing_paths(host: Tree, paths: Iterable[str]) -> list[str]:
    """Those that do not exist on the host: a spec with one of them stops every container."""
    return [path for path in paths if not host.exists(path)]


def _libraries(driver: Tree, folder: str, version: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Everything with the driver's version in its name, and the links in the same folder that lead to it."""
    libraries: list[str] = []
    links: list[tuple[str, str]] = []
    for place in (folder, f"{folder}/vdpau"):
        real = {name for name in driver.names_in(place) if name.endswith(f".so.{version}")}
        libraries += [f"{place}/{name}" for name in sorted(real)]
        for name in driver.names_in(place):
            target = _leads_to(driver, place, name)
            if name not in real and target is not None and target.rpartition("/")[2] in real:
                links.append((f"{place}/{name}", target))
    return libraries, links


def _leads_to(driver: Tree, folder: str, name: str) -> str | None:
    if not name.startswith("lib") or ".so" not in name:
        return None
    try:
        return driver.inside(driver.resolve(f"{folder}/{name}"))
    except OSError:
        return None


def _files(driver: Tree, version: str) -> list[str]:
    found = [path for name in _PROGRAMS if (path := _first(driver, _PROGRAM_DIRS, name))]
    found += [path for path in _GRAPHICS if driver.exists(path)]
    for folder in _FIRMWARE_DIRS:
        names = [name for name in driver.names_in(f"{folder}/{version}") if name.startswith("gsp")]
        if names:
            return found + [f"{folder}/{version}/{name}" for name in names]
    return found


def _first(driver: Tree, folders: Iterable[str], name: str) -> str:
    return next((f"{folder}/{name}" for folder in folders if driver.exists(f"{folder}/{name}")), "")


def _dev_root(host: Tree, driver_root: str) -> str:
    inside = f"{driver_root.rstrip('/')}/dev/nvidiactl"
    return driver_root if driver_root != "/" and host.exists(inside) else "/"


def _node(host: Tree, dev_root: str, path: str) -> DeviceNode | None:
    host_path = path if dev_root == "/" else dev_root.rstrip("/") + path
    try:
        status = host.resolve(host_path).stat()
    except OSError:
        return None
    if not stat.S_ISCHR(status.st_mode):
        return DeviceNode(path, host_path)

    numbers = (os.major(status.st_rdev), os.minor(status.st_rdev))
    return DeviceNode(path, host_path, numbers, stat.S_IMODE(status.st_mode))
