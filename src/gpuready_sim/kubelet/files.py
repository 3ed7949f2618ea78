"""Files that readers see whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write beside `path`, then rename over it."""
    scratch = path.with_name(f".{path.name}.tmp{os.getpid()}")
    scratch.write_bytes(data)
    scratch.chmod(mode)
    scratch.rename(path)
