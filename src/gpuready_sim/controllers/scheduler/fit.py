"""Does a pod fit on a node, and if not, why in the scheduler's own words? Pure.

Filters in the order of the default profile; the first one that refuses a node gives its reasons.
Source: kubernetes, pkg/scheduler/framework/plugins/{nodeunschedulable,tainttoleration,nodeaffinity,
nodeports,noderesources,interpodaffinity}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from gpuready_sim.controllers import taints
from gpuready_sim.controllers.quantity import Amounts, amounts, requests_of
from gpuready_sim.controllers.selectors import matches_labels, matches_node, pinned_node

Object = Mapping[str, Any]
HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True)
class Refusal:
    """Why a node does not take a pod. `final`: evicting others there would not help."""

    reasons: tuple[str, ...]
    final: bool = True


@dataclass
class NodeState:
    """A node with the pods already on it, as the scheduler counts them."""

    node: Object
    pods: list[Object] = field(default_factory=list)
    free: Amounts = field(default_factory=dict)
    allocatable: Amounts = field(default_factory=dict)

    @classmethod
    def of(cls, node: Object, pods: Iterable[Object]) -> NodeState:
        allocatable = amounts((node.get("status") or {}).get("allocatable"))
        state = cls(node=node, allocatable=allocatable, free=dict(allocatable))
        for pod in pods:
            state.add(pod)
        return state

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    def add(self, pod: Object) -> None:
        self.pods.append(pod)
        for name, value in requests_of(pod).items():
            self.free[name] = self.free.get(name, Decimal(0)) - value


def refusal(pod: Object, state: NodeState, others: Sequence[NodeState]) -> Refusal | None:
    """The first filter's refusal, None when the pod fits. `others` are all nodes, for affinities."""
    filters: tuple[Callable[[], Refusal | None], ...] = (
        lambda: _pinned_elsewhere(pod, state),
        lambda: _unschedulable(pod, state),
        lambda: _tainted(pod, state),
        lambda: _affinity(pod, state),
        lambda: _ports(pod, state),
        lambda: _resources(pod, state),
        lambda: _pod_affinity(pod, state, others),
    )
    return next((found for found in (check() for check in filters) if found), None)


def _pinned_elsewhere(pod: Object, state: NodeState) -> Refusal | None:
    only = pinned_node(pod["spec"])
    if only is None or only == state.name:
        return None
    return Refusal(("node(s) didn't satisfy plugin(s) [NodeAffinity]",))


def _unschedulable(pod: Object, state: NodeState) -> Refusal | None:
    if not (state.node.get("spec") or {}).get("unschedulable"):
        return None
    taint = {"key": taints.UNSCHEDULABLE, "effect": taints.NO_SCHEDULE}
    if any(taints.tolerates(t, taint) for t in taints.tolerations_of(pod["spec"])):
        return None
    return Refusal(("node(s) were unschedulable",))


def _tainted(pod: Object, state: NodeState) -> Refusal | None:
    taint = taints.first_untolerated(taints.taints_of(state.node), taints.tolerations_of(pod["spec"]))
    if taint is None:
        return None
    return Refusal((f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}",))


def _affinity(pod: Object, state: NodeState) -> Refusal | None:
    if matches_node(pod["spec"], state.node):
        return None
    return Refusal(("node(s) didn't match Pod's node affinity/selector",))


def _ports(pod: Object, state: NodeState) -> Refusal | None:
    wanted = _host_ports(pod)
    if not wanted or not any(wanted & _host_ports(other) for other in state.pods):
        return None
    return Refusal(("node(s) didn't have free ports for the requested pod ports",), final=False)


def _host_ports(pod: Object) -> set[tuple[str, int]]:
    return {
        (port.get("protocol") or "TCP", port["hostPort"])
        for container in pod["spec"].get("containers") or []
        for port in container.get("ports") or []
        if port.get("hostPort")
    }


def _resources(pod: Object, state: NodeState) -> Refusal | None:
    reasons: list[str] = []
    never = False
    if "pods" in state.allocatable and len(state.pods) + 1 > state.allocatable["pods"]:
        reasons.append("Too many pods")
    for name, asked in sorted(requests_of(pod).items(), key=_resource_order):
        if asked and asked > state.free.get(name, Decimal(0)):
            reasons.append(f"Insufficient {name}")
            never = never or asked > state.allocatable.get(name, Decimal(0))
    return Refusal(tuple(reasons), final=never) if reasons else None


def _resource_order(item: tuple[str, Decimal]) -> tuple[int, str]:
    first = ("cpu", "memory", "ephemeral-storage")
    return (first.index(item[0]) if item[0] in first else len(first), item[0])


def _pod_affinity(pod: Object, state: NodeState, others: Sequence[NodeState]) -> Refusal | None:
    """Required pod affinity and anti-affinity, both ways for the latter."""
    for term in _pod_terms(pod, "podAffinity"):
        if not _any_match(term, pod, _same_domain(term, state, others)) and not _first_of_its_kind(
            term, pod, state, others
        ):
            return Refusal(("node(s) didn't match pod affinity rules",))
    for term in _pod_terms(pod, "podAntiAffinity"):
        if _any_match(term, pod, _same_domain(term, state, others)):
            return Refusal(("node(s) didn't match pod anti-affinity rules",), final=False)
    for other_state in others:
        for other in other_state.pods:
            for term in _pod_terms(other, "podAntiAffinity"):
                if _shares_domain(term, state, other_state) and _term_matches(term, other, pod):
                    reason = "node(s) didn't satisfy existing pods anti-affinity rules"
                    return Refusal((reason,), final=False)
    return None


def _pod_terms(pod: Object, kind: str) -> list[Mapping[str, Any]]:
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []


def _same_domain(term: Object, state: NodeState, others: Sequence[NodeState]) -> Iterable[Object]:
    return (pod for other in others if _shares_domain(term, state, other) for pod in other.pods)


def _shares_domain(term: Object, one: NodeState, other: NodeState) -> bool:
    key = term["topologyKey"]
    value = _domain(one, key)
    return value is not None and value == _domain(other, key)


def _domain(state: NodeState, key: str) -> str | None:
    labels = state.node["metadata"].get("labels") or {}
    return labels.get(key, state.name if key == HOSTNAME else None)


def _any_match(term: Object, owner: Object, pods: Iterable[Object]) -> bool:
    return any(_term_matches(term, owner, pod) for pod in pods)


def _term_matches(term: Object, owner: Object, pod: Object) -> bool:
    namespaces = term.get("namespaces") or [owner["metadata"]["namespace"]]
    everywhere = term.get("namespaceSelector") == {}
    labels = pod["metadata"].get("labels") or {}
    here = everywhere or pod["metadata"]["namespace"] in namespaces
    return here and matches_labels(term.get("labelSelector"), labels)


def _first_of_its_kind(term: Object, pod: Object, state: NodeState, others: Sequence[NodeState]) -> bool:
    """A pod that asks for company of its own kind may be the first one."""
    nobody = not any(_term_matches(term, pod, other) for s in others for other in s.pods)
    return nobody and _term_matches(term, pod, pod) and _domain(state, term["topologyKey"]) is not None
