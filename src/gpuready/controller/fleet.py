"""How far the chain is whole across all GPU nodes, in numbers. Pure.

What the metrics say of the fleet. Labels stay few: links and reasons are words of the chain, and a node has
rows of its own only while something is wrong with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuready import names
from gpuready.chain.verdict import Link, State
from gpuready.controller.labelling.decision import is_gpu_node
from gpuready.controller.nodes.condition import is_unknown
from gpuready.controller.nodes.summary import GPUNodeSummary, LinkSummary
from gpuready.kube.trimmed import Node

# A node writes its own status: what it may call a reason is a word, or it is counted as this one.
OTHER = "Other"
_REASON = re.compile(r"^[A-Z][A-Za-z0-9]{0,63}$")
_LINKS = frozenset(str(link) for link in Link)
_STATES = frozenset(str(state) for state in State)


@dataclass(frozen=True)
class HeldUp:
    """The first link that keeps a node from serving its GPUs."""

    link: str
    reason: str


@dataclass(frozen=True)
class Fleet:
    """All nodes with nvidia.com/gpu.present=true.

    links      (link, state, reason) -> how many nodes say so; of a node nobody hears from only that
    held_up    by node, those that do not serve all they could
    unhealthy  by node, how many of its GPUs are ill
    upgrades   state of a driver upgrade, as the nodes' label says -> how many nodes
    has_nfd_labels   some node, with or without GPUs, carries labels of node feature discovery
    """

    gpu_nodes: int = 0
    gpus: int = 0
    healthy_gpus: int = 0
    links: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    held_up: Mapping[str, HeldUp] = field(default_factory=dict)
    unhealthy: Mapping[str, int] = field(default_factory=dict)
    upgrades: Mapping[str, int] = field(default_factory=dict)
    has_nfd_labels: bool = False

    @property
    def held_up_by(self) -> Mapping[HeldUp, int]:
        return Counter(self.held_up.values())


def fleet_of(nodes: Sequence[Node], gpu_nodes: Mapping[str, GPUNodeSummary]) -> Fleet:
    members = [node for node in nodes if is_gpu_node(node.metadata.labels)]
    looks = {node.metadata.name: (is_unknown(node), gpu_nodes.get(node.metadata.name)) for node in members}
    heard = {name: each.status for name, (silent, each) in looks.items() if each and not silent}
    held_up = {name: found for name, look in looks.items() if (found := held_up_by(*look))}
    ill = {name: status.gpus - status.healthy for name, status in heard.items()}
    return Fleet(
        gpu_nodes=len(members),
        gpus=sum(each.status.gpus for _, each in looks.values() if each),
        healthy_gpus=sum(status.healthy for status in heard.values()),
        links=_in_known_words(Counter(row for look in looks.values() for row in _rows_of(*look))),
        held_up=held_up,
        unhealthy={name: count for name, count in ill.items() if count > 0},
        upgrades=Counter(
            state for node in nodes if (state := node.metadata.labels.get(names.UPGRADE_STATE_LABEL))
        ),
        has_nfd_labels=any(_has_nfd_labels(node.metadata.labels) for node in nodes),
    )


def held_up_by(silent: bool, summary: GPUNodeSummary | None) -> HeldUp | None:
    """None for a node whose chain is whole. `silent`: nobody has spoken for it for a while."""
    unheard = _unheard(silent, summary)
    if unheard:
        return HeldUp(unheard.link, unheard.reason)
    broken = summary.first_broken() if summary else None
    return HeldUp(*_known_words(broken.link, broken.reason)) if broken else None


def _unheard(silent: bool, summary: GPUNodeSummary | None) -> LinkSummary | None:
    """The one thing to say of a node that says nothing: last known states are no states."""
    if silent:
        return LinkSummary(str(Link.REPORTING), str(State.BROKEN), "AgentSilent")
    if summary is None or not summary.status.chain:
        return LinkSummary(str(Link.REPORTING), str(State.WAITING), "NotReported")
    return None


_HEARD = LinkSummary(str(Link.REPORTING), str(State.OK), "Healthy")


def _rows_of(silent: bool, summary: GPUNodeSummary | None) -> Iterator[tuple[str, str, str]]:
    unheard = _unheard(silent, summary)
    chain = [unheard] if unheard else [_HEARD, *(summary.status.chain if summary else ())]
    return ((row.link, row.state, row.reason) for row in chain)


def _in_known_words(rows: Mapping[tuple[str, str, str], int]) -> Mapping[tuple[str, str, str], int]:
    found: Counter[tuple[str, str, str]] = Counter()
    for (link, state, reason), count in rows.items():
        link, reason = _known_words(link, reason)
        found[(link, state if state in _STATES else OTHER, reason)] += count
    return found


def _known_words(link: str, reason: str) -> tuple[str, str]:
    return link if link in _LINKS else OTHER, reason if _REASON.match(reason) else OTHER


def _has_nfd_labels(labels: Mapping[str, str]) -> bool:
    return any(key.startswith(names.NFD_PREFIX) for key in labels)
