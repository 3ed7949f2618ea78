"""ClusterPolicy.status from what was planned and what is there. Pure.

Ready means: every operand of the registry is ready on every node it belongs to. What the policy enables and
this version has no code for is listed as NotImplemented; it does not hold up the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuready import names
from gpuready.chain.driver import NOT_AS_ASKED
from gpuready.chain.reporting import toleration_for
from gpuready.chain.verdict import Link, State
from gpuready.chain.wording import counted
from gpuready.controller.fleet import held_up_by
from gpuready.controller.nodes.summary import GPUNodeSummary
from gpuready.controller.policy.active import ActivePolicy
from gpuready.controller.policy.plan import OperandPlan, Plan
from gpuready.operands import registry
from gpuready.operands.contract import PODS_NOT_READY, REFUSALS, Flavour, KubeObject, Operand, Refusal

READY, NOT_READY, IGNORED = "ready", "notReady", "ignored"
NOT_IMPLEMENTED = "notImplemented"  # of an operand


@dataclass(frozen=True, slots=True)
class KeptAway:
    """Who would look for GPUs on a node, and the taints that he does not tolerate ("key=value:Effect")."""

    daemonset: str
    taints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as the status sees it.

    silence       why nobody speaks for it at this moment, "" when its agent does
    silent        that has lasted: what was known of its GPUs no longer counts
    undiscovered  a node that is Ready, and nobody has looked for GPUs there
    kept_away     why nobody will
    """

    name: str
    labels: Mapping[str, str]
    silence: str = ""
    silent: bool = False
    undiscovered: bool = False
    kept_away: KeptAway | None = None


@dataclass(frozen=True)
class Observed:
    """What the caches hold.

    daemonsets   by name: the whole object with its status
    failures     object "Kind/name" -> why it could not be written, from the last pass
    troubles     what else fails: what cannot be read, which nodes cannot be written, each with its reason
    """

    nodes: Sequence[NodeView]
    gpu_nodes: Mapping[str, GPUNodeSummary]
    daemonsets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    troubles: Sequence[str] = ()
    agent_name: str = ""
    own_image: str = ""


Row = dict[str, Any]


def status_of(active: ActivePolicy, plan: Plan | None, seen: Observed, namespace: str, now: str) -> Row:
    """The whole status; conditions keep the time of their last change (see `carried_times`)."""
    operands = [_operand_row(each, seen) for each in plan.operands] if plan else _rows_of_what_runs(seen)
    operands += [_not_implemented_row(name) for name in (plan.not_implemented if plan else ())]
    ready, error = _conditions(active, plan, operands, seen)
    conditions = [ready, error, *_not_implemented_condition(plan), *_no_effect_condition(plan)]
    conditions += _undiscovered_condition(seen)
    for condition in conditions:
        condition["observedGeneration"] = active.generation
        condition["lastTransitionTime"] = now
    status = {
        "state": READY if ready["status"] == "True" else NOT_READY,
        "namespace": namespace,
        "observedGeneration": active.generation,
        "operands": operands,
        "nodes": _nodes_row(seen),
        "conditions": conditions,
    }
    return carried_times(status, active.raw.get("status") or {})


def ignored_status(raw: Mapping[str, Any], active_name: str, namespace: str, now: str) -> Row:
    """A policy that waits: the oldest one is in force."""
    message = f"the ClusterPolicy {active_name} is older and in force; this one takes over when it goes"
    ready = {"type": "Ready", "status": "False", "reason": "Ignored", "message": message}
    error = {"type": "Error", "status": "False", "reason": "Ignored", "message": ""}
    generation = raw["metadata"].get("generation", 1)
    for condition in (ready, error):
        condition.update(observedGeneration=generation, lastTransitionTime=now)
    status = {
        "state": IGNORED,
        "namespace": namespace,
        "observedGeneration": generation,
        "conditions": [ready, error],
    }
    return carried_times(status, raw.get("status") or {})


def headline(status: Row) -> tuple[object, ...]:
    """What a reader must not wait for: the state and each operand's, and which text is spoken of.

    A ready operand's reason counts (it tells what is degraded); of one that is on its way it changes all the
    time.
    """
    operands = [
        (row["name"], row.get("state"), row.get("reason") if row.get("state") == READY else "")
        for row in status.get("operands") or ()
    ]
    error = _error_row(status)
    return status.get("state"), status.get("observedGeneration"), error.get("reason"), operands


