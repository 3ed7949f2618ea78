"""Where "/" is: the container's own tree, and the trees of the host and of the driver inside it.

Every path that a daemon reads goes through a `Root`. On a machine the base is "/"; in the simulator it is
a directory per container. Text that others read (CDI, records) never holds the base.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuready import names
from gpuready.gpu.tree import Tree

HOST_MOUNT = "/host"


@dataclass(frozen=True)
class Root(Tree):
    """Our own "/" with its mounts.

    `join` is for paths below our own mounts (plain join, the kernel follows links). `resolve` is for a
    foreign tree (the host's, the driver's), whose absolute links mean *its* "/": take `sub` first.
    """

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Root:
        return cls(Path((os.environ if env is None else env).get(names.ROOT_ENV) or "/"))

    def join(self, path: str | Path) -> Path:
        return self.base / str(path).lstrip("/")

    def typed(self, path: str | Path) -> Path:
        """A path that a person may have given: without "/" in front it begins where we were started."""
        return self.join(path) if str(path).startswith("/") else Path(path).absolute()

    def sub(self, path: str | Path) -> Root:
        """The tree mounted at `path`: its links are then resolved inside it."""
        return Root(Path(os.path.realpath(self.join(path))))

    def host(self) -> Root:
        """The host's tree as mounted in our pods; our own "/" where it is not mounted."""
        return self.sub(HOST_MOUNT) if self.join(HOST_MOUNT).is_dir() else self.sub("/")


def boot_id(root: Root) -> str:
    """Id of this boot, as the kernel tells it in our own /proc or in the host's; "" when it does not."""
    for tree in (root, root.host()):
        try:
            return tree.join(names.BOOT_ID_FILE).read_text().strip()
        except OSError:
            continue
    return ""
