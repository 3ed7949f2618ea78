"""Which node gets a pod, and the sentence when none does. Pure.

Source of the wording: kubernetes, pkg/scheduler/framework/types.go (FitError), preemption.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuready_sim.controllers.scheduler.fit import NodeState, Refusal, refusal

SCHEDULER_NAME = "default-scheduler"
NO_NODES = "no nodes available to schedule pods"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Choice:
    node: str | None
    message: str = ""


def choose(pod: Object, states: Sequence[NodeState]) -> Choice:
    """The node with the largest free share of cpu and memory; equal ones by name."""
    refused: list[Refusal] = []
    fitting: list[NodeState] = []
    for state in states:
        found = refusal(pod, state, states)
        if found is None:
            fitting.append(state)
        else:
            refused.append(found)
    if fitting:
        return Choice(min(fitting, key=lambda s: (-_free_share(s), s.name)).name)
    return Choice(None, no_fit_message(refused))


def no_fit_message(refused: Sequence[Refusal]) -> str:
    """One refusal for each node of the cluster."""
    if not refused:
        return NO_NODES
    head = _counted(len(refused), (reason for one in refused for reason in one.reasons))
    tail = _counted(len(refused), (NOT_HELPFUL if one.final else NO_VICTIMS for one in refused))
    return f"{head} preemption: {tail}"


def _counted(nodes: int, reasons: Iterable[str]) -> str:
    parts = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f"0/{nodes} nodes are available: {', '.join(parts)}."


def _free_share(state: NodeState) -> float:
    shares = [
        float(state.free[name] / state.allocatable[name])
        for name in ("cpu", "memory")
        if state.allocatable.get(name)
    ]
    # Two decimals: pods that ask for next to nothing should not make the order look random.
    return round(sum(shares) / len(shares), 2) if shares else 0.0


def is_waiting(pod: Object) -> bool:
    """A pod that this scheduler must place."""
    spec, meta = pod["spec"], pod["metadata"]
    return (
        not spec.get("nodeName")
        and not meta.get("deletionTimestamp")
        and (spec.get("schedulerName") or SCHEDULER_NAME) == SCHEDULER_NAME
        and not spec.get("schedulingGates")
        and (pod.get("status") or {}).get("phase", "Pending") == "Pending"
    )


def queue_order(pod: Object) -> tuple[int, str, str]:
    """Priority first, then age, then name."""
    meta = pod["metadata"]
    return -(pod["spec"].get("priority") or 0), meta.get("creationTimestamp", ""), meta["name"]


def counts(pod: Object) -> bool:
    """Whether a bound pod still takes up resources of its node."""
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
