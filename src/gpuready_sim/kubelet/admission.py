"""Whether a pod fits the node, asked by the kubelet itself after its devices were allocated. Pure.

Source: kubernetes v1.36, pkg/kubelet/lifecycle/predicate.go and pkg/kubelet/cm/admission.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpuready_sim.kubelet.quantities import is_extended_resource_name, parse_quantity, pod_requests


@dataclass(frozen=True)
class Rejection:
    """Why a pod is Failed before it ran."""

    reason: str
    message: str


def of_allocation(text: str) -> Rejection:
    """The device manager refused."""
    return Rejection("UnexpectedAdmissionError", f"Allocate failed due to {text}, which is unexpected")


def judge(
    pod: Mapping[str, Any],
    others: Iterable[Mapping[str, Any]],
    allocatable: Mapping[str, Any],
    held: Mapping[str, int],
) -> Rejection | None:
    """None when the pod fits beside the others.

    allocatable  as the Node says
    held         devices in use by resource: allocatable counts as at least that much, so that pods which
                 run already survive a restart while their plugin is away
    """
    used: dict[str, Decimal] = {}
    others = list(others)
    for other in others:
        for name, amount in pod_requests(other).items():
            used[name] = used.get(name, Decimal(0)) + amount
    if len(others) + 1 > parse_quantity(allocatable.get("pods", 110)):
        limit = parse_quantity(allocatable["pods"])
        return _out_of("pods", Decimal(1), Decimal(len(others)), limit)
    for name, amount in pod_requests(pod).items():
        if is_extended_resource_name(name) and name not in allocatable:
            continue  # unknown to the node: not the node's business
        capacity = max(parse_quantity(allocatable.get(name, 0)), Decimal(held.get(name, 0)))
        taken = used.get(name, Decimal(0))
        if amount and taken + amount > capacity:
            return _out_of(name, amount, taken, capacity)
    return None


def _out_of(resource: str, requested: Decimal, used: Decimal, capacity: Decimal) -> Rejection:
    scale = 1000 if resource == "cpu" else 1
    numbers = [int(value * scale) for value in (requested, used, capacity)]
    return Rejection(
        f"OutOf{resource}",
        f"Node didn't have enough resource: {resource}, requested: {numbers[0]}, used: {numbers[1]}, "
        f"capacity: {numbers[2]}",
    )
