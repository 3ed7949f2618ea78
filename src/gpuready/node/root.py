"""Where "/" is: the container's own tree, and the trees of the host and of the driver inside it.

Every path that a daemon reads goes through a `Root`. On a machine the base is "/"; in the simulator it is
a directory per container. Text that others read (CDI, records) never holds the base.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpuready import names

_MAX_LINKS = 40  # the kernel's own limit before ELOOP


@dataclass(frozen=True)
class Root:
    """A directory that stands for "/".

    `join` is for paths below our own mounts (plain join, the kernel follows links). `resolve` is for a
    foreign tree (the host's, the driver's), whose absolute links mean *its* "/": take `sub` first.
    """

    base: Path

    @classmethod
    def from_env(cls, env: dict[str, str] | os._Environ[str] | None = None) -> Root:
        return cls(Path((os.environ if env is None else env).get(names.ROOT_ENV) or "/"))

    def join(self, path: str | Path) -> Path:
        return self.base / str(path).lstrip("/")

    def sub(self, path: str | Path) -> Root:
        """The tree mounted at `path`: its links are then resolved inside it."""
        return Root(Path(os.path.realpath(self.join(path))))

    def resolve(self, path: str | Path) -> Path:
        """Where `path` leads when this tree is "/": absolute links restart here, ".." stops here.

        The path need not exist; components after a missing one are joined as they are.
        raises  OSError (ELOOP) when links go in a circle
        """
        base = Path(os.path.realpath(self.base))
        todo = [part for part in reversed(str(path).split("/")) if part not in ("", ".")]
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                done[-1:] = []
                continue
            target = _link_target(base.joinpath(*done, part))
            if target is None:
                done.append(part)
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(40, "too many levels of symbolic links", str(path))
            if target.startswith("/"):
                done = []
            todo.extend(piece for piece in reversed(target.split("/")) if piece not in ("", "."))
        return base.joinpath(*done)

    def inside(self, path: Path) -> str:
        """The name of a resolved path as this tree's own programs would say it: "/usr/lib/x"."""
        return "/" + str(path.relative_to(os.path.realpath(self.base))).removeprefix(".")

    def read_text(self, path: str | Path) -> str | None:
        """Stripped content of a small file such as those in /proc and /sys; None when unreadable."""
        try:
            return self.resolve(path).read_text(errors="replace").strip()
        except OSError:
            return None

    def exists(self, path: str | Path) -> bool:
        try:
            return self.resolve(path).exists()
        except OSError:
            return False


def _link_target(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def boot_id(root: Root) -> str:
    """Id of this boot; "" where the kernel does not tell. Read from our own /proc: it is the host's."""
    try:
        return root.join(names.BOOT_ID_FILE).read_text().strip()
    except OSError:
        return ""
