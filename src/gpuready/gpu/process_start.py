"""When a process began: with its number, this names it once for each boot.

A number alone names another process after a while, and a container that is started anew begins at 1 again.
"""

from __future__ import annotations

from pathlib import Path


def start_of(pid: int) -> int:
    """In clock ticks since the boot; 0 where there is no such process.

    Source: proc_pid_stat(5), field 22.
    """
    fields = _fields(pid)
    return int(fields[19]) if fields else 0


def runs(pid: int, started: int) -> bool:
    """Whether this very process is there and has not ended."""
    fields = _fields(pid)
    return bool(fields) and int(fields[19]) == started and fields[0] not in ("Z", "X")


def _fields(pid: int) -> list[str]:
    """From the third on, the state: the second, its program's name in brackets, may hold anything."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (OSError, ValueError):  # ValueError: a number that is none of a process
        return []
    return stat.rpartition(")")[2].split()
