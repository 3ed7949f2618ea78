"""A mount namespace for the thread of a test: what it mounts, nobody else sees."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_CLONE_FS, _CLONE_NEWNS = 0x200, 0x20000
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def private_mounts() -> Iterator[None]:
    """Skips the test where this process may not have one."""
    before, folder = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC), os.getcwd()
    if _libc.unshare(_CLONE_NEWNS) != 0:
        os.close(before)
        pytest.skip(f"no private mount namespace here: {os.strerror(ctypes.get_errno())}")
    try:
        _run("mount", "--make-rprivate", "/")
        yield
    finally:
        _libc.unshare(_CLONE_FS)  # a thread that is still there may not share what is changed now
        if _libc.setns(before, _CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "cannot go back to the mounts of before")
        os.close(before)
        os.chdir(folder)


class ReadOnly:
    """A directory that is a read-only mount of itself."""

    reason = "Read-only file system"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        _run("mount", "--bind", str(folder), str(folder))
        _run("mount", "-o", "remount,bind,ro", str(folder))

    def mend(self) -> None:
        _run("mount", "-o", "remount,bind,rw", str(self._folder))


class Full:
    """A directory on a file system of a few KB, all of them taken."""

    reason = "No space left on device"

    def __init__(self, folder: Path) -> None:
        self._filler = folder / "filler"
        kept = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        folders = [path.relative_to(folder) for path in folder.rglob("*") if path.is_dir()]
        _run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder))
        for path in folders:
            (folder / path).mkdir(parents=True, exist_ok=True)
        for path, content in kept.items():
            (folder / path).write_bytes(content)
        self._fill()

    def _fill(self) -> None:
        with open(self._filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    def mend(self) -> None:
        self._filler.unlink()


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)
