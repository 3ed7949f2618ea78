"""Why a pod that asks for GPUs waits: full, broken, kept away, or asking for what nobody has.

Pure. The scheduler's one sentence ("Insufficient nvidia.com/gpu") is taken apart node by node; the answer is
the reason of the nodes that come closest to taking the pod.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from gpuready import names
from gpuready.chain import summary
from gpuready.chain.device_plugin import DISABLED
from gpuready.chain.wording import counted
from gpuready.tools import placement
from gpuready.tools.doctor.finding import Finding, Severity
from gpuready.tools.node_rows import NodeRow
from gpuready.tools.placement import Object, name_of
from gpuready.tools.snapshot import Snapshot

_MOST_NAMED = 6
_USUAL = (names.GPU_RESOURCE, names.GPU_RESOURCE + names.SHARED_SUFFIX)


class Nearness(IntEnum):
    """How close a node comes to taking the pod; the greatest explains the wait."""

    NO_SUCH_RESOURCE = 0
    BROKEN = 1
    NOT_SELECTED = 2
    TAINTED = 3
    CORDONED = 4
    TOO_SMALL = 5
    FULL = 6
    UNHEALTHY = 7
    FITS = 8


@dataclass(frozen=True)
class Refusal:
    """One node's answer."""

    node: str
    nearness: Nearness
    detail: str
    next_step: str = ""
    room: int = 0  # of a node that is too small: what it has in all


def pending_gpu_pods(snapshot: Snapshot) -> list[Object]:
    return [pod for pod in snapshot.pods if _waits(pod) and placement.requested(pod)]


def explain_all(snapshot: Snapshot, rows: Sequence[NodeRow]) -> list[Finding]:
    """One finding a pod. Pods that ask for the same under the same terms share one walk over the nodes."""
    waiting = pending_gpu_pods(snapshot)
    if not waiting:
        return []
    cluster = _Cluster.of(snapshot, rows, waiting)
    answers: dict[str, Finding] = {}
    findings = []
    for pod in waiting:
        terms = _terms(pod)
        if terms not in answers:
            answers[terms] = _explain(pod, cluster)
        findings.append(_about(pod, answers[terms]))
    return findings


def _terms(pod: Object) -> str:
    """Everything of a pod that the answer depends on, as text."""
    spec = pod.get("spec") or {}
    parts = [placement.requested(pod), *(spec.get(k) for k in ("nodeSelector", "affinity", "tolerations"))]
    return json.dumps(parts, sort_keys=True)


def _about(pod: Object, answer: Finding) -> Finding:
    """The shared answer for this pod; only what the scheduler said of it is its own."""
    if answer.reason != _REASONS[Nearness.FITS]:
        return replace(answer, subject=_subject(pod))
    said = scheduler_said(pod)
    line = f"scheduler: {said}" if said else "the scheduler has not looked at it yet"
    return replace(answer, subject=_subject(pod), evidence=(line, *answer.evidence))


def _explain(pod: Object, cluster: _Cluster) -> Finding:
    asked = placement.requested(pod)
    known = cluster.offered
    unknown = [name for name in asked if name not in known]
    if unknown:
        return _nobody_offers(unknown[0], asked[unknown[0]], cluster)
    of_kinds = [(kind, _refusal(pod, asked, kind[0])) for kind in cluster.kinds]
    nearest = max((refusal.nearness for _, refusal in of_kinds), default=Nearness.NO_SUCH_RESOURCE)
    telling = [kind for kind, refusal in of_kinds if refusal.nearness is nearest]
    others = [kind for kind, r in of_kinds if r.nearness not in (nearest, Nearness.NO_SUCH_RESOURCE)]
    return _answer(asked, nearest, _of_the_first(pod, asked, telling), _of_the_first(pod, asked, others))


def _of_the_first(pod: Object, asked: Mapping[str, int], kinds: Sequence[_Kind]) -> list[Refusal]:
    """As many as are named, in the cluster's order; of each kind one at least, which speaks for the rest."""
    named = sorted((node for kind in kinds for node in kind[:_MOST_NAMED]), key=lambda node: node.place)
    places = {node.place for node in named[:_MOST_NAMED]}
    rest = [kind[0] for kind in kinds if kind[0].place not in places]
    return [_refusal(pod, asked, node) for node in (*named[:_MOST_NAMED], *rest)]


