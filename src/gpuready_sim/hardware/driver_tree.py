"""The user-space half of a driver: the files that an installer puts below a root directory.

The NVML and CUDA libraries are real (the simulator's own, copied under the driver's version: a library knows
its version by its file name). The rest are small files in the right places, for whoever lists or mounts them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path

from gpuready_sim.errors import HardwareStateError
from gpuready_sim.nvml.build import build

LIBRARY_DIR = "usr/lib/x86_64-linux-gnu"

# name -> links beside `name.so.<version>`: what loaders ask for (soname), then what linkers ask for.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "libEGL_nvidia": ("libEGL_nvidia.so.0",),
    "libGLESv1_CM_nvidia": ("libGLESv1_CM_nvidia.so.1",),
    "libGLESv2_nvidia": ("libGLESv2_nvidia.so.2",),
    "libGLX_nvidia": ("libGLX_nvidia.so.0",),
    "libcuda": ("libcuda.so.1", "libcuda.so"),
    "libcudadebugger": ("libcudadebugger.so.1",),
    "libnvcuvid": ("libnvcuvid.so.1", "libnvcuvid.so"),
    "libnvidia-allocator": ("libnvidia-allocator.so.1", "libnvidia-allocator.so"),
    "libnvidia-cfg": ("libnvidia-cfg.so.1", "libnvidia-cfg.so"),
    "libnvidia-eglcore": (),
    "libnvidia-encode": ("libnvidia-encode.so.1", "libnvidia-encode.so"),
    "libnvidia-fbc": ("libnvidia-fbc.so.1", "libnvidia-fbc.so"),
    "libnvidia-glcore": (),
    "libnvidia-glsi": (),
    "libnvidia-glvkspirv": (),
    "libnvidia-gpucomp": (),
    "libnvidia-ml": ("libnvidia-ml.so.1", "libnvidia-ml.so"),
    "libnvidia-ngx": ("libnvidia-ngx.so.1",),
    "libnvidia-nvvm": ("libnvidia-nvvm.so.4", "libnvidia-nvvm.so"),
    "libnvidia-opencl": ("libnvidia-opencl.so.1",),
    "libnvidia-opticalflow": ("libnvidia-opticalflow.so.1", "libnvidia-opticalflow.so"),
    "libnvidia-pkcs11": (),
    "libnvidia-pkcs11-openssl3": (),
    "libnvidia-ptxjitcompiler": ("libnvidia-ptxjitcompiler.so.1", "libnvidia-ptxjitcompiler.so"),
    "libnvidia-rtcore": (),
    "libnvidia-tls": (),
    "libnvoptix": ("libnvoptix.so.1", "libnvoptix.so"),
}
REAL_LIBRARIES = ("libnvidia-ml", "libcuda")
BINARIES = ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "nvidia-debugdump", "nvidia-persistenced")
DATA_FILES = (
    "etc/OpenCL/vendors/nvidia.icd",
    "etc/vulkan/icd.d/nvidia_icd.json",
    "usr/share/glvnd/egl_vendor.d/10_nvidia.json",
    "usr/share/nvidia/nvoptix.bin",
)
FIRMWARE = ("gsp_ga10x.bin", "gsp_tu10x.bin")


def install_driver(root: Path, version: str) -> None:
    """Install the user-space driver below `root` ("/" of a host, or a driver container's root)."""
    if (installed := installed_version(root)) not in (None, version):
        raise HardwareStateError(
            f"{root} already holds driver {installed}", next_step=f"update it to {version} instead"
        )
    _write_version(root, version)
    for link, target in _links(version).items():
        _replace_link(root / LIBRARY_DIR / link, target)


def update_driver(root: Path, version: str) -> None:
    """Put another version's files in place, as a package upgrade does; a loaded module stays as it is.

    At every moment each link leads to a file that exists; the old version's files go last.
    """
    old = installed_version(root)
    _write_version(root, version)
    for link, target in _links(version).items():
        _replace_link(root / LIBRARY_DIR / link, target)
    if old is not None and old != version:
        _remove_version(root, old)


def remove_driver(root: Path) -> None:
    """Take every file of the user-space driver away."""
    version = installed_version(root)
    if version is None:
        return
    for link in _links(version):
        (root / LIBRARY_DIR / link).unlink(missing_ok=True)
    _remove_version(root, version)
    for name in ("nvidia-smi", *BINARIES):
        (root / "usr/bin" / name).unlink(missing_ok=True)
    for name in DATA_FILES:
        (root / name).unlink(missing_ok=True)


def installed_version(root: Path) -> str | None:
    """The version that libnvidia-ml.so.1 below `root` leads to; None without one."""
    link = root / LIBRARY_DIR / "libnvidia-ml.so.1"
    return os.readlink(link).removeprefix("libnvidia-ml.so.") if link.is_symlink() else None


@cache
def native_dir() -> Path:
    """Where the compiled libraries are; compiles them when a source is newer."""
    return build(Path(__file__).resolve().parent.parent)


def _write_version(root: Path, version: str) -> None:
    libraries = root / LIBRARY_DIR
    libraries.mkdir(parents=True, exist_ok=True)
    for name in LIBRARIES:
        target = libraries / f"{name}.so.{version}"
        if name in REAL_LIBRARIES:
            shutil.copy(native_dir() / f"{name}.so", target)
        else:
            target.write_text(f"{name} {version} (simulated)\n")
    for name in FIRMWARE:
        _write(root / "lib/firmware/nvidia" / version / name, f"{name} {version} (simulated)\n")
    for name in BINARIES:
        _write(root / "usr/bin" / name, f"#!/bin/sh\necho '{name} is not simulated' >&2\nexit 1\n", 0o755)
    for name in DATA_FILES:
        _write(root / name, f"{Path(name).name} (simulated)\n")
    _write(root / "usr/bin/nvidia-smi", _nvidia_smi(), 0o755)


def _remove_version(root: Path, version: str) -> None:
    for name in LIBRARIES:
        (root / LIBRARY_DIR / f"{name}.so.{version}").unlink(missing_ok=True)
    shutil.rmtree(root / "lib/firmware/nvidia" / version, ignore_errors=True)


def _links(version: str) -> dict[str, str]:
    found = {}
    for name, links in LIBRARIES.items():
        for number, link in enumerate(links):
            found[link] = f"{name}.so.{version}" if number == 0 else links[0]
    return found


def _nvidia_smi() -> str:
    return f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gpuready_sim.runtime.nvidia_smi "$@"\n'


def _replace_link(link: Path, target: str) -> None:
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
