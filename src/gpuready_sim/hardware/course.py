"""How busy a GPU is over time, as a few points with straight lines between them.

    Course.constant(80)              80 %, always
    Course.ramp(0, 100, 60)          from 0 to 100 % in 60 s, then from 0 again
    Course.sine(20, 90, 30)          between 20 and 90 %, once in 30 s
    Course.steps([(0, 10), (30, 95)])   10 %, and 95 % from second 30 on
    Course.parse(["sine", "20", "90", "30"])   the same from words

`nvml/course.c` reads them; `area` here is the same arithmetic for the writer, who has to settle what added up
before it changes a load. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from gpuready_sim.errors import HardwareStateError
from gpuready_sim.hardware.layout import constants

_SINE_POINTS = 24
FORMS = (
    "idle | constant P | ramp LOW HIGH SECONDS | sine LOW HIGH SECONDS | steps S:P,S:P,... [every SECONDS]"
)


@dataclass(frozen=True)
class Course:
    """`points`: (ms after the start, percent 0-100), in order; `period_ms` 0: the last value stays."""

    points: tuple[tuple[int, int], ...] = ()
    period_ms: int = 0

    def __post_init__(self) -> None:
        limit = constants()["NVSIM_MAX_LOAD_POINTS"]
        times = [at for at, _ in self.points]
        if len(times) > limit:
            raise HardwareStateError(
                f"a load of {len(times)} points", why=f"it can have {limit}", next_step="give fewer"
            )
        if times != sorted(times) or any(at < 0 for at in times):
            raise HardwareStateError("a load whose points are not in order of time", next_step="sort them")
        if any(not 0 <= percent <= 100 for _, percent in self.points):
            raise HardwareStateError("a load outside 0-100 %", next_step="give percentages")
        if self.period_ms and times and times[-1] > self.period_ms:
            raise HardwareStateError(
                f"a load repeats after {self.period_ms} ms and has a point at {times[-1]} ms",
                next_step="let it repeat later",
            )

    @classmethod
    def constant(cls, percent: int) -> Self:
        return cls(((0, percent),)) if percent else cls()

    @classmethod
    def ramp(cls, low: int, high: int, period_s: float) -> Self:
        period_ms = _period_ms(period_s)
        return cls(((0, low), (period_ms, high)), period_ms)

    @classmethod
    def sine(cls, low: int, high: int, period_s: float) -> Self:
        """Starts at the middle and rises."""
        period_ms = _period_ms(period_s)
        points = []
        for step in range(_SINE_POINTS + 1):
            height = (1 + math.sin(2 * math.pi * step / _SINE_POINTS)) / 2
            points.append((period_ms * step // _SINE_POINTS, round(low + (high - low) * height)))
        return cls(tuple(points), period_ms)

    @classmethod
    def steps(cls, steps: Sequence[tuple[float, int]], period_s: float = 0) -> Self:
        """Each value holds until the next one's second."""
        points: list[tuple[int, int]] = []
        for at_s, percent in steps:
            at_ms = round(at_s * 1000)
            if points:
                points.append((at_ms, points[-1][1]))
            points.append((at_ms, percent))
        return cls(tuple(points), _period_ms(period_s) if period_s else 0)

    @classmethod
    def parse(cls, words: Sequence[str]) -> Self:
        """One of FORMS; raises HardwareStateError that names them."""
        try:
            match list(words):
                case ["idle"]:
                    return cls()
                case ["constant", percent] | [percent]:
                    return cls.constant(int(percent))
                case ["ramp", low, high, period]:
                    return cls.ramp(int(low), int(high), float(period))
                case ["sine", low, high, period]:
                    return cls.sine(int(low), int(high), float(period))
                case ["steps", steps]:
                    return cls.steps(_parse_steps(steps))
                case ["steps", steps, "every", period]:
                    return cls.steps(_parse_steps(steps), float(period))
        except ValueError:
            pass
        raise HardwareStateError(
            f"{' '.join(words)!r} is no load", next_step=f"give one of: {FORMS} (P in percent, S in seconds)"
        )

    def area(self, until_us: int) -> float:
        """Percent times microseconds from the start until then."""
        if not self.points or until_us <= 0:
            return 0.0
        period_us = self.period_ms * 1000
        if not period_us:
            return self._area_in_pass(until_us)
        whole, rest = divmod(until_us, period_us)
        return whole * self._area_in_pass(period_us) + self._area_in_pass(rest)

    def _area_in_pass(self, until_us: float) -> float:
        total, begin, value = 0.0, 0.0, float(self.points[0][1])
        for at_ms, percent in self.points:
            end = at_ms * 1000.0
            if end >= until_us:
                slope = (percent - value) / (end - begin) if end > begin else 0.0
                return total + (value + slope * (until_us - begin) / 2) * (until_us - begin)
            total += (value + percent) / 2 * (end - begin)
            begin, value = end, float(percent)
        return total + value * (until_us - begin)


def _period_ms(seconds: float) -> int:
    if not seconds >= 0.001:
        raise HardwareStateError(f"a load that repeats every {seconds:g} s", next_step="give a longer time")
    return round(seconds * 1000)


def _parse_steps(text: str) -> list[tuple[float, int]]:
    pairs = [step.split(":") for step in text.split(",")]
    return [(float(at), int(percent)) for at, percent in pairs]
