"""What would happen, as values; `-o json` prints them under the same names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Field:
    """One field, by its path; `old` or `new` is None where it is not there."""

    path: str
    old: Any
    new: Any

    def to_json(self) -> Row:
        return {"path": self.path, "old": self.old, "new": self.new}


class Fate(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    PRUNED = "pruned"


@dataclass(frozen=True)
class ObjectChange:
    """why: "desired changed", "repaired", "taken over": as the operator's log says it; "left behind"."""

    fate: Fate
    kind: str
    namespace: str
    name: str
    operand: str
    why: str = ""
    fields: tuple[Field, ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def changes_pods(self) -> bool:
        """The pod template is another: pods of the old one are replaced."""
        return any(each.path.startswith("spec.template") for each in self.fields)

    def to_json(self) -> Row:
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "operand": self.operand,
            "why": self.why,
            "fields": [each.to_json() for each in self.fields],
        }


@dataclass(frozen=True)
class Obstacle:
    """An object of somebody else where one of ours should be: it stays, and its operand is not ready."""

    kind: str
    name: str
    operand: str
    message: str
    next_step: str

    def to_json(self) -> Row:
        row = {"kind": self.kind, "name": self.name, "operand": self.operand}
        return {**row, "message": self.message, "nextStep": self.next_step}


@dataclass(frozen=True)
class LabelChange:
    """by: who writes them, "operator" or "node-agent"; a value of None is a label that goes."""

    node: str
    by: str
    labels: Mapping[str, str | None]

    def to_json(self) -> Row:
        return {"node": self.node, "by": self.by, "labels": dict(self.labels)}


@dataclass(frozen=True)
class NodeTrouble:
    """What would be wrong with a node under this policy, and is not now; the node says so of the link."""

    link: str
    reason: str
    message: str
    next_step: str = ""

    def to_json(self) -> Row:
        row = {"link": self.link, "reason": self.reason}
        return {**row, "message": self.message, "nextStep": self.next_step}


@dataclass(frozen=True)
class GPUNodeChange:
    """GPUNode.spec of one node: what its daemons are told without any pod being restarted."""

    fate: Fate
    node: str
    fields: tuple[Field, ...] = ()
    troubles: tuple[NodeTrouble, ...] = ()

    def to_json(self) -> Row:
        return {
            "fate": str(self.fate),
            "node": self.node,
            "fields": [each.to_json() for each in self.fields],
            "troubles": [each.to_json() for each in self.troubles],
        }


class PodFate(StrEnum):
    STARTS = "starts"
    STOPS = "stops"
    RESTARTS = "restarts"
    OUTDATED = "outdated"  # goes on as it is until somebody deletes it (OnDelete)


@dataclass(frozen=True)
class PodChange:
    fate: PodFate
    daemonset: str
    operand: str
    node: str

    def to_json(self) -> Row:
        return {"daemonSet": self.daemonset, "operand": self.operand, "node": self.node}


class Trouble(StrEnum):
    LOSES_DRIVER = "losesDriver"
    MUST_LEAVE_FIRST = "mustLeaveFirst"


@dataclass(frozen=True)
class Workload:
    """A pod with GPUs that the change reaches. No program of gpuready evicts it; `why` says what comes."""

    pod: str
    node: str
    holds: Mapping[str, int]
    trouble: Trouble
    why: str

    def to_json(self) -> Row:
        return {
            "pod": self.pod,
            "node": self.node,
            "holds": dict(self.holds),
            "trouble": str(self.trouble),
            "why": self.why,
        }


@dataclass(frozen=True)
class OperandLine:
    """flavour: "own", "original", "" for one that does not run; images: what its pods run."""

    name: str
    flavour: str
    images: tuple[str, ...] = ()
    refused: str = ""
    next_step: str = ""

    def to_json(self) -> Row:
        row = {"name": self.name, "flavour": self.flavour, "images": list(self.images)}
        return {**row, "refused": self.refused, "nextStep": self.next_step} if self.refused else row


@dataclass(frozen=True)
class Forecast:
    """Everything that follows from applying one policy.

    ignored_for   the older policy that stays in force instead, "" when this one counts
    namespace_labels   of the operator's own namespace
    problems      why the policy is not followed at all
    obstacles     objects of others where ours should be
    agent_refused why the node agent's DaemonSet is left as it is, with the next step
    remarks       what cannot be known beforehand
    """

    policy: str
    ignored_for: str = ""
    problems: tuple[str, ...] = ()
    operands: tuple[OperandLine, ...] = ()
    objects: tuple[ObjectChange, ...] = ()
    labels: tuple[LabelChange, ...] = ()
    namespace_labels: Mapping[str, str | None] = field(default_factory=dict)
    gpu_nodes: tuple[GPUNodeChange, ...] = ()
    pods: tuple[PodChange, ...] = ()
    workloads: tuple[Workload, ...] = ()
    no_effect: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()
    not_implemented: tuple[str, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    agent_refused: tuple[str, str] = ("", "")
    remarks: tuple[str, ...] = field(default=())

    @property
    def changes_something(self) -> bool:
        on_objects = self.objects or self.labels or self.namespace_labels or self.gpu_nodes
        return bool(on_objects or self.pods)

    @property
    def refused(self) -> tuple[OperandLine, ...]:
        return tuple(line for line in self.operands if line.refused)

    @property
    def says_something(self) -> bool:
        """Changes, or a text that is not followed as it stands."""
        hindered = self.problems or self.refused or self.obstacles or self.agent_refused[0]
        return self.changes_something or bool(hindered or self.ignored_for)

    def count(self, fate: PodFate) -> int:
        return Counter(pod.fate for pod in self.pods)[fate]

    def of_fate(self, fate: Fate) -> list[ObjectChange]:
        return [obj for obj in self.objects if obj.fate is fate]

    def to_json(self) -> Row:
        return {
            "policy": self.policy,
            "ignoredFor": self.ignored_for,
            "problems": list(self.problems),
            "operands": [line.to_json() for line in self.operands],
            "obstacles": [each.to_json() for each in self.obstacles],
            "agentRefused": self.agent_refused[0],
            "objects": {str(fate): [obj.to_json() for obj in self.of_fate(fate)] for fate in Fate},
            "nodeLabels": [each.to_json() for each in self.labels],
            "namespaceLabels": dict(self.namespace_labels),
            "gpuNodes": [each.to_json() for each in self.gpu_nodes],
            "pods": {str(fate): [pod.to_json() for pod in self.pods if pod.fate is fate] for fate in PodFate},
            "workloads": [each.to_json() for each in self.workloads],
            "noEffect": list(self.no_effect),
            "unknownFields": list(self.unknown_fields),
            "notImplemented": list(self.not_implemented),
            "remarks": list(self.remarks),
        }
