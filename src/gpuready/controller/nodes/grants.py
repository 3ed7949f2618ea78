"""Which nodes may restart their container runtime now. Pure.

A node without GPU workloads may at once. Of the others as many at a time as the policy says; and none any
more while one that was allowed to has a runtime that did not take it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpuready.chain.verdict import Link, State
from gpuready.controller.nodes.summary import GPUNodeSummary, RequestSummary

RESTART_RUNTIME = "RestartRuntime"
# The runtime is down, or it would not take the change: the next node may fare no better.
_FAILED = ("RuntimeConfigRolledBack", "RuntimeSilent")


@dataclass(frozen=True)
class Grant:
    """id       of the request that may go on, "" = none
    held_by  why a request may not, "" = there is none, or it may
    """

    id: str = ""
    held_by: str = ""


@dataclass(frozen=True)
class Waiting:
    """One node that asks, or was allowed to."""

    name: str
    request: str
    granted: str
    workloads: bool
    state: str
    reason: str

    @property
    def is_busy(self) -> bool:
        """It has been allowed to and is not done."""
        return bool(self.granted) and self.workloads and self.request == self.granted

    @property
    def has_failed(self) -> bool:
        return bool(self.granted) and self.state == State.BROKEN and self.reason in _FAILED


def grant_for(node: str, summaries: Iterable[GPUNodeSummary], max_unavailable: int | str) -> Grant:
    """What is granted to `node`, given all of them."""
    all_nodes = list(summaries)
    waiting = [found for summary in all_nodes if (found := _waiting(summary))]
    mine = next((each for each in waiting if each.name == node), None)
    if mine is None or not mine.request:
        return Grant(mine.granted if mine else "")
    if mine.request == mine.granted or not mine.workloads:
        return Grant(mine.request)
    failed = [each.name for each in waiting if each.has_failed and each.name != node]
    if failed:
        return Grant(mine.granted, f"the runtime of {failed[0]} did not take the same change")
    allowed = at_once(max_unavailable, len(all_nodes))
    busy = sorted(each.name for each in waiting if each.is_busy)
    before = sorted(e.name for e in waiting if e.request and e.workloads and not e.is_busy and e.name < node)
    if len(busy) + len(before) < allowed:
        return Grant(mine.request)
    return Grant(mine.granted, f"{', '.join((*busy, *before)[:3])} first, {allowed} at a time")


def at_once(asked: int | str, nodes: int) -> int:
    """ "25%" of the nodes, rounded up, or a number; at least 1."""
    text = str(asked).strip()
    if text.endswith("%") and text[:-1].isdigit():
        return max(1, math.ceil(nodes * int(text[:-1]) / 100))
    return max(1, int(text)) if text.isdigit() else 1


def asks(summary: GPUNodeSummary | None) -> bool:
    return summary is not None and bool(_request(summary)[0])


def _waiting(summary: GPUNodeSummary) -> Waiting | None:
    toolkit: Mapping[str, object] = summary.spec.get("toolkit") or {}
    request, workloads = _request(summary)
    granted = str(toolkit.get("grant") or "")
    if not request and not granted:
        return None
    link = summary.find_link(Link.TOOLKIT)
    state, reason = (link.state, link.reason) if link else ("", "")
    return Waiting(summary.metadata.name, request, granted, workloads, state, reason)


def _request(summary: GPUNodeSummary) -> tuple[str, bool]:
    return next(((row.id, row.workloads) for row in _requests(summary)), ("", False))


def _requests(summary: GPUNodeSummary) -> Iterator[RequestSummary]:
    return (row for row in summary.status.requests if row.kind == RESTART_RUNTIME)
