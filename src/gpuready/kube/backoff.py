"""How long to wait before a watch is tried again, by what went wrong."""

from __future__ import annotations

import random
from collections.abc import Callable

from gpuready.kube.errors import ApiStatusError, Forbidden, NotFound, ServiceUnavailable, Unreachable

FIRST_S = 0.8
LONGEST_S = 30.0
LONGEST_ASKED_S = 300.0  # what a server may ask of us by Retry-After
# The server is away and may be back any moment; asking costs nothing while nobody listens.
FIRST_UNREACHABLE_S = 0.1
LONGEST_UNREACHABLE_S = 2.0
# A CRD that is not there yet, a server that is starting, a rule that somebody is about to grant.
LONGEST_NOT_YET_S = 5.0
HEALTHY_AFTER_S = 120.0
HEALTHY_AFTER_UNREACHABLE_S = 1.0


class Backoff:
    """Doubles with each failure, with jitter; two minutes of health make it forget."""

    def __init__(self, jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.2)) -> None:
        self._jitter = jitter
        self._failures = 0

    def failed(self, exc: Exception, *, healthy_s: float = 0.0) -> float:
        """Seconds to wait; `healthy_s` is how long the stream had worked before it failed."""
        reachable = not isinstance(exc, Unreachable)
        if healthy_s >= (HEALTHY_AFTER_S if reachable else HEALTHY_AFTER_UNREACHABLE_S):
            self._failures = 0
        asked = exc.retry_after if isinstance(exc, ApiStatusError) else None
        if asked is not None:
            return min(asked, LONGEST_ASKED_S)
        first, longest = (
            (FIRST_S, _longest_of(exc)) if reachable else (FIRST_UNREACHABLE_S, LONGEST_UNREACHABLE_S)
        )
        wait = min(first * 2.0 ** min(self._failures, 16), longest)
        self._failures += 1
        return min(wait * self._jitter(), longest)


def _longest_of(exc: Exception) -> float:
    return LONGEST_NOT_YET_S if isinstance(exc, Forbidden | NotFound | ServiceUnavailable) else LONGEST_S
