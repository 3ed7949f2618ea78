"""How often one thing may be put right that somebody else changes again and again.

A person's edit is repaired at once, and so are a few more. Two programs that undo each other's writes would
otherwise go on as fast as the API server answers, dozens of times a second, for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable

AT_ONCE = 20  # writes before the pace counts: more than any roll-out needs of one object
THEN_EVERY_S = 2.0
_FEW = 64  # keys that are not worth forgetting


class Pace:
    """Per key: `AT_ONCE` writes as they come, then one every `THEN_EVERY_S`; quiet time gives them back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # When the key has all its writes back; those in the past say nothing and are forgotten in time.
        self._whole_at: dict[str, float] = {}
        self._forget_at = _FEW

    def wait_s(self, key: str) -> float:
        """Seconds until this key may be written; 0 = now."""
        owed_s = self._whole_at.get(key, 0.0) - self._clock()
        return max(0.0, owed_s - (AT_ONCE - 1) * THEN_EVERY_S)

    def wrote(self, key: str) -> None:
        now = self._clock()
        if len(self._whole_at) >= self._forget_at:  # not at each of thousands of writes
            self._whole_at = {each: at for each, at in self._whole_at.items() if at > now}
            self._forget_at = max(_FEW, 2 * len(self._whole_at))
        self._whole_at[key] = max(now, self._whole_at.get(key, 0.0)) + THEN_EVERY_S
