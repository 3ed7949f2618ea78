"""Writes that failed and may pass by themselves: each object is tried again later and later, by itself.

A pass over the policy comes with every event. Without this an object whose webhook is away would be sent
again with each, and one that failed for the first time would wait as long as one that fails all day.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gpuready.errors import GPUReadyError
from gpuready.kube.compare import digest
from gpuready.kube.errors import ApiStatusError

FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 30.0


@dataclass(frozen=True)
class _Setback:
    """times: in a row, of this very text."""

    digest: str
    until: float
    error: GPUReadyError
    times: int


class Setbacks:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, _Setback] = {}

    def find(self, key: str, desired: Mapping[str, Any]) -> GPUReadyError | None:
        """Why this very text could not be written, while it is too early to try again."""
        known = self._known.get(key)
        if known is None or known.digest != digest(desired) or self._clock() >= known.until:
            return None
        return known.error

    def add(self, key: str, desired: Mapping[str, Any], error: GPUReadyError) -> None:
        text = digest(desired)
        before = self._known.get(key)
        times = before.times + 1 if before and before.digest == text else 1
        asked = (error.retry_after or 0.0) if isinstance(error, ApiStatusError) else 0.0
        wait_s = max(asked, min(FIRST_RETRY_S * 2.0 ** min(times - 1, 16), LONGEST_RETRY_S))
        self._known[key] = _Setback(text, self._clock() + wait_s, error, times)

    def times(self, key: str) -> int:
        """How often in a row; 0 for what has not failed."""
        known = self._known.get(key)
        return known.times if known else 0

    def next_retry_s(self) -> float | None:
        """Seconds until one of them may be tried again; None when none waits."""
        left = [each.until - self._clock() for each in self._known.values()]
        return max(0.0, min(left)) if left else None

    def keep(self, keys: Collection[str]) -> None:
        """Forget what has been written, or is not wanted any more."""
        self._known = {key: known for key, known in self._known.items() if key in keys}
