"""DCGM as a package of the host: the library alone, where its own package puts it."""

from __future__ import annotations

import shutil
from pathlib import Path

from gpuready_sim.hardware.driver_tree import LIBRARY_DIR, native_dir

LIBRARY = f"{LIBRARY_DIR}/libdcgm.so.4"


def install_dcgm(root: Path) -> None:
    """Below `root`, the "/" of a host or of a driver's container."""
    target = root / LIBRARY
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(".new")
    shutil.copy(native_dir() / "libdcgm.so", fresh)
    fresh.replace(target)  # a process may have the old one mapped


def remove_dcgm(root: Path) -> None:
    (root / LIBRARY).unlink(missing_ok=True)
