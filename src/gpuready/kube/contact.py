"""Says once that the API server is away or keeps something from us, and once that this is over.

Many watches notice the same outage; a log line from each, at each of its tries, would bury the one that
matters.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuready.errors import GPUReadyError
from gpuready.kube.errors import Away, Unreachable
from gpuready.log import Logger, get_logger


class Contact:
    """One for all watches of a program.

    `what` is what a watch reads, as "nodes"; `who` tells several watches of it apart: each has its own
    trouble, and the last that is over is news, too.
    """

    def __init__(self, log: Logger | None = None) -> None:
        self._log = log or get_logger("kube")
        self._away = ""
        self._kept_from: dict[tuple[str, str], str] = {}
        self._told: dict[tuple[str, str], str] = {}  # the causes of those that were said
        self.on_change: Callable[[], None] = lambda: None  # something can no longer, or again, be read

    def failed(self, what: str, exc: GPUReadyError, who: str = "") -> None:
        """A watch has found no way, more than once unless the server is away."""
        if isinstance(exc, Away):
            if exc.why != self._away:
                self._log.warning("API server away", error=str(exc))
            self._away = exc.why
            return
        key = (what, who)
        before, self._kept_from[key] = self._kept_from.get(key), str(exc)
        if not self._is_told(key, exc):
            self._log.warning("cannot be read", resource=what, error=str(exc))
        if before != str(exc):
            self.on_change()

    def _is_told(self, key: tuple[str, str], exc: GPUReadyError) -> bool:
        """By this watch, or by any other if it is about the way there: a load balancer that finds no server
        ends every connection alike."""
        on_the_way = isinstance(exc, Unreachable)
        cause = exc.why if on_the_way else str(exc)
        if self._told.get(key) == cause or (on_the_way and cause in self._told.values()):
            return True
        self._told[key] = cause
        return False

    def works(self, what: str, who: str = "") -> None:
        if self._away:
            self._away = ""
            self._log.info("API server answers again")
        if self._kept_from.pop((what, who), None):
            if self._told.pop((what, who), None) is not None:
                self._log.info("can be read again", resource=what)
            self.on_change()
