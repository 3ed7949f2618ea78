"""Directories of small files that change as one: ConfigMap, Secret, projected and downward API volumes.

<volume>/..2027_01_31_12_00_00.123456/config.yaml
<volume>/..data        -> that directory, switched by rename
<volume>/config.yaml   -> ..data/config.yaml
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

DATA = "..data"


@dataclass(frozen=True)
class File:
    data: bytes
    mode: int = 0o644


def project(volume: Path, files: Mapping[str, File]) -> bool:
    """Make the volume hold exactly these files (relative path -> file); returns whether that was a change."""
    volume.mkdir(parents=True, exist_ok=True)
    current = volume / DATA
    if current.exists() and _read(current) == dict(files):
        return False
    fresh = volume / f"..{datetime.now(UTC):%Y_%m_%d_%H_%M_%S.%f}"
    for name, file in files.items():
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise OSError(f"{name!r} leaves the volume")
        path = fresh / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(file.mode)
    fresh.mkdir(exist_ok=True)
    old = volume / os.readlink(current) if current.is_symlink() else None
    scratch = volume / "..data_tmp"
    scratch.symlink_to(fresh.name)
    scratch.rename(current)
    _link_entries(volume, {Path(name).parts[0] for name in files})
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    return True


def _read(directory: Path) -> dict[str, File]:
    paths = [path for path in directory.rglob("*") if path.is_file()]
    return {
        path.relative_to(directory).as_posix(): File(path.read_bytes(), path.stat().st_mode & 0o777)
        for path in paths
    }


def _link_entries(volume: Path, names: set[str]) -> None:
    for path in volume.iterdir():
        if not path.name.startswith("..") and path.name not in names:
            path.unlink()
    for name in names:
        if not (volume / name).is_symlink():
            (volume / name).symlink_to(f"{DATA}/{name}")
