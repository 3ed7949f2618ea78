"""A directory tree that is somebody else's "/": the host's, or the driver's.

Its links are resolved inside it, as the programs that live there would see them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
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
        return Path(self._resolved(str(path)))

    def _resolved(self, path: str) -> str:
        """Plain text all the way: this is called for every file of /sys that we read."""
        base = _real(str(self.base))
        todo = _parts(path)
        done = base
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                done = done.rpartition("/")[0] if len(done) > len(base) else base
                continue
            target = _link_target(f"{done}/{part}")
            if target is None:
                done = f"{done}/{part}"
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if target.startswith("/"):
                done = base
            todo.extend(_parts(target))
        return done or "/"

    def resolve_if_possible(self, path: str | Path) -> Path:
        """As `resolve`; links in a circle lead nowhere: the plain path then says that nothing is there."""
        try:
            return self.resolve(path)
        except OSError:
            return Path(f"{self.base}{path}")

    def inside(self, path: Path) -> str:
        """How this tree's own programs name a resolved path: "/usr/lib/x"."""
        return str(path).removeprefix(_real(str(self.base))) or "/"

    def read_text(self, path: str | Path) -> str | None:
        """Stripped content of a small file such as those in /proc and /sys; None when unreadable."""
        try:
            with open(self._resolved(str(path)), encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return None

    def exists(self, path: str | Path) -> bool:
        try:
            return os.path.exists(self._resolved(str(path)))
        except (OSError, ValueError):  # ValueError: no path has a NUL in it
            return False

    def missing(self, paths: Iterable[str]) -> list[str]:
        """Those of many paths that do not exist; their folders, mostly the same few, are resolved once."""
        folders: dict[str, str] = {}
        return [path for path in paths if not self._is_there(path, folders)]

    def _is_there(self, path: str, folders: dict[str, str]) -> bool:
        folder, _, name = path.rpartition("/")
        try:
            if folder not in folders:
                folders[folder] = self._resolved(folder)
            is_link = stat.S_ISLNK(os.lstat(f"{folders[folder]}/{name}").st_mode)
        except (OSError, ValueError):
            return self.exists(path) if name in ("", ".", "..") else False
        return self.exists(path) if is_link else True

    def names_in(self, path: str | Path) -> list[str]:
        """Sorted names in a directory; [] when there is none."""
        try:
            return sorted(os.listdir(self._resolved(str(path))))
        except OSError:
            return []


def _parts(path: str) -> list[str]:
    """Components in the order in which a stack gives them back."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


@lru_cache(maxsize=64)
def _real(base: str) -> str:
    """A tree's own place, "" for "/": a mount does not move while a process lives."""
    return os.path.realpath(base).rstrip("/")


def _link_target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return None
