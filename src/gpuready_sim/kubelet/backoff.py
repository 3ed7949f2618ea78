"""How long a container that ended waits before it is started again. Pure: `now` is given."""

from __future__ import annotations


class RestartBackoff:
    """At once after the first end, then base, 2 x base, ... max; forgotten after a long good run.

    Source: client-go util/flowcontrol/backoff.go as the kubelet's doBackOff uses it.
    """

    def __init__(self, base_s: float, max_s: float, reset_s: float) -> None:
        self._base_s = base_s
        self._max_s = max_s
        self._reset_s = reset_s
        self._current_s = 0.0

    def after_run(self, ran_for_s: float) -> float:
        """Seconds to wait before the next start."""
        if ran_for_s >= self._reset_s:
            self._current_s = 0.0
        wait = self._current_s
        self._current_s = min(self._max_s, self._current_s * 2 or self._base_s)
        return wait
