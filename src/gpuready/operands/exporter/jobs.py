"""HPC jobs on GPUs, from files that the scheduler's prolog writes: `0` or `0.3`, one job id a line.

Source: dcgm-exporter, internal/pkg/transformation/hpc.go (names match `^\\d+(\\.\\d+)?$`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gpuready.node.files import read_regular

_NAME = re.compile(r"(\d+)(?:\.(\d+))?")


def read_jobs(folder: Path) -> Mapping[tuple[int, int | None], tuple[str, ...]]:
    """(index of the GPU, id of the instance or None) -> job ids; {} when the folder cannot be read."""
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return {}
    found = {}
    for name in names:
        match = _NAME.fullmatch(name)
        if match and (jobs := _lines(folder / name)):
            found[int(match[1]), int(match[2]) if match[2] else None] = jobs
    return found


def _lines(path: Path) -> tuple[str, ...]:
    try:
        text = read_regular(path).decode(errors="replace")
    except OSError:
        return ()
    return tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
