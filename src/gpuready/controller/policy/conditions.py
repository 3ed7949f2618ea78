"""The conditions of a policy, from what was planned and what is there. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpuready import names
from gpuready.chain.reporting import toleration_for
from gpuready.chain.wording import counted
from gpuready.controller.nodes.grants import RollOut
from gpuready.controller.policy.active import ActivePolicy
from gpuready.controller.policy.observed import KeptAway, NodeView, Observed
from gpuready.controller.policy.operand_rows import NOT_IMPLEMENTED, NOT_READY, READY, Row, some, told
from gpuready.controller.policy.plan import Plan
from gpuready.controller.policy.references import SECRET
from gpuready.controller.upgrade import budget
from gpuready.controller.upgrade.budget import Budget, DriverNode
from gpuready.errors import INTERNAL
from gpuready.operands.contract import INTERNAL_ERROR, REFUSALS

CRD_OUTDATED = "CRDOutdated"


def conditions_of(
    active: ActivePolicy, plan: Plan | None, operands: Sequence[Row], seen: Observed
) -> list[Row]:
    """Ready, Error, and those that are there only while they have something to say."""
    return [
        *_ready_and_error(active, plan, operands, seen),
        *_not_implemented_condition(plan),
        *_no_effect_condition(plan),
        *_undiscovered_condition(seen),
        *_upgrade_condition(active, seen),
        *_restarts_condition(seen),
    ]


def _ready_and_error(
    active: ActivePolicy, plan: Plan | None, operands: Sequence[Row], seen: Observed
) -> tuple[Row, Row]:
    if active.problems:
        text = "; ".join(problem.message for problem in active.problems)
        if active.outdated:
            return not_ready(CRD_OUTDATED, f"{text}. What runs is left as it is", CRD_OUTDATED)
        return not_ready("PolicyInvalid", f"{text}. What runs is left as it is")
    waiting = [row for row in operands if row["state"] == NOT_READY]
    failed = [_text(row) for row in waiting if row["reason"] == "ApplyFailed"]
    ours = f"/{seen.agent_name}"
    failed += [f"node agent: {why}" for key, why in seen.failures.items() if key.endswith(ours)]
    failed += [f"{key}: {why}" for key, why in _of_no_operand(plan, seen).items()]
    failed += seen.troubles
    if failed:
        ours_to_mend = any(INTERNAL in text for text in failed)
        return not_ready(INTERNAL_ERROR if ours_to_mend else "ReconcileFailed", "; ".join(failed))
    refused = [_text(row) for row in waiting if row["reason"] in REFUSALS]
    if plan and plan.agent_refusal:
        refused.insert(0, f"node agent: {told(plan.agent_refusal)}")
    if refused:
        reason = INTERNAL_ERROR if plan and plan.bugs else "OperandRefused"
        return not_ready(reason, "; ".join(dict.fromkeys(refused)))
    if waiting:
        return not_ready("OperandNotReady", _joined(waiting))
    if hidden := _still_hidden(active, seen):
        why = f" ({hidden[0].silence})" if hidden[0].silence else ""
        listed = some(node.name for node in hidden)
        return not_ready("Discovering", f"{listed}: nobody has looked for GPUs there yet{why}")
    gpu_nodes = [node for node in seen.nodes if node.labels.get(names.GPU_PRESENT) == "true"]
    if not gpu_nodes:
        return _ready("NoGPUNodes", f"no node with an NVIDIA GPU is known{_and_undiscovered(seen)}")
    unknown = [node.name for node in gpu_nodes if node.name not in seen.gpu_nodes]
    if unknown:
        return not_ready("OperandNotReady", f"the node agent has not reported on {some(unknown)}")
    remarks = [row for row in operands if row["state"] == READY and row["message"]]
    text = f"every installed operand is ready on every node it belongs to{_and_undiscovered(seen)}"
    if plan and (unchecked := some({each.name for each in plan.unchecked if each.kind == SECRET})):
        text += (
            f"; whether these Secrets exist is not known, since the operator may not list any: {unchecked}"
        )
    if missing := [row["name"] for row in operands if row["state"] == NOT_IMPLEMENTED]:
        text += f"; not installed by this version: {', '.join(missing)}"
    return _ready("Reconciled", f"{text}; {_joined(remarks)}" if remarks else text)


def _of_no_operand(plan: Plan | None, seen: Observed) -> dict[str, str]:
    """What was to go and did not, and what is nobody's object: no row tells of it."""
    rows = [each.objects for each in plan.operands if each.enabled] if plan else []
    told = {f"{obj['kind']}/{obj['metadata']['name']}" for objects in rows for obj in objects}
    ours = f"/{seen.agent_name}"
    return {key: why for key, why in seen.failures.items() if key not in told and not key.endswith(ours)}


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


