"""A taint keeps an operand's pod off its node: node, policy and tools say so in the same words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpuready.chain.device_plugin import Problem
from gpuready.chain.reporting import toleration_for

REASON = "OperandKeptAway"


def kept_away(operand: str, daemonset: str, taints: Sequence[str]) -> Problem:
    """taints: as "key=value:Effect", those that the DaemonSet does not tolerate."""
    tolerations = "; ".join(toleration_for(taint) for taint in taints)
    return Problem(
        REASON,
        f"the {operand} cannot run here: DaemonSet {daemonset} does not tolerate {', '.join(taints)}",
        f"add to spec.daemonsets.tolerations of the ClusterPolicy: {tolerations}",
    )
