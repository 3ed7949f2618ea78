"""Which containers hold devices, as the kubelet said last: asked once for a collection, over one connection.

A kubelet that is away, slow or restarting changes nothing: what it said last stays, with its age, until it is
too old to be true.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from gpuready.log import get_logger
from gpuready.node.kubelet.pod_resources import Connection, Held, Holder, PodResourcesUnavailable, Wanted

log = get_logger("exporter.holders")


@dataclass(frozen=True)
class Holdings:
    """held      what is believed now; [] when nothing is known or all is too old
    taken_at  monotonic, when the kubelet said so; None before the first answer
    problem   why its last answer is missing; "" when it answered
    since     monotonic, when each holder was first told of
    """

    held: tuple[Held, ...] = ()
    taken_at: float | None = None
    problem: str = ""
    lists: int = 0
    failures: int = 0
    list_s: float = 0.0
    since: Mapping[Holder, float] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether anything is: the kubelet has answered, and not so long ago that it counts no longer."""
        return self.taken_at is not None and not (self.problem and not self.held)

    def age_s(self, now: float) -> float | None:
        return None if self.taken_at is None else max(0.0, now - self.taken_at)


class Lister(Protocol):
    async def list(self) -> list[Held]: ...

    def close(self) -> None: ...


class Holders:
    """`ask` once for each collection; `now` is always there and never waits."""

    def __init__(
        self,
        socket: Path,
        *,
        keep_s: float,
        wanted: Wanted = lambda resource, id_: True,
        lister: Lister | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lister: Lister = lister or Connection(socket, wanted=wanted)
        self._keep_s = keep_s
        self._clock = clock
        self.now = Holdings()

    async def ask(self) -> None:
        """Never raises what a kubelet can cause; at most its deadline long."""
        started = self._clock()
        try:
            held = tuple(await self._lister.list())
        except PodResourcesUnavailable as exc:
            self._missed(exc.why or exc.what)
            return
        ended = self._clock()
        if self.now.problem:
            log.info("the kubelet answers again", lists=self.now.lists)
        before = self.now
        since = {each.holder: before.since.get(each.holder, ended) for each in held}
        self.now = Holdings(held, ended, "", before.lists + 1, before.failures, ended - started, since)

    def close(self) -> None:
        self._lister.close()

    def _missed(self, why: str) -> None:
        if not self.now.problem:
            log.warning(
                "pods are not known anew", reason=why, next_step="what was known stays; is the kubelet up?"
            )
        self.now = replace(self.now, problem=why, failures=self.now.failures + 1)
        age = self.now.age_s(self._clock())
        if age is not None and age > self._keep_s and self.now.held:
            log.warning("pods are forgotten", age_s=round(age))
            self.now = replace(self.now, held=())
