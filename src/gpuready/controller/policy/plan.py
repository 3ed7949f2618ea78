"""Which objects should exist, operand by operand. Pure.

Every object carries the operand's label (what to prune is found by it) and, except for the node agent's and
those of daemons that undo their work on hosts, a controller reference to the policy, so that garbage
collection removes it with the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.controller.policy.active import ActivePolicy
from gpuready.controller.policy.image_names import find_unusable_image
from gpuready.controller.policy.references import Reference, find_missing, references_of
from gpuready.errors import PolicyError
from gpuready.operands import registry, site
from gpuready.operands.contract import ClusterView, Flavour, KubeObject, Operand, Refusal
from gpuready.operands.node_agent import manifest as node_agent

Key = tuple[str, str, str]  # kind, namespace, name


@dataclass(frozen=True)
class OperandPlan:
    """
    flavour   whose objects; None for one that is switched off
    bug       what our own code raised: then it is refused, and what runs of it is left as it is
    """

    operand: Operand
    enabled: bool
    flavour: Flavour | None = None
    objects: tuple[KubeObject, ...] = ()
    refusal: Refusal | None = None
    bug: Exception | None = None


@dataclass(frozen=True)
class Plan:
    """Node agent first, then the operands in the registry's order.

    not_implemented   what the policy enables and nobody's program here does
    without_effect    "spec.psp: deprecated, …": fields that say something and change nothing
    agent_refusal     why the node agent's DaemonSet is not among its objects
    bugs              what our own code raised, by whom it was about
    referred_to       names of ConfigMaps, Secrets and PriorityClasses that pods need, there or not
    unchecked         those of them of which we cannot see whether they are there
    """

    agent: tuple[KubeObject, ...]
    operands: tuple[OperandPlan, ...]
    not_implemented: tuple[str, ...]
    without_effect: tuple[str, ...] = ()
    agent_refusal: Refusal | None = None
    bugs: tuple[tuple[str, Exception], ...] = ()
    referred_to: frozenset[str] = frozenset()
    unchecked: tuple[Reference, ...] = ()

    @property
    def objects(self) -> list[KubeObject]:
        return [*self.agent, *(obj for plan in self.operands for obj in plan.objects)]

    @property
    def batches(self) -> list[Sequence[KubeObject]]:
        """`objects` by operand: those of one belong into their order, operands wait for no other."""
        return [self.agent, *(plan.objects for plan in self.operands if plan.objects)]

    @property
    def keys(self) -> set[Key]:
        return {key_of(obj) for obj in self.objects}

    @property
    def refusals(self) -> dict[str, Refusal]:
        """By operand: why we cannot run it as asked."""
        return {plan.operand.name: plan.refusal for plan in self.operands if plan.refusal}

    @property
    def refused(self) -> set[str]:
        """Of these, what runs is left as it is."""
        return set(self.refusals)


def plan_of(
    active: ActivePolicy, policy: ClusterPolicy, view: ClusterView, heirs: Sequence[Mapping[str, Any]] = ()
) -> Plan:
    """Everything that the policy leads to in this cluster.

    heirs   the policies that wait for their turn. They own the objects too: when the policy in force goes,
            garbage collection leaves to the next one what it would only have to make again.
    """
    owners = [_owner(active.raw["metadata"], controller=True)]
    owners += [_owner(heir["metadata"], controller=False) for heir in heirs]
    agent, agent_bug = _agent_objects(active.name, policy, view)
    operands = tuple(
        _operand_plan(operand, active.name, owners, policy, view)
        for operand in registry.OPERANDS
        if not _is_nobodys(operand, policy)
    )
    objects = [*agent, *(obj for each in operands for obj in each.objects)]
    made = {key_of(obj)[::2] for obj in objects}

    def refusal_of(objects: Iterable[KubeObject]) -> Refusal | None:
        spec = active.raw.get("spec") or {}
        return find_unusable_image(objects, spec) or find_missing(objects, spec, view, made)

    agent_refusal = Refusal.of_bug(agent_bug) if agent_bug else refusal_of(agent)
    bugs = [(each.operand.name, each.bug) for each in operands if each.bug]
    references = {each for obj in objects for each in references_of(obj)}
    return Plan(
        agent=tuple(obj for obj in agent if not (agent_refusal and obj["kind"] == "DaemonSet")),
        operands=tuple(_held_back(each, refusal_of(each.objects)) for each in operands),
        not_implemented=tuple(_not_implemented(policy)),
        without_effect=tuple(registry.fields_without_effect(policy, service_monitors=view.service_monitors)),
        agent_refusal=agent_refusal,
        bugs=(*bugs, *([(node_agent.NAME, agent_bug)] if agent_bug else [])),
        referred_to=frozenset(each.name for each in references),
        unchecked=tuple(sorted(each for each in references if each.kind not in view.existing)),
    )


def _agent_objects(
    name: str, policy: ClusterPolicy, view: ClusterView
) -> tuple[list[KubeObject], Exception | None]:
    try:
        built = node_agent.objects(policy, view)
        return [_marked(site.fitted(obj, policy), node_agent.NAME, name) for obj in built], None
    except Exception as exc:  # a mistake of ours here must not keep the operands from being seen to
        return [], exc


def _held_back(plan: OperandPlan, refusal: Refusal | None) -> OperandPlan:
    """New pods would not start, and the old ones be gone: what runs is left as it is."""
    return replace(plan, objects=(), refusal=refusal) if refusal else plan


def key_of(obj: Mapping[str, Any]) -> Key:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]


def _is_nobodys(operand: Operand, policy: ClusterPolicy) -> bool:
    """Wanted, but we have no program for it and the policy names no image."""
    try:
        return operand.enabled(policy) and operand.flavour(policy) is None
    except Exception:  # told where its objects are built
        return False


def _not_implemented(policy: ClusterPolicy) -> list[str]:
    operands = [operand.name for operand in registry.OPERANDS if _is_nobodys(operand, policy)]
    return operands + [planned.name for planned in registry.NOT_IMPLEMENTED if planned.enabled(policy)]


def _operand_plan(
    operand: Operand, name: str, owners: list[KubeObject], policy: ClusterPolicy, view: ClusterView
) -> OperandPlan:
    """One that our own code cannot plan is refused; the others are planned all the same."""
    try:
        return _built(operand, name, owners, policy, view)
    except Exception as exc:
        return OperandPlan(operand, enabled=True, refusal=Refusal.of_bug(exc), bug=exc)


def _built(
    operand: Operand, name: str, owners: list[KubeObject], policy: ClusterPolicy, view: ClusterView
) -> OperandPlan:
    enabled = operand.enabled(policy)
    if not enabled and operand.name not in view.leaving:
        return OperandPlan(operand, enabled=False)
    flavour = operand.flavour(policy)
    if refusal := operand.refusal(policy):
        return OperandPlan(operand, enabled, flavour, refusal=refusal)
    try:
        built = operand.objects(policy, view)
    except PolicyError as exc:  # this one only: the others are built all the same
        return OperandPlan(operand, enabled, flavour, refusal=Refusal.of(exc))
    objects = [_marked(site.fitted(obj, policy), operand.name, name) for obj in built]
    if not operand.outlives_policy(flavour):
        objects = [_owned(obj, owners) for obj in objects]
    return OperandPlan(operand, enabled, flavour, tuple(objects))


def _marked(obj: KubeObject, operand: str, policy_name: str) -> KubeObject:
    metadata = dict(obj["metadata"])
    metadata["labels"] = {
        **metadata.get("labels", {}),
        names.OPERAND_LABEL: operand,
        names.OWNER_LABEL: policy_name,
    }
    return {**obj, "metadata": metadata}


def _owned(obj: KubeObject, owners: list[KubeObject]) -> KubeObject:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": owners}}


def _owner(metadata: Mapping[str, Any], *, controller: bool) -> KubeObject:
    return {
        "apiVersion": names.CLUSTER_POLICY_API,
        "kind": names.CLUSTER_POLICY_KIND,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": controller,
        "blockOwnerDeletion": controller,
    }
