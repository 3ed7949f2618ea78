"""Which of our objects are no longer wanted, in the order in which they go. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from gpuready import names
from gpuready.chain.toolkit import LEAVING
from gpuready.chain.verdict import Link, State
from gpuready.controller.nodes.summary import GPUNodeSummary
from gpuready.controller.policy.plan import Key, key_of
from gpuready.operands import registry
from gpuready.operands.contract import Operand
from gpuready.operands.node_agent import manifest as node_agent

Object = Mapping[str, Any]
_UNDOING = tuple(operand for operand in registry.OPERANDS if operand.undoes)


def surplus(owned: Iterable[Object], wanted: set[Key], kept: Collection[str] = ()) -> list[Object]:
    """Objects with our label that the plan does not hold; the node agent's are never surplus to a policy.

    kept    operands whose objects stay whatever the plan holds
    """
    spared = {node_agent.NAME, *kept}
    return _reversed([obj for obj in owned if key_of(obj) not in wanted and operand_of(obj) not in spared])


def leftovers(owned: Iterable[Object], *, keep_agent: bool) -> list[Object]:
    """Everything of ours, the node agent last and only when nothing is left for it to do.

    Whoever undoes its work on hosts stays as long as the agent, which waits for that.
    """
    kept = {node_agent.NAME, *(operand.name for operand in _UNDOING)} if keep_agent else set()
    return [obj for obj in _reversed(list(owned)) if operand_of(obj) not in kept]


def leaving(gpu_nodes: Iterable[GPUNodeSummary]) -> frozenset[str]:
    """Operands whose work on the host some node still has, by what its chain says."""
    seen = list(gpu_nodes)
    return frozenset(operand.name for operand in _UNDOING if nodes_with_work_of(operand, seen))


def nodes_with_work_of(operand: Operand, gpu_nodes: Iterable[GPUNodeSummary]) -> list[str]:
    """Names of those that have not given back yet what this operand's daemon changed there."""
    link = operand.link
    return [each.metadata.name for each in gpu_nodes if _has_work_of(link, each)] if link else []


def _has_work_of(link: Link, summary: GPUNodeSummary) -> bool:
    row = summary.find_link(link)
    return row is not None and (row.state != State.NOT_CHECKED or row.reason == LEAVING)


def operand_of(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get(names.OPERAND_LABEL, ""))


def _reversed(objects: list[Object]) -> list[Object]:
    """Last operand first, as the chain is taken down from its end; DaemonSets before what they use."""
    order = {operand.name: place for place, operand in enumerate(registry.OPERANDS, start=1)}
    living = [obj for obj in objects if not obj["metadata"].get("deletionTimestamp")]
    return sorted(
        living,
        key=lambda obj: (-order.get(operand_of(obj), 0), obj["kind"] != "DaemonSet", obj["kind"]),
    )
