"""One toolkit on a node: two would undo each other's work. Thin."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path


class OneToolkit:
    """The pid file of the toolkit, locked: the original's takes the same lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def take(self) -> str:
        """ "" when it is ours; else the process that holds it, as it says itself."""
        if self._descriptor >= 0:
            return ""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, flags, 0o644)
        except OSError:
            return ""  # no place for a lock: there is no other toolkit either, it would need one
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return ""  # nor where something else lies in its place
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            return holder or "unknown"
        if not self._is_still_there(descriptor):
            os.close(descriptor)
            return self.take()  # its last holder has taken it away meanwhile: a lock on it keeps nobody out
        self._descriptor = descriptor
        with contextlib.suppress(OSError):  # a full disk: the lock is ours all the same
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        return ""

    def _is_still_there(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except OSError:
            return False

    def release(self) -> None:
        """The file goes with the lock, as the original's does."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                if self._is_still_there(self._descriptor):
                    self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = -1