# Worth an Event: somebody has to act. That a node is not there yet is said by the condition alone.
CRD_OUTDATED = "CRDOutdated"
_TO_BE_SAID = (CRD_OUTDATED, "PolicyInvalid", "ReconcileFailed", "OperandRefused")


def new_problem(before: Row, after: Row) -> Row | None:
    """The Error condition when it says something new that needs a person."""
    was, now = _error_row(before), _error_row(after)
    changed = (was.get("reason"), was.get("message")) != (now.get("reason"), now.get("message"))
    return now if changed and now.get("reason") in _TO_BE_SAID else None


def _error_row(status: Mapping[str, Any]) -> Row:
    return next((row for row in status.get("conditions") or () if row["type"] == "Error"), {})


def carried_times(status: Row, before: Mapping[str, Any]) -> Row:
    """The same status with `lastTransitionTime` of every condition whose status did not change."""
    times = {row["type"]: row for row in before.get("conditions") or ()}
    for condition in status["conditions"]:
        old = times.get(condition["type"])
        if old and old.get("status") == condition["status"] and old.get("lastTransitionTime"):
            condition["lastTransitionTime"] = old["lastTransitionTime"]
    return status


# --- operands -------------------------------------------------------------------------------------------


def _operand_row(plan: OperandPlan, seen: Observed) -> Row:
    """A refused operand counts its nodes too: one that ran before the refusal still does."""
    operand = plan.operand
    row: Row = {"name": operand.name, "enabled": plan.enabled, "desired": 0, "ready": 0}
    row["flavour"] = str(_flavour(plan))
    if not plan.enabled:
        return {**row, "state": "disabled", "reason": "Disabled", "message": ""}
    if _reports_to_nobody(plan):
        return _row_by_pods(plan, row, seen)
    members = [node for node in seen.nodes if node.labels.get(operand.deploy_label) == "true"]
    waiting = [node for node in members if not _is_ready(plan, node, seen)]
    row.update(desired=len(members), ready=len(members) - len(waiting))
    if plan.refusal:
        return {**row, "state": NOT_READY, "reason": plan.refusal.reason, "message": _told(plan.refusal)}
    if failure := _failure(plan, seen):
        return {**row, "state": NOT_READY, "reason": "ApplyFailed", "message": failure}
    if missing := _missing(plan, members, seen):
        return {**row, "state": NOT_READY, "reason": "DaemonSetMissing", "message": missing}
    if not waiting:
        if rolling := _rolling(plan, seen):
            return {**row, "state": NOT_READY, "reason": "RollingOut", "message": rolling}
        reason, message = _remark(plan, members, seen)
        return {**row, "state": READY, "reason": reason, "message": message}
    reason, message = _why_not(plan, waiting, seen)
    return {**row, "state": NOT_READY, "reason": reason, "message": message}


def _rows_of_what_runs(seen: Observed) -> list[Row]:
    """This operator has not seen a good text of the policy yet: the DaemonSets say what one asked before."""
    found: dict[str, list[KubeObject]] = {}
    for obj in seen.daemonsets.values():
        found.setdefault(obj["metadata"].get("labels", {}).get(names.OPERAND_LABEL, ""), []).append(dict(obj))
    return [
        _row_of_what_runs(operand, found[operand.name], seen)
        for operand in registry.OPERANDS
        if operand.name in found
    ]


def _row_of_what_runs(operand: Operand, daemonsets: Sequence[KubeObject], seen: Observed) -> Row:
    flavour = Flavour.OWN if _runs_image(daemonsets[0], seen.own_image) else Flavour.ORIGINAL
    row = _operand_row(OperandPlan(operand, True, flavour, tuple(daemonsets)), seen)
    if row["state"] != READY:
        return row
    return {**row, "reason": "LeftAsItIs", "message": "runs as it was asked for before"}


def _runs_image(daemonset: Mapping[str, Any], image: str) -> bool:
    containers = daemonset["spec"].get("template", {}).get("spec", {}).get("containers") or ()
    return any(container.get("image") == image for container in containers)


def _flavour(plan: OperandPlan) -> Flavour:
    """The driver's image is always somebody else's, also where our objects run it."""
    is_external = plan.operand.external or plan.operand.own is None
    return Flavour.ORIGINAL if is_external else plan.flavour or Flavour.OWN


