"""Files that other programs watch: written whole or not at all, and only when they differ.

And read as what anybody may have put there: a directory, a pipe, something without end, half a record.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpuready.shape import Shape, check

MOST_BYTES = 4 * 2**20  # the largest of them, a sharing configuration, has at most the 1 MiB of a ConfigMap
_NEW_FILE_MODE = 0o644


def read_regular(path: Path) -> bytes:
    """The content of an ordinary file.

    raises  OSError, also for what blocks its reader or never ends (a FIFO, a device), and for more than
            `MOST_BYTES`
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def find_object(path: Path, shape: Shape) -> dict[str, Any] | None:
    """The JSON object in a file; None when there is none, or one in which a field is not of its shape."""
    try:
        row = json.loads(read_regular(path))
        check(row, shape)
    except (OSError, ValueError, RecursionError):  # ShapeError is a ValueError
        return None
    return row if isinstance(row, dict) else None


def write_atomic(path: Path, content: bytes, mode: int | None = None, *, durable: bool = False) -> None:
    """Replace `path` in one step; its directory is made if it is missing.

    mode    of the new file; None keeps the mode of the file at `path`, 0644 for a new one
    durable  it is on the disk, and not only in the kernel's memory, before this returns
    raises  OSError; the old file is then untouched and nothing is left beside it
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        _write_by_way_of(temporary, path, content, _mode_of(path) if mode is None else mode, durable=durable)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)
    _sweep(path.parent, re.compile(rf"\.{re.escape(path.name)}{_OF_A_WRITER}"))


def sweep(folder: Path) -> None:
    """Remove what writers left who were killed in `write_atomic`; for folders that are ours alone."""
    _sweep(folder, re.compile(rf"\..+{_OF_A_WRITER}"))


def sync_folder(folder: Path) -> None:
    """The names in it are on the disk then: a file that was renamed is there after a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_if_changed(path: Path, content: bytes, mode: int | None = None) -> bool:
    """`write_atomic` unless the file already holds `content`; tells whether it wrote."""
    try:
        if read_regular(path) == content:
            return False
    except OSError:
        pass
    write_atomic(path, content, mode)
    return True


def _write_by_way_of(temporary: Path, path: Path, content: bytes, mode: int, *, durable: bool) -> None:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        with suppress(OSError):  # a file system without locks: then nobody sweeps there either
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.fchmod(descriptor, mode)  # before the rename: no moment with another mode
        file.write(content)
        file.flush()
        if durable:
            os.fsync(descriptor)
        os.replace(temporary, path)


_OF_A_WRITER = r"\.\d+\.tmp"


def _sweep(folder: Path, name: re.Pattern[str]) -> None:
    """Files of this name whose writer is dead: the kernel has taken his lock.

    His pid tells nothing: each container has a process 1.
    """
    try:
        found = [folder / each for each in os.listdir(folder) if name.fullmatch(each)]
    except OSError:
        return
    for path in found:
        with suppress(OSError):  # its writer lives, or it is gone
            _remove_unlocked(path)


def _remove_unlocked(path: Path) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _mode_of(path: Path) -> int:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return _NEW_FILE_MODE
    return mode & 0o7777 if stat.S_ISREG(mode) else _NEW_FILE_MODE
