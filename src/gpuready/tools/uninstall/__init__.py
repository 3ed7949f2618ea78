"""`gpuready uninstall`: removes the policy and waits until the operator has taken everything back.

It does no cleaning itself: the operator and the node agents do, and they must still be there. Whoever removes
the operator next (helm, a person) leaves a clean cluster behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuready import names
from gpuready.errors import UsageError
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import NotFound
from gpuready.kube.resources import CLUSTER_POLICIES, CRDS, DAEMONSETS, GPU_NODES, NODES, Resource
from gpuready.tools.terminal import printable
from gpuready.tools.uninstall import operator

TIMEOUT_S = 240.0
_LOOK_AGAIN_S = 0.5
_STANDSTILL_S = 5.0
# An operator that runs beside the cluster shows neither pod nor Lease, but it takes things away meanwhile.
_NEXT = (
    "next  see that the operator runs, and why it waits: "
    "kubectl get events -A --field-selector reason=UninstallIncomplete"
)
Object = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Left:
    """What still stands in the way of an end."""

    policies: tuple[str, ...] = ()  # of others: one of them is in force now
    gpu_nodes: tuple[str, ...] = ()
    daemonsets: tuple[str, ...] = ()
    labelled: tuple[str, ...] = ()  # nodes with labels of ours
    namespace: str = ""  # of the DaemonSets, and so the operator's

    @property
    def is_clean(self) -> bool:
        return not (self.gpu_nodes or self.daemonsets or self.labelled)

    def __str__(self) -> str:
        found = {"GPUNodes": self.gpu_nodes, "DaemonSets": self.daemonsets, "labels on": self.labelled}
        parts = [f"{what} {_few(names)}" for what, names in found.items() if names]
        return "; ".join(parts) or "nothing"


def run(
    policy: str = "",
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    timeout_s: float = TIMEOUT_S,
    crds: bool = False,
    if_there: bool = False,
    say: Say,
) -> int:
    """0 when nothing of ours is left, or another policy is in force; 1 when something is left after the time.

    policy   the ClusterPolicy to remove; "" = the only one there is
    crds     also delete the CRDs, and every object of theirs
    if_there   a name that no policy has is no mistake: who asks does not know
    raises   UsageError for a name that none of the policies has, or where one of several is to be chosen
    """
    return asyncio.run(_run(policy, kubeconfig, context, timeout_s, crds, if_there, say))


async def _run(
    policy: str,
    kubeconfig: str | None,
    context: str | None,
    timeout_s: float,
    crds: bool,
    if_there: bool,
    say: Say,
) -> int:
    async with KubeClient.auto(kubeconfig, context, user_agent="gpuready-cli") as client:
        name = await _policy_to_remove(client, policy, if_there=if_there)
        if name:
            await _delete(client, CLUSTER_POLICIES, name, say)
        left = await _wait_clean(client, timeout_s, say)
        if left.policies:
            say(f"ClusterPolicy {_few(left.policies)} stays, and with it everything that it asks for")
            return 0
        if not left.is_clean:
            say(f"still there after {timeout_s:g} s: {printable(str(left))}")
            for line in [_NEXT] if await operator.may_run(client) else operator.recipe(left.namespace):
                say(line)
            return 1
        if crds:
            await _delete_crds(client, say)
    say("nothing of gpuready is left on any node")
    return 0


async def _policy_to_remove(client: KubeClient, asked: str, *, if_there: bool) -> str:
    """The one that is named, or the only one; "" where there is none at all.

    Where there is none, a name is no mistake: somebody asks again, to see the rest go.
    """
    found = sorted(str(each["metadata"]["name"]) for each in await _list(client, CLUSTER_POLICIES))
    if asked and found and asked not in found and not if_there:
        raise UsageError(
            f"there is no ClusterPolicy {asked}",
            why=f"the ClusterPolicies are {', '.join(found)}",
            next_step=f"gpuready uninstall {found[0]}",
        )
    if not asked and len(found) > 1:
        raise UsageError(
            f"there are {len(found)} ClusterPolicies: {', '.join(found)}",
            next_step="name the one to remove: gpuready uninstall NAME",
        )
    return asked or (found[0] if found else "")


async def _wait_clean(client: KubeClient, timeout_s: float, say: Say) -> Left:
    deadline, told, namespace = time.monotonic() + timeout_s, "", ""
    patience = deadline
    while True:
        left = await look(client)
        namespace = left.namespace or namespace
        left = replace(left, namespace=namespace)
        if left.policies or left.is_clean or time.monotonic() > deadline:
            return left
        if str(left) != told:
            told, patience = str(left), time.monotonic() + _STANDSTILL_S
            say(f"waiting for {printable(told)}")
        elif time.monotonic() > patience:
            patience = deadline  # said once for each standstill
            if not await operator.may_run(client):
                say(operator.NOBODY)
                say("this goes on waiting; to end it: Ctrl-C, and then")
                for line in operator.recipe(namespace):
                    say(line)
        await asyncio.sleep(_LOOK_AGAIN_S)


async def look(client: KubeClient) -> Left:
    """A policy that is being deleted is gone for the operator, and so for us.

    The labels go last, so the nodes, of which there may be thousands, are read when all else is gone.
    """
    policies = [each for each in await _list(client, CLUSTER_POLICIES) if not _is_going(each)]
    daemonsets = await _list(client, DAEMONSETS, labels=names.OPERAND_LABEL)
    left = Left(
        policies=_names(policies),
        gpu_nodes=_names(await _list(client, GPU_NODES)),
        daemonsets=_names(daemonsets),
        namespace=daemonsets[0]["metadata"]["namespace"] if daemonsets else "",
    )
    if left.policies or not left.is_clean:
        return left
    return Left(labelled=_names([node for node in await _list(client, NODES) if _is_labelled(node)]))


async def _list(client: KubeClient, resource: Resource, *, labels: str = "") -> list[Object]:
    """Empty when the kind is not served: its CRD is gone, and all its objects with it."""
    try:
        return (await client.list(resource, label_selector=labels))[0]
    except NotFound:
        return []


async def _delete(client: KubeClient, resource: Resource, name: str, say: Say) -> None:
    try:
        await client.delete(resource, name)
    except NotFound:
        say(f"{resource.kind} {name} is not there")
        return
    say(f"{resource.kind} {name} deleted")


async def _delete_crds(client: KubeClient, say: Say) -> None:
    for resource in (CLUSTER_POLICIES, GPU_NODES):
        await _delete(client, CRDS, f"{resource.plural}.{resource.group}", say)


def _is_labelled(node: Mapping[str, Any]) -> bool:
    ours = (names.CONTROLLER_LABELS_ANNOTATION, names.AGENT_LABELS_ANNOTATION)
    return any(key in (node["metadata"].get("annotations") or {}) for key in ours)


def _is_going(obj: Mapping[str, Any]) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def _names(objects: list[Object]) -> tuple[str, ...]:
    return tuple(sorted(str(each["metadata"]["name"]) for each in objects))


def _few(found: tuple[str, ...]) -> str:
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return ", ".join(found[:5]) + more
