"""Whose turn it is, between a grant and the moment at which the watch brings it back."""

from __future__ import annotations

from types import SimpleNamespace

from tests.unit.controller.test_grants import node

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.controller.nodes.grants import Grant
from gpuready.controller.nodes.summary import GPUNodeSummary
from gpuready.controller.nodes.turns import Turns
from gpuready.kube.trimmed import Metadata, Node


def turns_over(seen: dict[str, GPUNodeSummary]) -> Turns:
    """`seen` is what the watch has brought, by name."""
    machines = {name: Node(metadata=Metadata(name=name)) for name in ("a", "b")}
    caches = SimpleNamespace(nodes=machines, gpu_nodes=seen)
    return Turns(caches, lambda machine: "")  # type: ignore[arg-type]


def ask(turns: Turns, seen: dict[str, GPUNodeSummary], summary: GPUNodeSummary) -> Grant | None:
    name = summary.metadata.name
    before, seen[name] = seen.get(name), summary
    turns.follow(name, before, summary)
    return turns.grant_for(Node(metadata=Metadata(name=name)), ClusterPolicy(), summary)


def test_what_was_granted_a_moment_ago_counts_before_anybody_has_seen_it() -> None:
    """By name alone "a" would be the first in the line again, and two runtimes would restart at once."""
    seen: dict[str, GPUNodeSummary] = {}
    turns = turns_over(seen)

    assert ask(turns, seen, node("b", asks="2")) == Grant("2")
    assert ask(turns, seen, node("a", asks="1")) == Grant("", "b first, 1 at a time")


def test_the_turn_passes_on_when_its_node_asks_no_more() -> None:
    seen: dict[str, GPUNodeSummary] = {}
    turns = turns_over(seen)
    ask(turns, seen, node("b", asks="2"))

    ask(turns, seen, node("b", granted="2", state="ok"))
    assert ask(turns, seen, node("a", asks="1")) == Grant("1")
