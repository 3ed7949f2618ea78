"""What a reading of DCGM means: a sample, or why there is none. Pure.

DCGM marks a value that it has not by values that no measurement takes, its blanks.

Source: DCGM v4.6.0, dcgmlib/dcgm_structs.h (blanks), DcgmCacheManager.cpp (what is stored when).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field

from gpuready.gpu.dcgm import NO_DATA, Reading, Value, name_of
from gpuready.gpu.telemetry.model import Absent, Entity, Field, Sample
from gpuready.gpu.telemetry.table import XID_ERRORS
from gpuready.gpu.xid import meaning_of

_INT32, _INT64, _FLOAT = 0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 2.0**47
_NOT_SUPPORTED = 2  # of the blanks
_BLANKS = ("it is blank", "it was not found", "the GPU does not support it", "permission is lacking")
_TEXT_BLANKS = ("<<<NULL>>>", "<<<NOT_FOUND>>>", "<<<NOT_SUPPORTED>>>", "<<<NOT_PERM>>>")
_NEVER = frozenset({-1, -6, -13, -17, -22, -32, -33, -36, -37})
# Answers that will be the same next time.
_CACHE_SHARES = range(1080, 1084)
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no value. supported: there may be one the next time"""

    reason: str
    supported: bool


def refusal_of(code: int) -> Refusal:
    """What a status other than 0 means."""
    return Refusal(f"DCGM answers {name_of(code)}", code not in _NEVER)


def find_blank(value: Value) -> int | None:
    """0 for one without a reason, 1 not found, 2 not supported, 3 not permitted; None for a real value."""
    if isinstance(value, str):
        is_blank = value.startswith("<<<") and ">>>" in value
        return _TEXT_BLANKS.index(value) if value in _TEXT_BLANKS else 0 if is_blank else None
    if isinstance(value, float):
        number = value - _FLOAT
        return (int(number) if number in (1, 2, 3) else 0) if 0 <= number < 16 else None
    if value >= _INT64:
        return value - _INT64 if value - _INT64 < len(_BLANKS) else 0
    # A 32-bit blank that was widened: only these four, since other numbers near them can be real.
    return value - _INT32 if 0 <= value - _INT32 < len(_BLANKS) else None


def told(of: Field, entity: Entity, reading: Reading, at: float) -> Sample | Absent:
    """`at`: monotonic, when it was taken."""
    value = _value(of, reading)
    if isinstance(value, Refusal):
        return Absent(of, entity, value.reason, value.supported)
    return Sample(of, entity, value, at, _labels(of, value))


@dataclass
class Ages:
    """Since when each value stands as it stands, by our clock: the engine's may be another machine's.

    A value that is read anew gets another time of the engine's; one whose time stays is an old one.
    """

    _seen: dict[Hashable, tuple[int, float]] = field(default_factory=dict)

    def since(self, key: Hashable, at_us: int, now: float) -> float:
        """When this time of the engine's was first seen under this key."""
        before = self._seen.get(key)
        if before is None or before[0] != at_us:
            self._seen[key] = before = (at_us, now)
        return before[1]

    def forget(self) -> None:
        self._seen.clear()


def is_event(of: Field) -> bool:
    """Whether its time is that of something that happened, so that an old one is as good as a new one."""
    return of.id == XID_ERRORS


def _value(of: Field, reading: Reading) -> Value | Refusal:
    if of.id == XID_ERRORS and reading.status == NO_DATA:
        return 0  # nothing was raised since it is watched
    if reading.status != 0:
        return refusal_of(reading.status)
    value = reading.value
    if value is None:
        return Refusal("DCGM gives bytes, no number", False)
    if (blank := find_blank(value)) is not None:
        return Refusal(f"DCGM has no value: {_BLANKS[blank]}", blank < _NOT_SUPPORTED)
    if isinstance(value, float) and not math.isfinite(value):
        return Refusal("DCGM gives no number", True)
    if of.id in _CACHE_SHARES and not isinstance(value, str):
        # DCGM to 4.5 multiplies these percents as if they were MiB.
        return (value / _MIB if value > 100 else value) / 100
    return value


def _labels(of: Field, value: Value) -> tuple[tuple[str, str], ...]:
    """As the original's: what the XID means."""
    if of.id != XID_ERRORS or not isinstance(value, int):
        return ()
    return (("err_code", str(value)), ("err_msg", meaning_of(value) if value else "No Error"))
