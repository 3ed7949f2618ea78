"""Looks at GPUs through DCGM: which there are, what the engine is to watch, what it has of them.

The engine reads the GPUs at its own pace, once for each interval, and a look takes the newest of it. What the
engine refuses to watch is found out by halves, and costs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from gpuready.gpu.dcgm import (
    GROUP_INCOMPATIBLE,
    MODULE_NOT_LOADED,
    MOST_FIELDS,
    PROFILING_NOT_SUPPORTED,
    Dcgm,
    DcgmError,
    Group,
    Pair,
    Watch,
)
from gpuready.gpu.telemetry.dcgm_looks import Answers, DcgmLook, Found, Wish, is_link_of_gpu, look_of
from gpuready.gpu.telemetry.dcgm_values import Ages, Refusal, is_event, refusal_of
from gpuready.gpu.telemetry.device_reader import Clock
from gpuready.gpu.telemetry.fields import field_of, is_dcgms
from gpuready.gpu.telemetry.model import Device
from gpuready.gpu.telemetry.turns import Opener, Order, Turns

_NO_PROFILING = (MODULE_NOT_LOADED, PROFILING_NOT_SUPPORTED)
_RUNNING_TOTALS = range(1084, 1097)  # of profiling, in DCGM 4.6
_Item = TypeVar("_Item")
_KEPT_INTERVALS = 3
_EVENTS_KEPT_S = 600.0  # as the original does
# An engine keeps all that it has read for so long, and a look wants the newest alone.


@dataclass
class Watching:
    """What one session has its engine watch. refused: (entity, field id) -> why it does not"""

    wish: Wish
    watches: list[Watch] = field(default_factory=list)
    refused: dict[tuple[Pair, int], Refusal] = field(default_factory=dict)

    def begin(self, dcgm: Dcgm) -> None:
        """raises  DcgmError only when the session is over"""
        by_fields: dict[tuple[int, ...], list[Pair]] = {}
        for pair in self.wish.pairs():
            if wanted := tuple(self.wish.of(pair)):
                by_fields.setdefault(wanted, []).append(pair)
        for wanted, pairs in by_fields.items():
            events = [each for each in wanted if is_event(field_of(each))]
            measured = [each for each in wanted if _is_profiling(each)]
            others = [each for each in wanted if each not in (*events, *measured)]
            for ids in (others, measured):
                for start in range(0, len(ids), MOST_FIELDS):
                    self._watch(dcgm, pairs, ids[start : start + MOST_FIELDS], self._keep_s)
            if events:
                self._watch(dcgm, pairs, events, _EVENTS_KEPT_S)

    def end(self, dcgm: Dcgm) -> None:
        for watch in self.watches:
            dcgm.unwatch(watch)
        self.watches.clear()

    @property
    def _keep_s(self) -> float:
        return _KEPT_INTERVALS * self.wish.interval_s

    def _watch(self, dcgm: Dcgm, pairs: Sequence[Pair], ids: Sequence[int], keep_s: float) -> None:
        try:
            self.watches.append(dcgm.watch(pairs, ids, self.wish.interval_s, keep_s))
            return
        except DcgmError as exc:
            if exc.ends_session:
                raise
            refused = exc
        # An engine has room for 64 groups, of all its clients: nothing is tried in parts without need.
        is_for_all = refused.code in _NO_PROFILING and all(map(_is_profiling, ids))
        if len(pairs) > 1 and (is_for_all or refused.code == GROUP_INCOMPATIBLE or len(ids) == 1):
            for some in _halves(pairs):
                self._watch(dcgm, some, ids, keep_s)
        elif len(ids) > 1 and not is_for_all:
            for few in _halves(ids):
                self._watch(dcgm, pairs, few, keep_s)
        else:
            self.refused |= {(pairs[0], each): refusal_of(refused.code) for each in ids}


def _is_profiling(field_id: int) -> bool:
    return field_of(field_id).profiling or field_id in _RUNNING_TOTALS


def _halves(items: Sequence[_Item]) -> tuple[Sequence[_Item], Sequence[_Item]]:
    middle = len(items) // 2
    return items[:middle], items[middle:]


class DcgmThread(Turns[Dcgm, DcgmLook]):
    """One engine."""

    def __init__(self, library: Opener[Dcgm], clock: Clock, done: Callable[[], None]) -> None:
        super().__init__("dcgm", library, clock, done)
        self._ages = Ages()
        self._watching: Watching | None = None
        self._known: dict[int, Device] = {}
        self._version = ""

    def look(self, session: Dcgm, order: Order) -> DcgmLook:
        watching = self._follow(session, order)
        now = self._clock.monotonic()
        answers = {pair: self._read(session, watching, pair) for pair in watching.wish.pairs()}
        look = look_of(watching.wish, answers, self._ages, now, self._version, self._known)
        self._known |= look.by_number
        return look

    def failed(self, reason: str, order: Order) -> DcgmLook:
        return DcgmLook(error=reason, at=self._clock.monotonic())

    def closing(self, session: Dcgm) -> None:
        self._watching = None
        self._ages.forget()
        self._known.clear()

    def _follow(self, session: Dcgm, order: Order) -> Watching:
        """Have watched what is asked for now, of the GPUs that there are now."""
        wish = Wish(found_by(session), tuple(filter(is_dcgms, order.fields)), order.interval_s)
        if self._watching is not None and self._watching.wish == wish:
            return self._watching
        if self._watching is not None:
            self._watching.end(session)
            self._ages.forget()
        else:
            self._version = session.version()
        self._watching = Watching(wish)
        self._watching.begin(session)
        return self._watching

    def _read(self, session: Dcgm, watching: Watching, pair: Pair) -> Answers | Refusal:
        refused = watching.refused
        ids = [each for each in watching.wish.of(pair) if (pair, each) not in refused]
        answers: Answers = {each: why for (of, each), why in refused.items() if of == pair}
        try:
            answers |= {reading.field: reading for reading in session.read(pair, ids)}
        except DcgmError as exc:
            if exc.ends_session:
                raise
            return refusal_of(exc.code)
        return answers


def found_by(session: Dcgm) -> Found:
    """raises  DcgmError"""
    gpus = tuple(session.entities(Group.GPU, active=True))
    inactive = tuple(each for each in session.entities(Group.GPU) if each not in gpus)
    try:
        links = session.entities(Group.LINK)
    except DcgmError as exc:
        if exc.ends_session:
            raise
        links = []  # an older engine counts links among the fields of their GPU
    parts = tuple(part for part in session.parts() if part.gpu in gpus)
    return Found(gpus, inactive, parts, tuple(each for each in links if is_link_of_gpu(each)))
