"""Where the driver is on this node and of which version: files only, read anew each time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuready import names
from gpuready.gpu.driver_files import (
    LIBRARY_DIRS,
    MODULE_VERSION_FILES,
    NvmlLibrary,
    find_module_version,
    find_nvml_library,
)
from gpuready.gpu.tree import Tree
from gpuready.node.root import Root


@dataclass(frozen=True)
class Driver:
    """root  the driver's root as the host names it; tree  the same as we see it."""

    root: str
    tree: Tree
    library: NvmlLibrary | None
    module: str

    @property
    def version(self) -> str:
        return self.library.version if self.library else ""

    @property
    def library_path(self) -> str:
        return str(self.library.path) if self.library else ""


def find_driver(host: Root, wanted: str | None) -> Driver:
    """wanted  root that gate or settings name; None takes the driver container's, else the host's."""
    module = find_module_version(host)
    roots = [wanted] if wanted else [names.DRIVER_INSTALL_DIR, "/"]
    for root in roots:
        tree = tree_of(host, root)
        library = find_nvml_library(tree)
        if library or root == roots[-1]:
            return Driver(root, tree, library, module)
    raise AssertionError("roots is never empty")


def tree_of(host: Root, driver_root: str) -> Tree:
    return host if driver_root == "/" else Tree(_resolved(host, driver_root))


def _resolved(tree: Tree, path: str) -> Path:
    """Links in a circle lead nowhere; the plain path then says that nothing is there."""
    try:
        return tree.resolve(path)
    except OSError:
        return Path(f"{tree.base}{path}")


def watched_paths(host: Root, wanted: str | None) -> list[Path]:
    """Changes here may mean another driver. (The kernel announces nothing in /proc: see the daemon's tick.)

    A library folder is watched whole: the spec names many files of it.
    """
    roots = [wanted] if wanted else [names.DRIVER_INSTALL_DIR, "/"]
    folders = [_resolved(tree_of(host, root), folder) for root in roots for folder in LIBRARY_DIRS]
    versions = [_resolved(host, path) for path in MODULE_VERSION_FILES]
    return [*dict.fromkeys(folders), host.base / "dev/nvidiactl", *versions]


def is_bound(host: Root, address: str) -> bool:
    """Whether the kernel module has the GPU at "0000:1b:00.0", lost or not; True if it tells of none."""
    gpus = host.names_in("/proc/driver/nvidia/gpus")
    return not gpus or address in gpus


def module_stamp(host: Root) -> bytes:
    """What the kernel says of its module, unparsed: to see a change at the price of one read."""
    for path in MODULE_VERSION_FILES:
        try:
            with open(f"{host.base}{path}", "rb", buffering=0) as file:
                return file.read(4096)
        except OSError:
            continue
    return b""
