"""A directory tree that is somebody else's "/": the host's, or the driver's.

Its links are resolved inside it, as the programs that live there would see them.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

_MAX_LINKS = 40  # the kernel's own limit before ELOOP


@dataclass(frozen=True)
class Tree:
    """A directory that stands for "/"."""

    base: Path

    def resolve(self, path: str | Path) -> Path:
        """Where `path` leads when this tree is "/": absolute links restart here, ".." stops here.

        The path need not exist; components after a missing one are joined as they are.
        raises  OSError (ELOOP) when links go in a circle
        """
        base = Path(os.path.realpath(self.base))
        todo = _parts(str(path))
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
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            if target.startswith("/"):
                done = []
            todo.extend(_parts(target))
        return base.joinpath(*done)

    def inside(self, path: Path) -> str:
        """How this tree's own programs name a resolved path: "/usr/lib/x"."""
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

    def names_in(self, path: str | Path) -> list[str]:
        """Sorted names in a directory; [] when there is none."""
        try:
            return sorted(os.listdir(self.resolve(path)))
        except OSError:
            return []


def _parts(path: str) -> list[str]:
    """Components in the order in which a stack gives them back."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _link_target(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
