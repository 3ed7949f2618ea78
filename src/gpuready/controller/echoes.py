"""Which of our own writes the caches have not shown yet.

A pass that decides on an object as it was before our last write would write it again: a GPUNode is created
twice, a patch meets its own conflict. So a key rests until its object is no longer the one we wrote over.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# A watch shows a write within milliseconds; from a server that is overrun it takes many seconds, and deciding
# earlier only meets our own conflict. After this long it was lost in a gap: decide on what is there.
PATIENCE_S = 30.0


class Echoes:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written_over: dict[str, tuple[str, float]] = {}

    def wrote(self, key: str, over: str) -> None:
        """`over` is the resourceVersion in the cache when we decided, "" for an object that was not there."""
        self._written_over[key] = (over, self._clock())

    def wait_s(self, key: str, version: str) -> float:
        """Seconds to wait at most for the echo of our write; 0 when `version` is worth a decision."""
        over, at = self._written_over.get(key, (None, 0.0))
        left = at + PATIENCE_S - self._clock()
        if over == version and left > 0:
            return left
        self._written_over.pop(key, None)
        return 0.0