def _is_ready(plan: OperandPlan, node: NodeView, seen: Observed) -> bool:
    if node.silent:
        return False
    summary = seen.gpu_nodes.get(node.name)
    if plan.operand.link is None:  # feature labels: there when the product is
        return "nvidia.com/gpu.product" in node.labels or _has_no_devices(summary)
    row = summary.find_link(plan.operand.link) if summary else None
    return row is not None and row.is_whole and row.reason not in NOT_AS_ASKED


def _has_no_devices(summary: GPUNodeSummary | None) -> bool:
    return summary is not None and summary.is_whole(Link.DRIVER) and summary.status.gpus == 0


def _reports_to_nobody(plan: OperandPlan) -> bool:
    """NVIDIA's daemons leave no record; of the driver alone the node agent sees what it does."""
    return plan.flavour is Flavour.ORIGINAL and plan.operand.link is not Link.DRIVER


def _row_by_pods(plan: OperandPlan, row: Row, seen: Observed) -> Row:
    """Ready is who has a ready pod of the newest text."""
    wanted = [obj["metadata"]["name"] for obj in plan.objects if obj["kind"] == "DaemonSet"]
    live = [seen.daemonsets[name] for name in wanted if name in seen.daemonsets]
    counts = [obj.get("status") or {} for obj in live]
    row.update(
        desired=sum(status.get("desiredNumberScheduled", 0) for status in counts),
        ready=sum(status.get("numberReady", 0) for status in counts),
    )
    if plan.refusal:
        return {**row, "state": NOT_READY, "reason": plan.refusal.reason, "message": _told(plan.refusal)}
    if failure := _failure(plan, seen):
        return {**row, "state": NOT_READY, "reason": "ApplyFailed", "message": failure}
    if missing := _missing(plan, (), seen):
        return {**row, "state": NOT_READY, "reason": "DaemonSetMissing", "message": missing}
    if row["ready"] < row["desired"]:
        step = f"kubectl get pods -l app={wanted[0]}, or gpuready doctor"
        message = f"{wanted[0]}: {row['ready']} of {counted(row['desired'], 'pod')} ready; next: {step}"
        return {**row, "state": NOT_READY, "reason": PODS_NOT_READY, "message": message}
    if rolling := _rolling(plan, seen):
        return {**row, "state": NOT_READY, "reason": "RollingOut", "message": rolling}
    return {**row, "state": READY, "reason": "Ready", "message": ""}


def _told(refusal: Refusal) -> str:
    return f"{refusal.message}; next: {refusal.next_step}"


def _failure(plan: OperandPlan, seen: Observed) -> str:
    keys = [f"{obj['kind']}/{obj['metadata']['name']}" for obj in plan.objects]
    return next((f"{key}: {seen.failures[key]}" for key in keys if key in seen.failures), "")


def _missing(plan: OperandPlan, members: Sequence[NodeView], seen: Observed) -> str:
    """Ready needs the DaemonSet to exist, not only nodes that look whole from an earlier life."""
    wanted = [obj["metadata"]["name"] for obj in plan.objects if obj["kind"] == "DaemonSet"]
    absent = [name for name in wanted if name not in seen.daemonsets]
    if absent:
        return f"the DaemonSet {absent[0]} does not exist yet"
    if members and not wanted and plan.operand.link is not None:
        return f"no DaemonSet serves {_some([node.name for node in members])}: their OS is not known yet"
    return ""


def _rolling(plan: OperandPlan, seen: Observed) -> str:
    """Ready speaks of what the policy asks for now, not of pods that are about to be replaced."""
    for obj in plan.objects:
        live = seen.daemonsets.get(obj["metadata"]["name"]) if obj["kind"] == "DaemonSet" else None
        if live is None or live["spec"].get("updateStrategy", {}).get("type") == "OnDelete":
            continue  # a driver is replaced when its pod is deleted, and not before
        name, status = obj["metadata"]["name"], live.get("status") or {}
        wanted, updated = status.get("desiredNumberScheduled", 0), status.get("updatedNumberScheduled", 0)
        if status.get("observedGeneration", 0) < live["metadata"].get("generation", 0):
            return f"{name} has been changed, its pods are about to be replaced"
        if updated < wanted:
            return f"{name} has its newest pods on {updated} of {counted(wanted, 'node')}"
    return ""