# --- the nodes, read once ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Node:
    """
    place     in the cluster's order
    is_idle   its GPUs are offered by nobody now, whatever the kubelet still shows
    """

    object: Object
    name: str
    place: int
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    holders: placement.Holders
    row: NodeRow | None
    is_idle: bool

    @classmethod
    def of(cls, node: Object, place: int, row: NodeRow | None, holders: placement.Holders) -> _Node:
        return cls(
            object=node,
            name=name_of(node),
            place=place,
            capacity=placement.quantities(node, "capacity"),
            allocatable=placement.quantities(node, "allocatable"),
            holders=holders,
            row=row,
            is_idle=row is not None and (not row.is_whole or row.withheld is not None),
        )

    @property
    def has_gone(self) -> bool:
        return self.row is not None and self.is_idle and not self.row.offered

    def used(self, resource: str) -> int:
        return sum(number for _, number in self.holders.get(resource, ()))

    def kind(self, labels: Collection[str], *, by_name: bool) -> str:
        """All of it that an answer depends on, but names, as text. labels: those that pods ask for."""
        mine = placement.labels_of(self.object)
        row = self.row
        parts = [
            self.name if by_name else "",
            [mine.get(key) for key in labels],
            (self.object.get("spec") or {}).get("taints") or [],
            placement.is_cordoned(self.object),
            [self.capacity, self.allocatable, {name: self.used(name) for name in self.holders}],
            [self.is_idle, row.reason, row.has_gpus, row.undiscovered] if row else None,
        ]
        return json.dumps(parts, sort_keys=True)


# Nodes that answer every pod alike, in the cluster's order; never empty.
_Kind = list[_Node]


@dataclass(frozen=True)
class _Cluster:
    """
    kinds     the nodes, those together that answer every pod alike: thousands of pods are held against a
              handful of them
    offered   every resource that some node has, with the total
    """

    kinds: Sequence[_Kind]
    rows: Sequence[NodeRow]
    offered: Mapping[str, int]
    has_policy: bool

    @classmethod
    def of(cls, snapshot: Snapshot, rows: Sequence[NodeRow], waiting: Sequence[Object]) -> _Cluster:
        by_name = {row.name: row for row in rows}
        held = placement.holders_by_node(snapshot.pods)
        nodes = [
            _Node.of(node, place, by_name.get(name_of(node)), held.get(name_of(node), {}))
            for place, node in enumerate(snapshot.nodes)
        ]
        # The kubelet shows the capacity of a plugin that has gone for a while; nobody gets anything of it.
        offered: Counter[str] = Counter()
        for node in nodes:
            if not node.has_gone:
                offered.update(node.capacity)
        return cls(_kinds_of(nodes, waiting), rows, dict(offered), bool(snapshot.policies))


def _kinds_of(nodes: Sequence[_Node], waiting: Sequence[Object]) -> list[_Kind]:
    keys: set[str] = set()
    by_name = False
    for pod in waiting:
        found, names_nodes = placement.selected_by(pod.get("spec") or {})
        keys |= found
        by_name = by_name or names_nodes
    ordered = sorted(keys)
    kinds: dict[str, _Kind] = {}
    for node in nodes:
        kinds.setdefault(node.kind(ordered, by_name=by_name), []).append(node)
    return list(kinds.values())


# --- node by node -----------------------------------------------------------------------------------------


def _refusal(pod: Object, asked: Mapping[str, int], node: _Node) -> Refusal:
    name = node.name
    resource, count = _scarcest(node, asked)
    gone = node.is_idle and not node.allocatable.get(resource)
    if gone or not node.capacity.get(resource):
        return _without_resource(name, resource, node.row)
    spec = pod.get("spec") or {}
    unmatched = placement.unmatched_selector(node.object, spec)
    if unmatched:
        step = f"change the pod's selector, or label the node ({unmatched[0]})"
        return Refusal(name, Nearness.NOT_SELECTED, f"does not have {', '.join(unmatched)}", step)
    taints = placement.taints_against(node.object, spec.get("tolerations") or ())
    if taints:
        step = "add a toleration to the pod for " + ", ".join(taints)
        return Refusal(name, Nearness.TAINTED, f"is tainted {', '.join(taints)}", step)
    if placement.is_cordoned(node.object):
        return _cordoned(node, resource, count)
    return _room(node, resource, count)


def _scarcest(node: _Node, asked: Mapping[str, int]) -> tuple[str, int]:
    """The resource of which this node has the least in proportion to what is asked."""
    return min(asked.items(), key=lambda item: node.allocatable.get(item[0], 0) / max(item[1], 1))


