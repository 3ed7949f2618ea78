"""One shape for every benchmark, and the run of many, one after another.

A benchmark that cannot measure is named with its reason; the others still run.
"""

from __future__ import annotations

import os
import platform
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from benchmarks.figures import Figure

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """How thoroughly to measure.

    quick  the fewest repetitions that still go through every step
    full   as long and as large as DESIGN §10 says
    nodes  sizes of the cluster where a benchmark has several; empty for its own choice
    say    a line of progress
    """

    quick: bool = False
    full: bool = False
    nodes: tuple[int, ...] = ()
    say: Callable[[str], None] = lambda text: None

    def pick(self, quick: T, usual: T, full: T | None = None) -> T:
        if self.quick:
            return quick
        return full if self.full and full is not None else usual


@dataclass(frozen=True)
class Benchmark:
    name: str
    what: str
    measure: Callable[[Run], Awaitable[list[Figure]]]


@dataclass
class Results:
    figures: list[tuple[str, Figure]] = field(default_factory=list)  # (benchmark, figure)
    failures: dict[str, str] = field(default_factory=dict)  # benchmark -> why it could not measure

    def to_json(self) -> dict[str, Any]:
        return {
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "machine": machine(),
            "figures": [{"benchmark": name, **figure.to_json()} for name, figure in self.figures],
            "failures": self.failures,
        }


async def measure_all(benchmarks: Sequence[Benchmark], run: Run) -> Results:
    results = Results()
    for benchmark in benchmarks:
        run.say(f"{benchmark.name}: {benchmark.what} (load {os.getloadavg()[0]:.1f})")
        started = time.monotonic()
        try:
            figures = await benchmark.measure(run)
        except Exception as exc:  # whatever it is, the other benchmarks still measure
            results.failures[benchmark.name] = f"{type(exc).__name__}: {exc}".strip()
            run.say(traceback.format_exc())
            continue
        results.figures += [(benchmark.name, figure) for figure in figures]
        run.say(f"{benchmark.name}: done in {time.monotonic() - started:.0f} s")
    return results


def machine() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load": round(os.getloadavg()[0], 1),
    }
