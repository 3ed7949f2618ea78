"""One row of `status.operands` for each operand. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpuready import names
from gpuready.chain.driver import NOT_AS_ASKED
from gpuready.chain.kept_away import REASON as KEPT_AWAY
from gpuready.chain.kept_away import kept_away
from gpuready.chain.verdict import Link, State
from gpuready.chain.wording import counted
from gpuready.controller.nodes.summary import GPUNodeSummary
from gpuready.controller.policy.observed import NodeView, Observed
from gpuready.controller.policy.plan import OperandPlan
from gpuready.kube.taints import taints_against_daemonset, taints_of
from gpuready.operands import registry
from gpuready.operands.contract import INTERNAL_ERROR, PODS_NOT_READY, Flavour, KubeObject, Operand, Refusal

Row = dict[str, Any]
READY, NOT_READY = "ready", "notReady"
NOT_IMPLEMENTED = "notImplemented"


def operand_row(plan: OperandPlan, seen: Observed, *, was_ready: bool = False) -> Row:
    """What our own code cannot say of one operand is said of that one alone.

    was_ready   as the last status has it
    """
    try:
        return _row(plan, seen, was_ready)
    except Exception as exc:
        row: Row = {"name": plan.operand.name, "enabled": plan.enabled, "desired": 0, "ready": 0}
        message = told(Refusal.of_bug(exc))
        return {**row, "flavour": "", "state": NOT_READY, "reason": INTERNAL_ERROR, "message": message}


def _row(plan: OperandPlan, seen: Observed, was_ready: bool) -> Row:
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
        return {**row, "state": NOT_READY, "reason": plan.refusal.reason, "message": told(plan.refusal)}
    if failure := _failure(plan, seen):
        return {**row, "state": NOT_READY, "reason": "ApplyFailed", "message": failure}
    if missing := _missing(plan, members, seen):
        return {**row, "state": NOT_READY, "reason": "DaemonSetMissing", "message": missing}
    if not waiting:
        if rolling := _rolling(plan, seen) or ("" if was_ready else _starting(plan, seen)):
            return {**row, "state": NOT_READY, "reason": "RollingOut", "message": rolling}
        reason, message = _remark(plan, members, seen)
        return {**row, "state": READY, "reason": reason, "message": message}
    reason, message = _why_not(plan, waiting, seen)
    return {**row, "state": NOT_READY, "reason": reason, "message": message}


def rows_of_what_runs(seen: Observed) -> list[Row]:
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
    row = operand_row(OperandPlan(operand, True, flavour, tuple(daemonsets)), seen)
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
    """NVIDIA's daemons leave no record; of the driver alone the node agent sees what it does.

    Of ours that no link speaks for the pods are counted, too: a record says why, but a daemon that was killed
    leaves its last one behind.
    """
    if plan.flavour is Flavour.OWN:
        return plan.operand.reports_by_record
    return plan.operand.link is not Link.DRIVER


def _row_by_pods(plan: OperandPlan, row: Row, seen: Observed) -> Row:
    """Ready is who has a ready pod of the newest text."""
    wanted = {obj["metadata"]["name"]: obj for obj in plan.objects if obj["kind"] == "DaemonSet"}
    live = [seen.daemonsets[name] for name in wanted if name in seen.daemonsets]
    counts = [obj.get("status") or {} for obj in live]
    places = _places(plan, seen)
    # A DaemonSet does not count the nodes that it may not run on: a taint would make their operand ready.
    # A pod that was there before the taint stays, and is counted apart.
    away = _kept_away(plan, places, seen)
    staying = min(len(away), sum(status.get("numberMisscheduled", 0) for status in counts))
    scheduled = sum(status.get("desiredNumberScheduled", 0) for status in counts)
    row.update(
        desired=max(scheduled, len(places) - staying),
        ready=sum(status.get("numberReady", 0) for status in counts),
    )
    if plan.refusal:
        return {**row, "state": NOT_READY, "reason": plan.refusal.reason, "message": told(plan.refusal)}
    if failure := _failure(plan, seen):
        return {**row, "state": NOT_READY, "reason": "ApplyFailed", "message": failure}
    if missing := _missing(plan, (), seen):
        return {**row, "state": NOT_READY, "reason": "DaemonSetMissing", "message": missing}
    if row["ready"] < row["desired"]:
        if absent := away[: len(away) - staying]:
            return {**row, "state": NOT_READY, "reason": KEPT_AWAY, "message": _told_of_taints(plan, absent)}
        if own := _own_words(plan, seen, (State.BROKEN, State.WAITING)):
            return {**row, "state": NOT_READY, "reason": own[0], "message": own[1]}
        first = next(iter(wanted))
        step = f"{_look_at_pods(wanted[first])}, or gpuready doctor"
        message = f"{first}: {row['ready']} of {counted(row['desired'], 'pod')} ready; next: {step}"
        return {**row, "state": NOT_READY, "reason": PODS_NOT_READY, "message": message}
    if rolling := _rolling(plan, seen):
        return {**row, "state": NOT_READY, "reason": "RollingOut", "message": rolling}
    reason, message = _own_words(plan, seen, (State.DEGRADED,)) or ("Ready", "")
    return {**row, "state": READY, "reason": reason, "message": message}


def _places(plan: OperandPlan, seen: Observed) -> list[tuple[KubeObject, NodeView]]:
    """Each DaemonSet with each node that it selects, whatever is tainted there."""
    found = []
    for obj in plan.objects:
        if obj["kind"] == "DaemonSet":
            selector = obj["spec"]["template"]["spec"]["nodeSelector"].items()
            found += [(obj, node) for node in seen.nodes if selector <= node.labels.items()]
    return found


def _kept_away(
    plan: OperandPlan, places: Sequence[tuple[KubeObject, NodeView]], seen: Observed
) -> list[tuple[str, str, list[str]]]:
    """(node, DaemonSet, the taints that it does not tolerate); last come nodes with its daemon's record."""
    found = [
        (node.name, obj["metadata"]["name"], sorted(taints_against_daemonset(taints_of(node.taints), obj)))
        for obj, node in places
        if node.taints
    ]
    return sorted((each for each in found if each[2]), key=lambda each: _has_record(plan, each[0], seen))