def not_ready(reason: str, message: str, ready_reason: str = "Error") -> tuple[Row, Row]:
    """`Error` is what the original gives as the reason of Ready=False; what it was is told by the other."""
    return (
        {"type": "Ready", "status": "False", "reason": ready_reason, "message": message},
        {"type": "Error", "status": "True", "reason": reason, "message": message},
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
    row = {"type": "Undiscovered", "status": "True", "reason": "DiscoveryKeptAway", "message": message}
    return [row]


_NODES_NAMED = 5


def _upgrade_condition(active: ActivePolicy, seen: Observed) -> list[Row]:
    """Nodes that wait for their driver, and why none of them may begin: no wait of weeks without a word."""
    if active.policy is None or not budget.asks_for_upgrades(active.policy):
        return []
    nodes = (
        DriverNode.of(
            node.name,
            node.labels,
            seen.gpu_nodes.get(node.name),
            cordoned=node.cordoned,
            ready=node.ready,
        )
        for node in seen.nodes
    )
    found = Budget.of(active.policy.spec.driver.upgrade_policy, [node for node in nodes if node])
    if not found.waiting:
        return []
    message = (
        f"{budget.explained(found)}; {_UPGRADES_BY_HAND}; next: {budget.next_step(found) or _BY_HAND_NEXT}"
    )
    reason = _UPGRADE_REASONS[found.held_back_by]
    type_ = names.UPGRADE_WAITING_CONDITION
    return [{"type": type_, "status": "True", "reason": reason, "message": message}]


_UPGRADE_REASONS = {
    budget.MAX_UNAVAILABLE: "MaxUnavailable",
    budget.MAX_PARALLEL: "MaxParallelUpgrades",
    "": "ByHand",
}
_UPGRADES_BY_HAND = "this version upgrades no driver by itself"
_BY_HAND_NEXT = "gpuready doctor, which says for each node how its driver is replaced"


def _restarts_condition(seen: Observed) -> list[Row]:
    """A roll-out that will not go on by itself: its nodes work as before, and one of them is why."""
    lost = {node.name: node.silence or "nobody speaks for it" for node in seen.nodes if node.silent}
    stop = RollOut(seen.gpu_nodes.values(), lost=lost).stop
    if stop is None:
        return []
    wait = "waits" if len(stop.waiting) == 1 else "wait"
    message = (
        f"{counted(len(stop.waiting), 'node')} {wait} to restart the container runtime "
        f"({some(stop.waiting)}): {stop.why}; next: gpuready doctor --node {stop.node}; the others go on "
        "once that node is mended, or has left the cluster"
    )
    type_ = names.RESTARTS_STOPPED_CONDITION
    return [{"type": type_, "status": "True", "reason": "RuntimeNotBack", "message": message}]


def _no_effect_condition(plan: Plan | None) -> list[Row]:
    if plan is None or not plan.without_effect:
        return []
    message = "; ".join(plan.without_effect)
    return [{"type": "NoEffect", "status": "True", "reason": "FieldsWithoutEffect", "message": message}]


def _joined(rows: Sequence[Row]) -> str:
    return "; ".join(_text(row) for row in rows)


def _text(row: Row) -> str:
    return f"{row['name']}: {row['message']}"
