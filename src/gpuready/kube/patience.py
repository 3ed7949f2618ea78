"""Which failures of one call are worth another try, and after how long."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gpuready.errors import ApiError
from gpuready.kube.errors import Cut, ServerTimeout, ServiceUnavailable, TooManyRequests

MAX_TRIES = 5
# Whoever called has other things to do: a longer wait is his, who knows `retry_after` from the error.
MAX_BUSY_WAIT_S = 10.0


@dataclass
class Patience:
    """Of one call.

    safe   the call may arrive twice without harm
    """

    safe: bool
    _busy: int = 0
    _waited_s: float = 0.0
    _used: tuple[str, ...] = ()

    def used(self, chance: str) -> bool:
        """True from the second time on."""
        if chance in self._used:
            return True
        self._used += (chance,)
        return False

    def find_wait(self, exc: ApiError) -> float | None:
        """Seconds until the next try, None when the caller must hear of it."""
        if isinstance(exc, Cut):
            # Only a kept connection that the server closed meanwhile; whoever loops has his own patience.
            return 0.0 if self.safe and not self.used("cut") else None
        if isinstance(exc, TooManyRequests):  # nothing was done: safe for every verb
            return self._busy_wait(exc.retry_after or 1.0)
        if isinstance(exc, ServiceUnavailable | ServerTimeout) and self.safe and exc.retry_after:
            return self._busy_wait(exc.retry_after)
        return None

    def _busy_wait(self, asked_s: float) -> float | None:
        self._busy += 1
        wait_s = asked_s * random.uniform(1.0, 1.1)
        if self._busy == MAX_TRIES or self._waited_s + asked_s > MAX_BUSY_WAIT_S:
            return None
        self._waited_s += wait_s
        return wait_s
