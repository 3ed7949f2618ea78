"""What a misspelt name was probably meant to be. Pure.

A file of thousands of bad lines must not cost minutes: candidates share three letters in a row with what was
written, and after `_LIMIT` questions there are no more answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from gpuready.gpu.telemetry.fields import all_names

_LIMIT = 50
_CANDIDATES = 30
_LONGEST = 100
# Farther off a suggestion is a guess. What nearly all names begin with makes none of them near.
_NEAR = 0.6
_SHARED = re.compile(r"DCGM_FI_(?:DEV_|PROF_)?")
_KINDS = {
    **{kind: kind for kind in ("gauge", "counter", "label")},
    "guage": "gauge",
    "count": "counter",
    "string": "label",
}


class Speller:
    def __init__(self) -> None:
        self._asked = 0
        self._by_three: Mapping[str, list[str]] = {}

    def field(self, written: str) -> str:
        """A question or hint that names the closest field; "" when none is near or too many were asked."""
        if self._asked >= _LIMIT or not 3 <= len(written) <= _LONGEST:
            return ""
        self._asked += 1
        upper = written.upper()
        by_own_part = {_own_part(name.upper()): name for name in self._candidates(upper)}
        close = _close(_own_part(upper), by_own_part)
        return f"did you mean {by_own_part[close[0]]}?" if close else ""

    def kind(self, written: str) -> str:
        word = written.lower()
        if word in _KINDS:
            return _KINDS[word]
        close = _close(word[:_LONGEST], _KINDS)
        return _KINDS[close[0]] if close else ""

    def _candidates(self, upper: str) -> Iterable[str]:
        if not self._by_three:
            self._by_three = _index()
        shared: Counter[str] = Counter()
        for three in _threes(upper):
            shared.update(self._by_three.get(three, ()))
        return [name for name, _ in shared.most_common(_CANDIDATES)]


def _close(word: str, among: Iterable[str]) -> list[str]:
    from difflib import get_close_matches  # a file without mistakes does without

    return get_close_matches(word, among, n=1, cutoff=_NEAR)


def _own_part(upper: str) -> str:
    return _SHARED.sub("", upper, count=1)


def _index() -> Mapping[str, list[str]]:
    index: dict[str, list[str]] = {}
    for name in all_names():
        for three in _threes(name.upper()):
            index.setdefault(three, []).append(name)
    return index


def _threes(text: str) -> set[str]:
    return {text[at : at + 3] for at in range(len(text) - 2)}