def _without_resource(name: str, resource: str, row: NodeRow | None) -> Refusal:
    if row is None or not (row.has_gpus or row.undiscovered):
        return Refusal(name, Nearness.NO_SUCH_RESOURCE, f"has no {resource}")
    why = row.reason or "offers other resources"
    return Refusal(name, Nearness.BROKEN, f"offers no {resource}: {why}", f"gpuready doctor --node {name}")


def _cordoned(node: _Node, resource: str, count: int) -> Refusal:
    free = max(0, node.allocatable.get(resource, 0) - node.used(resource))
    step = f"kubectl uncordon {node.name}" if free >= count else ""
    return Refusal(node.name, Nearness.CORDONED, f"is cordoned, with {free} {resource} free", step)


def _room(node: _Node, resource: str, count: int) -> Refusal:
    name, row = node.name, node.row
    capacity = node.capacity.get(resource, 0)
    allocatable = node.allocatable.get(resource, 0)
    used = node.used(resource)
    if capacity < count:
        said = f"has {capacity} {resource} in all, the pod asks for {count}"
        return Refusal(name, Nearness.TOO_SMALL, said, room=capacity)
    if allocatable - used >= count:
        return Refusal(name, Nearness.FITS, f"has {allocatable - used} of {allocatable} {resource} free")
    lost = capacity - allocatable
    if lost > 0 and capacity - used >= count:
        why = f" ({row.reason})" if row and row.reason else ""
        detail = f"{lost} of {capacity} {resource} cannot be used{why}, {used} held"
        return Refusal(name, Nearness.UNHEALTHY, detail, f"gpuready doctor --node {name}")
    detail = f"{used} of {allocatable} {resource} held by {_named(node.holders.get(resource, []))}"
    return Refusal(name, Nearness.FULL, detail)


def _named(held: Sequence[tuple[str, int]]) -> str:
    named = [pod if number == 1 else f"{pod} ({number})" for pod, number in held[:_MOST_NAMED]]
    more = len(held) - _MOST_NAMED
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


# --- the answer -------------------------------------------------------------------------------------------

_REASONS = {
    Nearness.NO_SUCH_RESOURCE: "NoSuchResource",
    Nearness.BROKEN: "NodesNotReady",
    Nearness.NOT_SELECTED: "NotSelected",
    Nearness.TAINTED: "Tainted",
    Nearness.CORDONED: "Cordoned",
    Nearness.TOO_SMALL: "AsksForTooMany",
    Nearness.FULL: "Full",
    Nearness.UNHEALTHY: "UnhealthyDevices",
    Nearness.FITS: "NotForGpus",
}
_SAID = {
    Nearness.BROKEN: "no node offers it: their chains are not whole",
    Nearness.NOT_SELECTED: "the nodes that have it do not match the pod's selector or affinity",
    Nearness.TAINTED: "the nodes that have it are tainted, and the pod does not tolerate that",
    Nearness.CORDONED: "the nodes that have it are cordoned",
    Nearness.TOO_SMALL: "no node has that many",
    Nearness.FULL: "every GPU it could get is in use; nothing is broken",
    Nearness.UNHEALTHY: "GPUs that would be free are not healthy",
    Nearness.FITS: "GPUs are free for it: the scheduler has another reason",
}


def _answer(
    asked: Mapping[str, int],
    nearest: Nearness,
    telling: Sequence[Refusal],
    others: Sequence[Refusal],
) -> Finding:
    wants = ", ".join(f"{count} {name}" for name, count in asked.items())
    lines = [f"{refusal.node} {refusal.detail}" for refusal in telling[:_MOST_NAMED]]
    lines += [f"{refusal.node} {refusal.detail}" for refusal in others[: _MOST_NAMED - len(lines)]]
    return Finding(
        subject="",
        severity=Severity.WAITING if nearest in (Nearness.FULL, Nearness.FITS) else Severity.PROBLEM,
        reason=_REASONS[nearest],
        message=f"waits for {wants}: {_SAID[nearest]}",
        evidence=tuple(lines),
        next_step=_step(asked, nearest, telling, others),
    )


def _step(
    asked: Mapping[str, int], nearest: Nearness, telling: Sequence[Refusal], others: Sequence[Refusal]
) -> str:
    """One thing to do, even where each node would have its own."""
    uncordon = [r.next_step for r in others if r.nearness is Nearness.CORDONED and r.next_step]
    match nearest:
        case Nearness.FULL:
            step = "wait until one of these ends, or add GPUs (a shared GPU takes more pods)"
        case Nearness.TOO_SMALL:
            most = max(refusal.room for refusal in telling)
            step = f"ask for at most {most}, or add a node with {max(asked.values())}"
        case Nearness.FITS:
            return "look at the pod's other requests: kubectl describe pod"
        case _:
            return next((refusal.next_step for refusal in telling if refusal.next_step), "")
    return f"{step}, or {uncordon[0]}" if uncordon else step