def _remark(plan: OperandPlan, members: Sequence[NodeView], seen: Observed) -> tuple[str, str]:
    """What a ready operand still has to say: the first node whose link is degraded."""
    links = [
        (node.name, summary.find_link(plan.operand.link))
        for node in members
        if plan.operand.link and (summary := seen.gpu_nodes.get(node.name))
    ]
    degraded = [(name, row) for name, row in links if row and row.state == State.DEGRADED]
    if not degraded:
        return "Ready", ""
    name, row = degraded[0]
    return row.reason, f"{name}: {row.message}{_others(degraded)}"


def _why_not(plan: OperandPlan, nodes: Sequence[NodeView], seen: Observed) -> tuple[str, str]:
    """The first node's own reason, and how many others there are."""
    node = nodes[0]
    others = _others(nodes)
    if node.silent:
        return "AgentSilent", f"{node.name}: {node.silence or 'its node agent is just back'}{others}"
    summary = seen.gpu_nodes.get(node.name)
    if summary is None or not summary.status.chain:
        why = f" ({node.silence})" if node.silence else ""
        return "NotReported", f"{node.name}: the node agent has not reported yet{why}{others}"
    row = summary.find_link(plan.operand.link) if plan.operand.link else summary.first_broken()
    if row is None:
        return "NotReported", f"{node.name}: the node agent has not reported on this yet{others}"
    step = f"; next: {row.next_step}" if row.reason in NOT_AS_ASKED and row.next_step else ""
    return row.reason or "NotReady", f"{node.name}: {row.message}{step}{others}"


def _others(nodes: Sequence[object]) -> str:
    return f" (and {counted(len(nodes) - 1, 'more node')})" if len(nodes) > 1 else ""


def _not_implemented_row(name: str) -> Row:
    return {
        "name": name,
        "enabled": True,
        "state": NOT_IMPLEMENTED,
        "desired": 0,
        "ready": 0,
        "flavour": "own",
        "reason": "NotImplemented",
        "message": "gpuready has no program of its own for it yet; name an image to run the original's",
    }


# --- conditions -----------------------------------------------------------------------------------------


def _conditions(
    active: ActivePolicy, plan: Plan | None, operands: Sequence[Row], seen: Observed
) -> tuple[Row, Row]:
    if active.problems:
        text = "; ".join(problem.message for problem in active.problems)
        if active.outdated:
            return _not_ready(CRD_OUTDATED, f"{text}. What runs is left as it is", CRD_OUTDATED)
        return _not_ready("PolicyInvalid", f"{text}. What runs is left as it is")
    waiting = [row for row in operands if row["state"] == NOT_READY]
    failed = [_text(row) for row in waiting if row["reason"] == "ApplyFailed"]
    ours = f"/{seen.agent_name}"
    failed += [f"node agent: {why}" for key, why in seen.failures.items() if key.endswith(ours)]
    failed += seen.troubles
    if failed:
        return _not_ready("ReconcileFailed", "; ".join(failed))
    refused = [_text(row) for row in waiting if row["reason"] in REFUSALS]
    if plan and plan.agent_refusal:
        refused.insert(0, f"node agent: {_told(plan.agent_refusal)}")
    if refused:
        return _not_ready("OperandRefused", "; ".join(dict.fromkeys(refused)))
    if waiting:
        return _not_ready("OperandNotReady", _joined(waiting))
    if hidden := _still_hidden(active, seen):
        why = f" ({hidden[0].silence})" if hidden[0].silence else ""
        listed = _some(node.name for node in hidden)
        return _not_ready("Discovering", f"{listed}: nobody has looked for GPUs there yet{why}")
    gpu_nodes = [node for node in seen.nodes if node.labels.get(names.GPU_PRESENT) == "true"]
    if not gpu_nodes:
        return _ready("NoGPUNodes", f"no node with an NVIDIA GPU is known{_and_undiscovered(seen)}")
    unknown = [node.name for node in gpu_nodes if node.name not in seen.gpu_nodes]
    if unknown:
        return _not_ready("OperandNotReady", f"the node agent has not reported on {_some(unknown)}")
    remarks = [row for row in operands if row["state"] == READY and row["message"]]
    text = f"every installed operand is ready on every node it belongs to{_and_undiscovered(seen)}"
    if missing := [row["name"] for row in operands if row["state"] == NOT_IMPLEMENTED]:
        text += f"; not installed by this version: {', '.join(missing)}"
    return _ready("Reconciled", f"{text}; {_joined(remarks)}"[:1024] if remarks else text)


