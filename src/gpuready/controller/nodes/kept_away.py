"""Which taint keeps an operand's pod off a node: the node itself sees only that no pod comes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuready.chain.kept_away import kept_away
from gpuready.kube.taints import taints_against_daemonset, taints_of
from gpuready.kube.trimmed import Node


def kept_away_from(
    node: Node, operand: str, name: str, daemonset: Mapping[str, Any] | None
) -> dict[str, str] | None:
    """{reason, message, nextStep}; None where a pod may come, or where there is no DaemonSet to ask."""
    if daemonset is None:
        return None
    found = sorted(taints_against_daemonset(taints_of(node.spec.taints), daemonset))
    if not found:
        return None
    problem = kept_away(operand, name, found)
    return {"reason": problem.reason, "message": problem.message, "nextStep": problem.next_step}


def tolerations_of(daemonset: Mapping[str, Any] | None) -> Any:
    return (daemonset or {}).get("spec", {}).get("template", {}).get("spec", {}).get("tolerations")
