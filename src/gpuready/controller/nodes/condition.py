"""The node condition GPUReady where the controller must touch it: Unknown for a silent node, and removal.

Of a silent node the table of GPUNodes says so too; what its links were last is kept. The agent that comes
back finds words there that are not its own, and writes its own again.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from gpuready import names
from gpuready.chain import summary
from gpuready.chain.wording import bounded
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import NotFound
from gpuready.kube.resources import GPU_NODES, NODES
from gpuready.kube.trimmed import Node

_SILENT = "AgentSilent"


def is_unknown(node: Node) -> bool:
    """The controller has said that nobody speaks for this node."""
    found = node.condition(names.GPU_READY_CONDITION)
    return found is not None and (found.status, found.reason) == ("Unknown", _SILENT)


def must_become_unknown(node: Node) -> bool:
    """Only a node that once had a verdict gets the Unknown: without one nobody can be misled by it."""
    return node.condition(names.GPU_READY_CONDITION) is not None and not is_unknown(node)


async def set_unknown(client: KubeClient, node: Node, why: str) -> None:
    """The node comes last: until it has the condition, both are told anew."""
    row = {"columns": summary.columns(()), "reason": _SILENT}
    with suppress(NotFound):
        await client.merge_patch(GPU_NODES, node.metadata.name, {"status": row}, subresource="status")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    unknown = {
        "type": names.GPU_READY_CONDITION,
        "status": "Unknown",
        "reason": _SILENT,
        "message": bounded(f"what was known of this node's GPUs may be out of date: {why}"),
        "lastTransitionTime": now,
        "lastHeartbeatTime": now,
    }
    await _patch(client, node, [unknown])


async def remove(client: KubeClient, node: Node) -> None:
    """Take the condition off the node; nothing is sent when it is not there."""
    if node.condition(names.GPU_READY_CONDITION) is not None:
        await _patch(client, node, [{"type": names.GPU_READY_CONDITION, "$patch": "delete"}])


async def _patch(client: KubeClient, node: Node, conditions: list[dict[str, str]]) -> None:
    # Conditions are a map by type, so the kubelet's own stay untouched.
    patch = {"status": {"conditions": conditions}}
    await client.strategic_patch(NODES, node.metadata.name, patch, subresource="status")
