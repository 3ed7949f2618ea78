"""Files that other programs watch: written whole or not at all, and only when they differ."""

from __future__ import annotations

import os
from pathlib import Path

_NEW_FILE_MODE = 0o644


def write_atomic(path: Path, content: bytes, mode: int | None = None) -> None:
    """Replace `path` in one step; its directory is made if it is missing.

    mode    of the new file; None keeps the mode that `path` has, 0644 for a new file
    raises  OSError; the old file is then untouched and nothing is left beside it
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        _write(temporary, content, _mode_of(path) if mode is None else mode)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_if_changed(path: Path, content: bytes, mode: int | None = None) -> bool:
    """`write_atomic` unless the file already holds `content`; tells whether it wrote."""
    try:
        if path.read_bytes() == content:
            return False
    except OSError:
        pass
    write_atomic(path, content, mode)
    return True


def _write(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)  # before the rename: no moment with another mode
        file.write(content)


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o7777
    except OSError:
        return _NEW_FILE_MODE
