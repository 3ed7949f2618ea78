"""Configuration files on the host: read as they are, replaced whole, with mode, owner and link kept. Thin.

A file that is a link is changed where it leads, inside the host's own tree.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gpuready.gpu.tree import Tree
from gpuready.node.files import read_regular, sync_folder
from gpuready.operands.toolkit.containerd.merge import imported
from gpuready.operands.toolkit.toml_file import ConfigFileError, parse

MOST_BYTES = 512 * 1024
_SUFFIX = ".gpuready-new"  # not *.toml, *.conf or *.json: no runtime that goes by names reads it half-written
_EVERY_FILE = "crio.conf.d"  # CRI-O reads whatever lies below it, and does not start when it cannot
_LABEL = "security.selinux"


class HostFileError(ConfigFileError):
    """A file of the host that cannot be read or written, or that changed while we looked."""


def read(host: Tree, path: str) -> str | None:
    """The text of a file; None when there is none. raises HostFileError"""
    try:
        content = read_regular(host.resolve(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        step = f"put an ordinary file there, or remove {path}"
        raise HostFileError(f"{path} cannot be read", why=exc.strerror or str(exc), next_step=step) from exc
    except ValueError as exc:
        raise HostFileError(f"{path!r} cannot be read", why=str(exc), next_step="correct that name") from exc
    if len(content) > MOST_BYTES:
        raise HostFileError(
            f"{path} has more than {MOST_BYTES // 1024} KiB",
            why="a runtime's configuration has some 20: to change one of this size would take minutes",
            next_step=f"see what has made {path} so large; it was left as it is",
        )
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        column = exc.start - content.rfind(b"\n", 0, exc.start)
        raise HostFileError(
            f"{path} is not UTF-8 text (at line {line}, column {column})",
            next_step=f"correct {path}; it was left as it is",
        ) from exc


def with_imports(host: Tree, root: str, *more: str) -> dict[str, str]:
    """Path -> text of a TOML root, of every file that it and its imports could bring in, and of `more`.

    An import without a star that is not there is not in it; one that cannot be parsed is, as it stands.
    """
    found: dict[str, str] = {}
    pending = [root, *more]
    while pending:
        path = pending.pop(0)
        text = None if path in found else read(host, path)
        if text is None:
            continue
        found[path] = text
        try:
            listed = parse(text, path).get("imports")
        except ConfigFileError:
            continue
        for pattern in imported(root, path, listed):
            pending += _matching(host, pattern) if "*" in pattern else [pattern]
    return found


def below(host: Tree, folder: str) -> list[str]:
    """Every file of a folder and of the folders in it, which links are not."""
    found: list[str] = []
    for name in host.names_in(folder):
        path = f"{folder}/{name}"
        place = host.resolve(folder) / name
        found += below(host, path) if place.is_dir() and not place.is_symlink() else [path]
    return found


def replace(host: Tree, path: str, expected: str | None, text: str | None) -> None:
    """Put `text` in place of `expected` in one step; None = no file.

    raises  HostFileError, also when the file is not `expected` any more: somebody else writes it
    """
    if read(host, path) != expected:
        raise HostFileError(
            f"{path} changed while it was being looked at",
            why="another program writes it",
            next_step="it is looked at again at once",
        )
    target = host.resolve(path)
    try:
        if text is None:
            target.unlink(missing_ok=True)
            sync_folder(target.parent)
        else:
            _write(target, text.encode())
    except OSError as exc:
        raise HostFileError(
            f"{path} cannot be written",
            why=exc.strerror or str(exc),
            next_step=f"check the file system of {os.path.dirname(path)}: is it full, or read-only?",
        ) from exc


def clean_up(host: Tree, path: str) -> None:
    """Remove what a write that was cut off left beside the file."""
    target = host.resolve_if_possible(path)
    for place in {_beside(target), _elsewhere(target)}:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)


def _matching(host: Tree, pattern: str) -> Iterator[str]:
    from gpuready.operands.toolkit.containerd.merge import covers

    folder = os.path.dirname(pattern)
    for name in host.names_in(folder):
        path = os.path.join(folder, name)
        if covers(pattern, path):
            yield path


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}{_SUFFIX}")


def _elsewhere(target: Path) -> Path:
    """Where nobody reads it before it is whole: beside the folder, if all in there is read."""
    folders = [folder for folder in target.parents if folder.name == _EVERY_FILE]
    return folders[-1].with_name(_beside(target).name) if folders else _beside(target)


def _write(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        _write_by_way_of(_elsewhere(target), target, content)
    except OSError as exc:
        if exc.errno != errno.EXDEV:  # the folder may be a mount of its own
            raise
        _write_by_way_of(_beside(target), target, content)


def _write_by_way_of(temporary: Path, target: Path, content: bytes) -> None:
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            _like(target, descriptor)
            os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def _like(target: Path, descriptor: int) -> None:
    """Mode, owner and security label of the file that is there; a new one may be read by everybody."""
    try:
        before = os.stat(target)
    except FileNotFoundError:
        os.fchmod(descriptor, 0o644)
        return
    if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
    with contextlib.suppress(OSError):
        os.setxattr(descriptor, _LABEL, os.getxattr(target, _LABEL))