def _still_hidden(active: ActivePolicy, seen: Observed) -> list[NodeView]:
    """Nodes that hold up the first "ready" of a policy; a node that joins later does not take it back.

    Nor do nodes that will stay so until somebody changes a toleration: their own condition names them.
    """
    before = active.raw.get("status") or {}
    if before.get("state") == READY and before.get("observedGeneration") == active.generation:
        return []
    waiting = [node for node in seen.nodes if node.undiscovered and node.kept_away is None]
    return sorted(waiting, key=lambda node: node.name)


def _ready(reason: str, message: str) -> tuple[Row, Row]:
    return (
        {"type": "Ready", "status": "True", "reason": reason, "message": message},
        {"type": "Error", "status": "False", "reason": "Ready", "message": ""},
    )


def _not_ready(reason: str, message: str, ready_reason: str = "Error") -> tuple[Row, Row]:
    """`Error` is what the original gives as the reason of Ready=False; what it was is told by the other."""
    return (
        {"type": "Ready", "status": "False", "reason": ready_reason, "message": message[:1024]},
        {"type": "Error", "status": "True", "reason": reason, "message": message[:1024]},
    )


def _not_implemented_condition(plan: Plan | None) -> list[Row]:
    if plan is None or not plan.not_implemented:
        return []
    message = "enabled by the policy, not installed by this version: " + ", ".join(plan.not_implemented)
    return [{"type": "NotImplemented", "status": "True", "reason": "NotImplemented", "message": message}]


def _kept_away(seen: Observed) -> list[tuple[str, KeptAway]]:
    found = [(node.name, node.kept_away) for node in seen.nodes if node.kept_away]
    return sorted(found, key=lambda row: row[0])


def _and_undiscovered(seen: Observed) -> str:
    found = _kept_away(seen)
    return f"; {counted(len(found), 'node')} undiscovered, see the condition Undiscovered" if found else ""


def _undiscovered_condition(seen: Observed) -> list[Row]:
    """Nodes that may have GPUs, of which nobody will know before somebody acts."""
    found = _kept_away(seen)
    if not found:
        return []
    listed = [f"{name} (taint {', '.join(kept.taints)})" for name, kept in found]
    more = f" and {len(listed) - _NODES_NAMED} more" if len(listed) > _NODES_NAMED else ""
    taints = dict.fromkeys(taint for _, kept in found for taint in kept.taints)
    steps = "; ".join(toleration_for(taint) for taint in taints)
    daemonsets = ", ".join(dict.fromkeys(kept.daemonset for _, kept in found))
    message = (
        f"discovery cannot run on {', '.join(listed[:_NODES_NAMED])}{more}: the DaemonSet {daemonsets} does "
        f"not tolerate this; next: add to it the toleration {steps}"
    )
    row = {"type": "Undiscovered", "status": "True", "reason": "DiscoveryKeptAway", "message": message[:1024]}
    return [row]


_NODES_NAMED = 5


def _no_effect_condition(plan: Plan | None) -> list[Row]:
    if plan is None or not plan.without_effect:
        return []
    message = "; ".join(plan.without_effect)
    return [{"type": "NoEffect", "status": "True", "reason": "FieldsWithoutEffect", "message": message}]


def _joined(rows: Sequence[Row]) -> str:
    return "; ".join(_text(row) for row in rows)


def _text(row: Row) -> str:
    return f"{row['name']}: {row['message']}"


# --- nodes ----------------------------------------------------------------------------------------------


def _nodes_row(seen: Observed) -> Row:
    gpu_nodes = [node for node in seen.nodes if node.labels.get(names.GPU_PRESENT) == "true"]
    broken: dict[str, int] = {}
    ready = 0
    for node in gpu_nodes:
        found = held_up_by(node.silent, seen.gpu_nodes.get(node.name))
        if found is None:
            ready += 1
        else:
            broken[found.link] = broken.get(found.link, 0) + 1
    return {
        "gpu": len(gpu_nodes),
        "ready": ready,
        "brokenBy": dict(sorted(broken.items())),
        "undiscovered": sum(node.undiscovered for node in seen.nodes),
    }


def _some(names_: Iterable[str]) -> str:
    listed = sorted(names_)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
