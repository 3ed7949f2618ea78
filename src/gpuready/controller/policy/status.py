"""ClusterPolicy.status from what was planned and what is there. Pure.

Ready means: every operand of the registry is ready on every node it belongs to. What the policy enables and
this version has no code for is listed as NotImplemented; it does not hold up the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuready import names
from gpuready.chain.wording import bounded
from gpuready.controller.fleet import held_up_by
from gpuready.controller.policy.active import ActivePolicy
from gpuready.controller.policy.conditions import CRD_OUTDATED, conditions_of, not_ready
from gpuready.controller.policy.observed import Observed
from gpuready.controller.policy.operand_rows import (
    NOT_READY,
    READY,
    Row,
    not_implemented_row,
    operand_row,
    rows_of_what_runs,
)
from gpuready.controller.policy.plan import Plan
from gpuready.operands.contract import INTERNAL_ERROR

IGNORED = "ignored"
APPLYING = "Applying"


def status_of(active: ActivePolicy, plan: Plan | None, seen: Observed, namespace: str, now: str) -> Row:
    """The whole status; conditions keep the time of their last change (see `carried_times`)."""
    were_ready = _ready_operands(active)
    operands = (
        [operand_row(each, seen, was_ready=each.operand.name in were_ready) for each in plan.operands]
        if plan
        else rows_of_what_runs(seen)
    )
    operands += [not_implemented_row(name) for name in (plan.not_implemented if plan else ())]
    conditions = conditions_of(active, plan, operands, seen)
    for condition in conditions:
        condition["observedGeneration"] = active.generation
        condition["lastTransitionTime"] = now
    status = {
        "state": READY if conditions[0]["status"] == "True" else NOT_READY,
        "namespace": namespace,
        "observedGeneration": active.generation,
        "operands": operands,
        "nodes": _nodes_row(seen),
        "conditions": conditions,
    }
    return _finished(status, active.raw.get("status") or {})


def _ready_operands(active: ActivePolicy) -> set[str]:
    rows = (active.raw.get("status") or {}).get("operands") or ()
    return {row["name"] for row in rows if row.get("state") == READY and row.get("enabled")}


def status_of_bug(active: ActivePolicy, namespace: str, message: str, now: str) -> Row:
    """What is so now could not be worked out."""
    return _meanwhile(active, namespace, INTERNAL_ERROR, message, now)


def status_while_applying(active: ActivePolicy, namespace: str, waited_for: str, now: str) -> Row:
    """What the text of this generation comes to is not known before the API server has answered."""
    message = (
        f"generation {active.generation} is being applied: the API server has not answered yet about "
        f"{waited_for}"
    )
    return _meanwhile(active, namespace, APPLYING, message, now)


def _meanwhile(active: ActivePolicy, namespace: str, reason: str, message: str, now: str) -> Row:
    """The last status, not ready."""
    before = active.raw.get("status") or {}
    conditions = not_ready(reason, message)
    for condition in conditions:
        condition.update(observedGeneration=active.generation, lastTransitionTime=now)
    known = {key: before[key] for key in ("operands", "nodes") if key in before}
    status = {
        **known,
        "state": NOT_READY,
        "namespace": namespace,
        "observedGeneration": active.generation,
        "conditions": list(conditions),
    }
    return _finished(status, before)


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
    return _finished(status, raw.get("status") or {})


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
_TO_BE_SAID = (CRD_OUTDATED, "PolicyInvalid", "ReconcileFailed", "OperandRefused", INTERNAL_ERROR)


def new_problem(before: Row, after: Row) -> Row | None:
    """The Error condition when it says something new that needs a person."""
    was, now = _error_row(before), _error_row(after)
    changed = (was.get("reason"), was.get("message")) != (now.get("reason"), now.get("message"))
    return now if changed and now.get("reason") in _TO_BE_SAID else None


def _error_row(status: Mapping[str, Any]) -> Row:
    return next((row for row in status.get("conditions") or () if row["type"] == "Error"), {})


def _finished(status: Row, before: Mapping[str, Any]) -> Row:
    """No text of it is longer than a condition's may be."""
    for part in ("conditions", "operands"):
        if part in status:
            status[part] = [_with_bounded_message(row) for row in status[part]]
    return carried_times(status, before)


def _with_bounded_message(row: Mapping[str, Any]) -> Row:
    return {**row, "message": bounded(row["message"])} if "message" in row else dict(row)


def carried_times(status: Row, before: Mapping[str, Any]) -> Row:
    """The same status with `lastTransitionTime` of every condition whose status did not change."""
    times = {row["type"]: row for row in before.get("conditions") or ()}
    for condition in status["conditions"]:
        old = times.get(condition["type"])
        if old and old.get("status") == condition["status"] and old.get("lastTransitionTime"):
            condition["lastTransitionTime"] = old["lastTransitionTime"]
    return status


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
