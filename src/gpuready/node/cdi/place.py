"""Where the driver is on this node, as settings and files say. Reads files, waits for nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuready import names
from gpuready.gpu.cdi.build import Place, Wishes
from gpuready.gpu.driver_files import find_nvml_library
from gpuready.gpu.tree import Tree
from gpuready.node.root import Root


@dataclass(frozen=True)
class Settings:
    """driver_root   on the host; "" takes the driver container's, where it has a library, else the host's
    library_dirs  look for libraries here and nowhere else
    settle_s      a driver's installer writes a hundred files: wait until it has been quiet this long
    retry_s       what NVML did not answer, or the disk did not take, is tried again after this long
    """

    driver_root: str = ""
    install_dir: str = names.DRIVER_INSTALL_DIR
    dev_root: str = ""
    library_dirs: tuple[str, ...] = ()
    hooks: tuple[str, ...] = Place.hooks
    wishes: Wishes = field(default_factory=Wishes)
    settle_s: float = 0.2
    retry_s: float = 10.0


def place_of(host: Root, settings: Settings) -> Place:
    """Where the driver is now."""
    root = settings.driver_root
    if not root:
        inside = tree_at(host, settings.install_dir)
        root = settings.install_dir if find_nvml_library(inside, settings.library_dirs) else "/"
    return Place(
        host, tree_at(host, root), root, settings.dev_root, settings.library_dirs, hooks=settings.hooks
    )


def tree_at(host: Tree, root: str) -> Tree:
    return host if root == "/" else Tree(host.resolve_if_possible(root))
