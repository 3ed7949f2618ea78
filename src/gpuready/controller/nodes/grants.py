"""Which nodes may restart their container runtime now. Pure.

A node without GPU workloads may at once. Of the others as many at a time as the policy says; and none any
more while one that was allowed to has a runtime that did not take it, or is silent since. Nothing else takes
that back: the node is mended, or leaves the cluster.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpuready.chain.verdict import Link, State
from gpuready.controller.nodes.summary import GPUNodeSummary, RequestSummary

RESTART_RUNTIME = "RestartRuntime"
# The runtime is down, or it would not take the change: the next node may fare no better.
_ROLLED_BACK, _SILENT = "RuntimeConfigRolledBack", "RuntimeSilent"
_NOBODY: Mapping[str, str] = {}


@dataclass(frozen=True)
class Grant:
    """id       of the request that may go on, "" = none
    held_by  why a request may not, "" = there is none, or it may
    """

    id: str = ""
    held_by: str = ""


@dataclass(frozen=True)
class Stop:
    """Nobody else may restart a runtime: `why`, about `node`; `waiting` are the names of those who would."""

    node: str
    why: str
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True)
class Waiting:
    """One node that asks, or was allowed to. `lost`: why nobody speaks for it any more, "" = one does."""

    name: str
    request: str
    granted: str
    workloads: bool
    state: str
    reason: str
    lost: str = ""

    @property
    def is_busy(self) -> bool:
        """It has been allowed to and is not done."""
        return bool(self.granted) and self.workloads and self.request == self.granted

    @property
    def waits(self) -> bool:
        return bool(self.request) and self.workloads and self.request != self.granted

    @property
    def failure(self) -> str:
        """What stops the others, as a clause; "" = nothing."""
        if not self.granted:
            return ""
        if self.state == State.BROKEN and self.reason == _ROLLED_BACK:
            return f"the runtime of {self.name} did not take the same change"
        if self.state == State.BROKEN and self.reason == _SILENT:
            return f"the runtime of {self.name}, which was allowed to restart, does not answer"
        if self.is_busy and self.lost:
            return f"{self.name} was allowed to restart its runtime and is silent since: {self.lost}"
        return ""


class RollOut:
    """Who may now, worked out once for all nodes.

    given   node -> id of what was granted a moment ago and may not show in its summary yet
    lost    node -> why nobody has spoken for it for a while
    absent  the same of this moment: nobody would take up a grant there
    """

    def __init__(
        self,
        summaries: Iterable[GPUNodeSummary],
        max_unavailable: int | str = 1,
        *,
        given: Mapping[str, str] = _NOBODY,
        lost: Mapping[str, str] = _NOBODY,
        absent: Mapping[str, str] = _NOBODY,
    ) -> None:
        nodes = list(summaries)
        self._known = {each.name: each for node in nodes if (each := _waiting(node, given, lost))}
        self._absent = absent
        self._allowed = at_once(max_unavailable, len(nodes))
        self._failed = [each for each in self._known.values() if each.failure]
        self._busy = sorted(each.name for each in self._known.values() if each.is_busy)
        self._line = sorted(each.name for each in self._known.values() if each.waits)
        self._present = [name for name in self._line if name not in absent]

    def grant_for(self, node: str) -> Grant:
        mine = self._known.get(node)
        if mine is None or not mine.request:
            return Grant(mine.granted if mine else "")
        if not mine.waits:
            return Grant(mine.request)
        held_by = self._held_by(node)
        return Grant(mine.granted if mine.failure else "", held_by) if held_by else Grant(mine.request)

    def _held_by(self, node: str) -> str:
        stopped = next((each.failure for each in self._failed if each.name != node), "")
        if stopped or node in self._absent:
            return stopped or self._absent[node]
        before = bisect_left(self._present, node)
        if len(self._busy) + before < self._allowed:
            return ""
        if before >= _NEXT:
            return f"at least {_NEXT} other nodes first, {self._allowed} at a time"
        named = (*self._busy, *self._present[:before])[:_NAMED]
        return f"{', '.join(named)} first, {self._allowed} at a time"

    @property
    def stop(self) -> Stop | None:
        """None while nobody waits, or the next one may go."""
        for failed in self._failed:
            names = tuple(name for name in self._line if name != failed.name)
            if names:
                return Stop(failed.name, failed.failure, names)
        return None


# So many of those who wait are told whose turn it is: it changes with every node that is done, and is written
# to each of them.
_NEXT = 10
_NAMED = 3


def at_once(asked: int | str, nodes: int) -> int:
    """ "25%" of the nodes, rounded up, or a number; at least 1."""
    text = str(asked).strip()
    if text.endswith("%") and text[:-1].isdigit():
        return max(1, math.ceil(nodes * int(text[:-1]) / 100))
    return max(1, int(text)) if text.isdigit() else 1


def asks(summary: GPUNodeSummary | None) -> bool:
    return summary is not None and bool(_request(summary)[0])


def _waiting(summary: GPUNodeSummary, given: Mapping[str, str], lost: Mapping[str, str]) -> Waiting | None:
    name = summary.metadata.name
    request, workloads = _request(summary)
    granted = given.get(name) or granted_to(summary)
    if not request and not granted:
        return None
    link = summary.find_link(Link.TOOLKIT)
    state, reason = (link.state, link.reason) if link else ("", "")
    return Waiting(name, request, granted, workloads, state, reason, lost.get(name, ""))


def is_left_over(summary: GPUNodeSummary) -> bool:
    """Nothing asks for what was granted: a later request of that id would not wait for its turn.

    Not while the runtime is being changed, or did not take it: then the grant says why others wait.
    """
    if not granted_to(summary) or asks(summary):
        return False
    link = summary.find_link(Link.TOOLKIT)
    if link is None:
        return True
    return link.state != State.WAITING and link.reason not in (_ROLLED_BACK, _SILENT)


def granted_to(summary: GPUNodeSummary) -> str:
    """Id of what was granted last, "" = nothing was."""
    toolkit: Mapping[str, object] = summary.spec.get("toolkit") or {}
    return str(toolkit.get("grant") or "")


def holds_gpus(summary: GPUNodeSummary) -> bool:
    """Pods would notice what it asks for."""
    return _request(summary)[1]


def request_of(summary: GPUNodeSummary) -> str:
    return _request(summary)[0]


def _request(summary: GPUNodeSummary) -> tuple[str, bool]:
    return next(((row.id, row.workloads) for row in _requests(summary)), ("", False))


def _requests(summary: GPUNodeSummary) -> Iterator[RequestSummary]:
    return (row for row in summary.status.requests if row.kind == RESTART_RUNTIME)
