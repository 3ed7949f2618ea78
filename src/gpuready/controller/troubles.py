"""Which keys of a loop cannot be reconciled, and why: logged once per cause, listed for the policy's status.

A missing permission meets every node of a fleet alike; five thousand lines would tell no more than one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuready.log import Logger

SHOWN_KEYS, SHOWN_CAUSES = 3, 3


class Troubles:
    def __init__(self, loop: str, log: Logger) -> None:
        self._loop = loop
        self._log = log
        self._by_key: dict[str, tuple[str, str]] = {}  # key -> (cause, as said for this key)
        self.on_change: Callable[[], None] = lambda: None

    def failed(self, key: str, error: str, retry_in_s: float) -> None:
        cause = _without(key, error)
        if self._by_key.get(key, ("", ""))[0] == cause:
            return
        if all(cause != known for known, _ in self._by_key.values()):
            self._log.warning("not reconciled", key=key, error=error, retry_in_s=round(retry_in_s, 1))
        self._by_key[key] = (cause, error)
        self.on_change()

    def over(self, key: str) -> None:
        found = self._by_key.pop(key, None)
        if found is None:
            return
        if all(found[0] != cause for cause, _ in self._by_key.values()):
            self._log.info("reconciled again", key=key)
        self.on_change()

    def texts(self) -> list[str]:
        """One for each cause, those of most keys first: "labelling of a, b and 7 more: why"."""
        by_cause: dict[str, list[str]] = {}
        for key, (cause, _) in self._by_key.items():
            by_cause.setdefault(cause, []).append(key)
        most = sorted(by_cause.values(), key=lambda keys: (-len(keys), keys))[:SHOWN_CAUSES]
        return [f"{self._loop} of {_some(keys)}: {self._by_key[min(keys)][1]}" for keys in most]


def _without(key: str, error: str) -> str:
    """The same text for every key."""
    return re.sub(rf"(?<![\w.-]){re.escape(key)}(?![\w.-])", "*", error)


def _some(keys: list[str]) -> str:
    shown = ", ".join(sorted(keys)[:SHOWN_KEYS])
    return shown + (f" and {len(keys) - SHOWN_KEYS} more" if len(keys) > SHOWN_KEYS else "")
