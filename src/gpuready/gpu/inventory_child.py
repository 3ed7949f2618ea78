"""A short-lived process that asks NVML once and prints what it found as JSON.

    python -m gpuready.gpu.inventory_child --driver-root DIR [--kernel-root DIR]

For callers that must not hold NVML or hang with it: they start it with a deadline and read one line.

    {"inventory": {...} | null, "error": null | {"code", "name", "message", "library", "module", "searched"}}

Exit status: 0 fine (also when single GPUs failed: see `failures`), 3 no library, 4 driver not loaded,
5 library and module differ, 1 any other answer of NVML.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from gpuready.gpu import driver_files
from gpuready.gpu.inventory import Inventory, take_inventory
from gpuready.gpu.nvml import DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, VERSION_MISMATCH, Nvml, NvmlError
from gpuready.gpu.tree import Tree

EXIT_CODES = {LIBRARY_NOT_FOUND: 3, DRIVER_NOT_LOADED: 4, VERSION_MISMATCH: 5}


def main(argv: list[str] | None = None) -> int:
    options = _parse(argv)
    driver, kernel = Tree(options.driver_root), Tree(options.kernel_root)
    inventory, error = look(driver, kernel)
    row = {"inventory": inventory.to_json() if inventory else None, "error": error}
    sys.stdout.write(json.dumps(row) + "\n")
    return EXIT_CODES.get(error["code"], 1) if error else 0


def look(driver: Tree, kernel: Tree) -> tuple[Inventory | None, dict[str, Any] | None]:
    library = driver_files.find_nvml_library(driver)
    module = driver_files.find_module_version(kernel)
    try:
        if library is None:
            raise NvmlError(LIBRARY_NOT_FOUND, "search", f"no {driver_files.NVML_SONAME}")
        nvml = Nvml(library.path)
        try:
            return take_inventory(nvml, kernel), None
        finally:
            nvml.close()
    except NvmlError as exc:
        return None, {
            "code": exc.code,
            "name": exc.name,
            "message": exc.what,
            "library": library.version if library else "",
            "module": module,
            "searched": [] if library else list(driver_files.LIBRARY_DIRS),
        }


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="ask NVML once and print what it found")
    parser.add_argument("--driver-root", type=Path, required=True, help="the tree that holds the driver")
    parser.add_argument("--kernel-root", type=Path, default=default_kernel_root(), help="has /proc and /sys")
    return parser.parse_args(argv)


def default_kernel_root() -> Path:
    """Where we see the host's /proc, /sys and /dev: below /host where that is mounted."""
    own = Path(os.environ.get("GPUREADY_ROOT") or "/")
    host = own / "host"
    return host if host.is_dir() else own


if __name__ == "__main__":
    sys.exit(main())
