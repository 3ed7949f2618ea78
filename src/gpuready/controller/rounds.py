"""A round: everything is looked at once because something changed for all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Round:
    """Which keys have not had their turn yet; what comes second can wait until the round is over."""

    def __init__(self) -> None:
        self._left: set[str] = set()
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_over(self) -> bool:
        return not self._left

    def when_over(self, listener: Callable[[], None]) -> None:
        """Call it at the end of every round."""
        self._listeners.append(listener)

    def begin(self, keys: Iterable[str]) -> None:
        """Keys of an earlier round that is not over yet stay in it."""
        self._left.update(keys)

    def had_its_turn(self, key: str) -> None:
        """Whatever came of it: one key that fails again and again, or hangs, keeps nobody waiting."""
        if key not in self._left:
            return
        self._left.discard(key)
        if self.is_over:
            for listener in self._listeners:
                listener()
