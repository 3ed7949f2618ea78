"""Memory and CPU time of other processes, from /proc."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Memory:
    """rss counts shared pages whole, pss by share: the sum of pss is what the machine really pays."""

    rss_mb: float
    pss_mb: float


def memory(pid: int) -> Memory:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
    return Memory(kib["Rss"] / 1024, kib["Pss"] / 1024)


def peak_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) / 1024


def cpu_s(pid: int) -> float:
    """From the scheduler's own count: clock ticks are too coarse for an idle process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def find(*words: str) -> list[int]:
    """Pids whose command line has all these words, each a whole argument; launchers excepted."""
    wanted = {word.encode() for word in words}
    return sorted(int(entry.name) for entry in Path("/proc").glob("[0-9]*") if wanted <= _arguments(entry))


def child_of(pid: int) -> int:
    """What a launcher runs."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _arguments(entry: Path) -> set[bytes]:
    try:
        argv = (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return set()
    return set() if argv[0].endswith(b"/launch") else set(argv)
