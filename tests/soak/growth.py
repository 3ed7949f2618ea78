"""What a process holds, and whether that grows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    """rss_kib of memory, open files, threads."""

    pid: int
    rss_kib: int
    files: int
    threads: int


def usage_of(pid: int) -> Usage:
    folder = Path(f"/proc/{pid}")
    rows = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    files = len(list((folder / "fd").iterdir()))
    return Usage(pid, int(rows["VmRSS"].split()[0]), files, int(rows["Threads"]))


def slope(values: Sequence[float]) -> float:
    """How much the line through all values rises from the first to the last.

    Theil and Sen's: the median over all pairs, so that a few that stand out do not count.
    """
    if len(values) < 2:
        return 0.0
    steps = [(values[j] - values[i]) / (j - i) for i in range(len(values)) for j in range(i + 1, len(values))]
    return statistics.median(steps) * (len(values) - 1)