def _has_record(plan: OperandPlan, node: str, seen: Observed) -> bool:
    summary = seen.gpu_nodes.get(node)
    return summary is not None and summary.find_operand(plan.operand.name) is not None


def _told_of_taints(plan: OperandPlan, away: Sequence[tuple[str, str, list[str]]]) -> str:
    """Nobody else says that no pod comes."""
    name, daemonset, taints = away[0]
    problem = kept_away(plan.operand.name, daemonset, taints)
    return f"{name}: {problem.message}; next: {problem.next_step}{_others(away)}"


def _own_words(plan: OperandPlan, seen: Observed, states: Collection[str]) -> tuple[str, str] | None:
    """Reason and message of the first node whose daemon is in one of these states, by its own record."""
    if not plan.operand.reports_by_record or plan.flavour is not Flavour.OWN:
        return None
    members = [node for node in seen.nodes if node.labels.get(plan.operand.deploy_label) == "true"]
    found = [
        (node.name, row)
        for node in members
        if (summary := seen.gpu_nodes.get(node.name))
        and (row := summary.find_operand(plan.operand.name))
        and row.state in states
    ]
    if not found:
        return None
    name, row = found[0]
    step = f"; next: {row.next_step}" if row.next_step else ""
    return row.reason, f"{name}: {row.message}{step}{_others(found)}"


def told(refusal: Refusal) -> str:
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
        return f"no DaemonSet serves {some([node.name for node in members])}: their OS is not known yet"
    return ""


def _rolling(plan: OperandPlan, seen: Observed) -> str:
    """Ready speaks of what the policy asks for now, not of pods that are about to be replaced."""
    for name, live in _rolled_out(plan, seen):
        status = live.get("status") or {}
        wanted, updated = status.get("desiredNumberScheduled", 0), status.get("updatedNumberScheduled", 0)
        observed = status.get("observedGeneration", 0)
        if observed < live["metadata"].get("generation", 0):
            changed = f"{name} has been changed, its pods are about to be replaced"
            return changed if observed else f"{name} has just been made, its pods are about to start"
        if updated < wanted:
            newest = f"{name} has its newest pods on {updated} of {counted(wanted, 'node')}"
            return newest + _BY_HAND.format(look=_look_at_pods(live)) if _is_by_hand(live) else newest
    return ""


_BY_HAND = "; spec.daemonsets.updateStrategy OnDelete leaves the others to you; next: delete them ({look})"


def _look_at_pods(daemonset: Mapping[str, Any]) -> str:
    meta = daemonset["metadata"]
    return f"kubectl get pods -n {meta['namespace']} -l app={meta['name']}"


def _is_by_hand(daemonset: Mapping[str, Any]) -> bool:
    return bool(daemonset["spec"].get("updateStrategy", {}).get("type") == "OnDelete")


def _starting(plan: OperandPlan, seen: Observed) -> str:
    """New pods of the newest text: for a moment the nodes still tell of those that they have replaced.

    It only puts off the word ready. Once that is said, a pod alone does not take it back: the nodes do.
    """
    for name, live in _rolled_out(plan, seen):
        status = live.get("status") or {}
        wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
        if ready < wanted:
            return f"{name} has {ready} of {counted(wanted, 'pod')} ready"
    return ""


def _rolled_out(plan: OperandPlan, seen: Observed) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Its DaemonSets by name; of a driver's pods the nodes say whether they are as asked."""
    if plan.operand.link is Link.DRIVER:
        return
    for obj in plan.objects:
        name = obj["metadata"]["name"]
        live = seen.daemonsets.get(name) if obj["kind"] == "DaemonSet" else None
        if live is not None:
            yield name, live


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
    step = f"; next: {row.next_step}" if row.reason in (*NOT_AS_ASKED, KEPT_AWAY) and row.next_step else ""
    return row.reason or "NotReady", f"{node.name}: {row.message}{step}{others}"


def _others(nodes: Sequence[object]) -> str:
    return f" (and {counted(len(nodes) - 1, 'more node')})" if len(nodes) > 1 else ""


def not_implemented_row(name: str) -> Row:
    return {
        "name": name,
        "enabled": True,
        "state": NOT_IMPLEMENTED,
        "desired": 0,
        "ready": 0,
        "flavour": "own",
        "reason": "NotImplemented",
        "message": f"gpuready has no program of its own for it yet; next: {_instead_of(name)}",
    }


def _instead_of(name: str) -> str:
    """An operand has an image of the original's; what is only planned has none that a policy could name."""
    planned = {each.name: each.instead for each in registry.NOT_IMPLEMENTED}
    return planned.get(name, "name an image to run the original's")


def some(names_: Iterable[str]) -> str:
    listed = sorted(names_)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
