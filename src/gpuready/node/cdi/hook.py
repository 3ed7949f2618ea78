"""Put the hook program where specs name it, and take it away again.

The place is NVIDIA's own: a program that another toolkit put there serves our specs as well, and stays.
"""

from __future__ import annotations

from pathlib import Path

import gpuready
from gpuready.node.files import read_regular, write_atomic

PROGRAM = Path(gpuready.__file__).parent / "_native/nvidia-cdi-hook"
_OURS = b".gpuready"  # it names its temporary files so
_MODE = 0o755


def install_hook(target: Path, program: Path = PROGRAM) -> str:
    """Why the hook is not there now; "" when it is. Writes only what differs, in one step.

    target  where we see the place on the host, e.g. /usr/local/nvidia/toolkit/nvidia-cdi-hook
    """
    try:
        wanted = read_regular(program)
    except OSError as exc:
        return f"this image lacks {program}: {exc.strerror}"
    found = _content(target)
    if found == wanted or (found and not is_ours(found)):
        return ""
    try:
        write_atomic(target, wanted, _MODE)
    except OSError as exc:
        return f"cannot write {target.name}: {exc.strerror}"
    return ""


def remove_hook(target: Path) -> bool:
    """Whether ours was there and is gone."""
    found = _content(target)
    if found is None or not is_ours(found):
        return False
    try:
        target.unlink()
    except OSError:
        return False
    return True


def is_ours(program: bytes) -> bool:
    return _OURS in program


def _content(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except OSError:
        return None
