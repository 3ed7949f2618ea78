"""DaemonSets that we have just written, as the server answered, until the cache has moved on.

A status made from the cache alone would say that all pods run of a DaemonSet that was changed a moment ago.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuready.kube.apply import ECHO_S
from gpuready.kube.wire import is_older, version_of

Object = Mapping[str, Any]


@dataclass(frozen=True)
class _Answer:
    """over: the version in the cache when we wrote, "" = none."""

    over: str
    after: Object
    at: float

    def is_ahead_of(self, cached: str, now: float) -> bool:
        """Somebody else may have written between the two: what he made is shown first, and as old."""
        if cached == self.over:
            return True
        return now - self.at < ECHO_S and is_older(cached, version_of(self.after))


class Ahead:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: dict[str, _Answer] = {}

    def wrote(self, name: str, over: Object | None, after: Object) -> None:
        self._answers[name] = _Answer(version_of(over) if over else "", after, self._clock())

    def forget(self, name: str) -> None:
        self._answers.pop(name, None)

    def laid_over(self, cached: Mapping[str, Object]) -> dict[str, Object]:
        """By name: what the cache shows, or what we know better."""
        found = dict(cached)
        for name, answer in list(self._answers.items()):
            if answer.is_ahead_of(version_of(cached[name]) if name in cached else "", self._clock()):
                found[name] = answer.after
            else:
                del self._answers[name]
        return found
