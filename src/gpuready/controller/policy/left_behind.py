"""Objects of the original operator that the policy has no use for, and that nobody else would remove. Pure.

What it made and we want too is taken over where it is applied (kube/apply.py). Of the rest, only what is
known by name to belong to an operand goes: one that the policy has switched off, or that runs now without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.controller.policy.plan import Key, OperandPlan, Plan, key_of
from gpuready.errors import PolicyError
from gpuready.kube.apply import PREDECESSORS
from gpuready.operands import registry
from gpuready.operands.contract import ClusterView, Flavour, KubeObject, Operand

Object = Mapping[str, Any]


def left_behind(
    there: Iterable[Object], policies: Collection[str], policy: ClusterPolicy, view: ClusterView, plan: Plan
) -> list[tuple[str, Object]]:
    """(operand, its object): what goes, last operand first, DaemonSets before what they use.

    there      objects without our label, or their metadata with apiVersion and kind
    policies   uids of the cluster's ClusterPolicies: whom the original's objects belong to
    """
    made = {key_of(obj): obj for obj in there if is_originals(obj, policies)}
    unwanted: list[tuple[str, Object]] = []
    for operand in reversed(registry.OPERANDS):
        planned = next((each for each in plan.operands if each.operand.name == operand.name), None)
        if planned is not None and planned.refusal is None:
            keys = _names_of(operand, policy, view) - plan.keys
            found = _daemonsets_first([made[key] for key in made if key in keys], planned)
            unwanted += [(operand.name, obj) for obj in found]
    return unwanted


def is_originals(obj: Object, policies: Collection[str]) -> bool:
    """Written by it, and for one of these policies: a user's object is never both."""
    meta = obj["metadata"]
    owned = any(
        owner.get("controller") and owner["kind"] == names.CLUSTER_POLICY_KIND and owner["uid"] in policies
        for owner in meta.get("ownerReferences") or ()
    )
    writers = {each.get("manager") for each in meta.get("managedFields") or () if not each.get("subresource")}
    ours = names.OPERAND_LABEL in (meta.get("labels") or {})
    return owned and not ours and bool(writers & PREDECESSORS) and not meta.get("deletionTimestamp")


def _names_of(operand: Operand, policy: ClusterPolicy, view: ClusterView) -> set[Key]:
    """Of everything that the original makes for it, whether the policy wants it or not."""
    try:
        objects: Sequence[KubeObject] = operand.original(policy, view) if operand.original else ()
    except PolicyError:
        return set()
    return {key_of(obj) for obj in objects}


def _daemonsets_first(objects: list[Object], plan: OperandPlan) -> list[Object]:
    """Nothing of what runs goes before its successor is planned: a driver waits until its nodes are known."""
    runs_original = plan.flavour is Flavour.ORIGINAL or (plan.enabled and plan.operand.external)
    if runs_original and not any(obj["kind"] == "DaemonSet" for obj in plan.objects):
        return []
    return sorted(objects, key=lambda obj: (obj["kind"] != "DaemonSet", obj["kind"]))
