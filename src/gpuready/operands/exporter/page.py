"""One collection's families as bytes, made once for each way of asking, however often it is asked."""

from __future__ import annotations

import gzip
from collections.abc import Iterable

from gpuready.operands.exporter.exposition import TEXT, Family, render

Way = tuple[str, bool]  # format, zipped
_LEVEL = 1  # level 6 takes four times as long for a tenth less


class Page:
    """like: its predecessor; what was asked of that one is made at once, as it will be asked of this one."""

    def __init__(self, families: Iterable[Family], like: Page | None = None) -> None:
        self._families = tuple(families)
        self._bodies: dict[Way, bytes] = {}
        self._asked: set[Way] = set()
        for form, zipped in like._asked if like else ():
            self._made(form, zipped)

    @property
    def series(self) -> int:
        return sum(len(family.lines) for family in self._families)

    def body(self, form: str = TEXT, *, zipped: bool = False) -> bytes:
        self._asked.add((form, zipped))
        return self._made(form, zipped)

    def _made(self, form: str, zipped: bool) -> bytes:
        way = (form, zipped)
        if way not in self._bodies:
            plain = self._made(form, False) if zipped else render(self._families, form)
            self._bodies[way] = gzip.compress(plain, _LEVEL, mtime=0) if zipped else plain
        return self._bodies[way]