def _nobody_offers(resource: str, count: int, cluster: _Cluster) -> Finding:
    """Not offered yet, or never: a name that resembles one that is offered is most likely a mistake."""
    known, rows = cluster.offered, cluster.rows
    coming = [row for row in rows if row.undiscovered or not row.is_whole]
    near = difflib.get_close_matches(resource, known, n=2, cutoff=0.7)
    if near and not (coming and resource in _USUAL):
        return Finding(
            subject="",
            severity=Severity.PROBLEM,
            reason="NoSuchResource",
            message=f"asks for {count} {resource}, which no node offers; there is {' and '.join(near)}",
            evidence=tuple(f"{name}: {total} in the cluster" for name, total in sorted(known.items())),
            next_step=f"ask for {near[0]} instead",
        )
    if coming:
        return _nobody_yet(f"{count} {resource}", coming)
    withheld = [row for row in rows if row.withheld]
    if withheld and resource in _USUAL:
        return _nobody_may(f"{count} {resource}", withheld)
    if resource in _USUAL and not cluster.has_policy:
        return Finding(
            subject="",
            severity=Severity.WAITING,
            reason="NoPolicy",
            message=f"waits for {count} {resource}: nothing offers GPUs, because there is no ClusterPolicy",
            next_step="write a ClusterPolicy and apply it: kubectl apply -f POLICY.yaml",
        )
    offered = ", ".join(sorted(known)) or "no GPU resource at all"
    unseen = sum(bool(row.unseen) for row in rows)
    return Finding(
        subject="",
        severity=Severity.WAITING if unseen else Severity.PROBLEM,
        reason="NotLookedAt" if unseen else "NoSuchResource",
        message=f"asks for {count} {resource}, which no node offers"
        + (f" yet: {counted(unseen, 'node')} not looked at" if unseen else ""),
        evidence=(f"the cluster offers {offered}",),
        next_step="check that a node agent runs on every node"
        if unseen
        else "correct the name of the resource, or add a node that has it",
    )


def _nobody_yet(wants: str, coming: Sequence[NodeRow]) -> Finding:
    """The nodes that would offer it are held up: when all by the same thing, that is to be put right."""
    broken = [summary.first_broken(row.verdicts) for row in coming]
    told = {(each.reason, each.message, each.next_step) for each in broken if each}
    first = broken[0]
    more = f"gpuready doctor --node {coming[0].name}"
    common = first.next_step if first and len(told) == 1 else ""
    lines = [
        f"{row.name}: {each.reason}: {each.message}" if each else f"{row.name}: {row.reason}"
        for row, each in zip(coming, broken, strict=True)
    ]
    held = f"{counted(len(coming), 'node')} {'is' if len(coming) == 1 else 'are'} not ready"
    return Finding(
        subject="",
        severity=Severity.WAITING,
        reason="NodesNotReady",
        message=f"waits for {wants}: no node offers it, {held}",
        evidence=tuple(lines[:_MOST_NAMED]),
        next_step=f"{common} ({more})" if common else more,
    )


def _nobody_may(wants: str, withheld: Sequence[NodeRow]) -> Finding:
    by_policy = any(row.withheld and row.withheld.reason == DISABLED for row in withheld)
    step = (
        "set spec.devicePlugin.enabled: true in the ClusterPolicy"
        if by_policy
        else f"remove that label from {withheld[0].name}"
    )
    lines = [f"{row.name}: {row.withheld.message}" for row in withheld if row.withheld]
    return Finding(
        subject="",
        severity=Severity.PROBLEM,
        reason="NotOffered",
        message=f"asks for {wants}; there are GPUs, but nobody offers them",
        evidence=tuple(lines[:_MOST_NAMED]),
        next_step=step,
    )


def scheduler_said(pod: Object) -> str:
    rows = (pod.get("status") or {}).get("conditions") or ()
    return next((str(row.get("message") or "") for row in rows if row.get("type") == "PodScheduled"), "")


def _waits(pod: Object) -> bool:
    gone = pod["metadata"].get("deletionTimestamp")
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    return phase == "Pending" and not (pod.get("spec") or {}).get("nodeName") and not gone


def _subject(pod: Object) -> str:
    return f"pod/{pod['metadata'].get('namespace')}/{name_of(pod)}"
