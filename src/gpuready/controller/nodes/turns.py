"""Whose turn it is to restart its container runtime, kept up to date as nodes ask and are done."""

from __future__ import annotations

from collections.abc import Callable

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.chain.verdict import Link
from gpuready.controller.caches import Caches
from gpuready.controller.nodes import condition
from gpuready.controller.nodes.grants import (
    Grant,
    RollOut,
    asks,
    granted_to,
    holds_gpus,
    is_left_over,
    request_of,
)
from gpuready.controller.nodes.summary import GPUNodeSummary
from gpuready.kube.trimmed import Node


class Turns:
    """silence_of   why nobody speaks for a node, "" = its agent does"""

    def __init__(self, caches: Caches, silence_of: Callable[[Node], str]) -> None:
        self._caches = caches
        self._silence_of = silence_of
        self.askers: set[str] = set()  # nodes with GPU workloads that ask for something
        self._given: dict[str, str] = {}  # node -> id that was granted; no watch has brought it back yet
        self._roll_out: tuple[ClusterPolicy, RollOut] | None = None

    def begin(self) -> None:
        self._given.clear()
        self._roll_out = None

    def grant_for(self, node: Node, policy: ClusterPolicy, summary: GPUNodeSummary | None) -> Grant | None:
        """None leaves what was granted. All nodes are looked at only where one asks."""
        if summary is None or not asks(summary):
            return Grant() if summary is not None and is_left_over(summary) else None
        name = node.metadata.name
        grant = self._roll_out_of(policy).grant_for(name)
        is_new = grant.id == request_of(summary) and grant.id not in (
            granted_to(summary),
            self._given.get(name),
        )
        if is_new and holds_gpus(summary):
            # Before its write is awaited: another node is judged meanwhile.
            self._given[name] = grant.id
            self._roll_out = None
        return grant

    def follow(self, name: str, old: GPUNodeSummary | None, new: GPUNodeSummary | None) -> bool:
        """Whether somebody's turn may have come."""
        if new is not None and asks(new) and holds_gpus(new):
            self.askers.add(name)
        else:
            self.askers.discard(name)
        if new is None or granted_to(new) == self._given.get(name) or not asks(new):
            self._given.pop(name, None)
            self._roll_out = None
        return _may_pass_a_grant_on(old, new)

    def look_anew(self) -> None:
        """A node or its agent fell silent, speaks again, or is done."""
        self._roll_out = None

    def _roll_out_of(self, policy: ClusterPolicy) -> RollOut:
        """Kept until something moves: as many nodes ask as there are, and each is told its place."""
        if self._roll_out is None or self._roll_out[0] is not policy:
            silent = {name: why for name in self.askers if (why := self._silence_on(name))}
            nodes = ((name, self._caches.nodes.get(name)) for name in silent)
            lost = {name: silent[name] for name, node in nodes if node and condition.is_unknown(node)}
            limit = policy.spec.gpuready.toolkit.max_unavailable
            summaries = self._caches.gpu_nodes.values()
            found = RollOut(summaries, limit, given=self._given, lost=lost, absent=silent)
            self._roll_out = policy, found
        return self._roll_out[1]

    def _silence_on(self, name: str) -> str:
        node = self._caches.nodes.get(name)
        return self._silence_of(node) if node else "its node is gone"


def _may_pass_a_grant_on(old: GPUNodeSummary | None, new: GPUNodeSummary | None) -> bool:
    """One asks, is done, has failed or is gone: somebody's turn may have come."""
    before, after = (each.status if each else None for each in (old, new))
    if (before.requests if before else ()) != (after.requests if after else ()):
        return True
    links = [each.find_link(Link.TOOLKIT) if each else None for each in (old, new)]
    return links[0] != links[1]
