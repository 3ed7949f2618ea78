"""A figure: what was measured, what is owed, and whether that is kept."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

OK, MISSED, NO_PROMISE, NOT_MEASURED = "ok", "missed", "-", "not measured"
# Below this many values a 99th percentile is just the largest one, and says less than the median.
ENOUGH_FOR_P99 = 100


@dataclass(frozen=True)
class Figure:
    """
    name      what was measured, as a reader would say it
    values    one per repetition, in `unit`; none where it could not be measured here, or never came
    owed      the most that the median may be; None where nothing is promised
    owed_p99  the same for the 99th percentile
    note      what a reader must know to judge it
    """

    name: str
    values: Sequence[float]
    unit: str
    owed: float | None = None
    owed_p99: float | None = None
    note: str = ""

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.values else None

    @property
    def p99(self) -> float | None:
        if len(self.values) < ENOUGH_FOR_P99:
            return None
        return sorted(self.values)[math.ceil(0.99 * len(self.values)) - 1]

    @property
    def verdict(self) -> str:
        if self.median is None:
            return NOT_MEASURED
        if self.owed is None:
            return NO_PROMISE
        kept = self.median <= self.owed
        if self.owed_p99 is not None and self.p99 is not None:
            kept = kept and self.p99 <= self.owed_p99
        return OK if kept else MISSED

    def to_json(self) -> dict[str, Any]:
        return {
            "figure": self.name,
            "unit": self.unit,
            "n": len(self.values),
            "median": None if self.median is None else round(self.median, 4),
            "p99": None if self.p99 is None else round(self.p99, 4),
            "owed": self.owed,
            "owedP99": self.owed_p99,
            "verdict": self.verdict,
            "note": self.note,
        }
