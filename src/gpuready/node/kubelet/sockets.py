"""Unix sockets in directories whose path is longer than a socket's address may be (107 bytes).

A socket is reached through `/proc/self/fd/<directory>/<name>`: the file lies where it should, the address
stays short.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Self

import h2.connection

h2.connection.H2Connection.MAX_CLOSED_STREAMS = 256
# h2 remembers up to 65,536 closed streams of each connection: 11 MB on one that lives long.


class Directory:
    """An open directory; `close()` it, or use it as a context."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_DIRECTORY | os.O_RDONLY | os.O_CLOEXEC)

    def short(self, name: str) -> str:
        return f"/proc/self/fd/{self._descriptor}/{name}"

    def listen(self, name: str) -> socket.socket:
        """A bound socket with mode 0700 in place of whatever file had the name."""
        path = self.short(name)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o077)
        try:
            if os.path.lexists(path):
                os.unlink(path)
            listener.bind(path)
        except OSError:
            listener.close()
            raise
        finally:
            os.umask(before)
        return listener

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def identity_of(path: Path) -> tuple[int, int, int] | None:
    """Which file lies at `path` now: it differs after the file was made anew. None when there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns
