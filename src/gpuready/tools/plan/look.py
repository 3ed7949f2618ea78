"""What the plan looks at: the objects that the operator's caches hold, and the pods on the nodes, read once.

Only GET requests are sent. Without a cluster, nodes come from a file and nothing else is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from gpuready import names
from gpuready.controller.caches import OWNED_KINDS
from gpuready.controller.nfd import is_nfd_worker
from gpuready.controller.nodes.summary import GPUNodeSummary, decode_gpunode
from gpuready.controller.policy.plan import Key, key_of
from gpuready.errors import UsageError
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import Forbidden, NotFound
from gpuready.kube.resources import (
    CLUSTER_POLICIES,
    CONFIGMAPS,
    CONTROLLER_REVISIONS,
    CRDS,
    DAEMONSETS,
    DEPLOYMENTS,
    GPU_NODES,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICE_MONITORS,
    Resource,
    resource_of,
)
from gpuready.kube.trimmed import Node, decode_node
from gpuready.operands.node_agent import manifest as node_agent
from gpuready.tools.files import Beside

Object = dict[str, Any]
OWN_IMAGE = f"{names.OWN_IMAGE}:{names.VERSION}"


@dataclass(frozen=True)
class Look:
    """The cluster at one moment.

    owned       objects with an operand's label; foreign: objects without it that have the name of one of ours
    gpu_nodes   by name: the summary that the controller decides on; devices: what their status says of GPUs
    originals   metadata of objects without an operand's label, which the original may have made
    nfd_may_run as the operator judges it: False where only its labels are left
    existing    kind -> names of what pods may refer to; of a kind that is left out nothing is known
    pods        of the whole cluster, as they are
    crds        by name, those of our kinds and of ServiceMonitor
    image       that the operator gives to its own DaemonSets
    images      the operator's environment, for images that the policy leaves open
    lease       for which operators, ours and the original, wait; None when nobody ever did, or kept from us
    own_namespace   None when it is not there, or kept from us
    revisions   DaemonSet -> hash of its newest template, as its newest pods carry it
    offline     there is no cluster: nodes from a file
    """

    namespace: str
    image: str = OWN_IMAGE
    images: Mapping[str, str] = field(default_factory=dict)
    policies: Sequence[Object] = ()
    nodes: Sequence[Object] = ()
    gpu_nodes: Mapping[str, GPUNodeSummary] = field(default_factory=dict)
    devices: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    configmaps: Mapping[str, Object] = field(default_factory=dict)
    owned: Sequence[Object] = ()
    foreign: Sequence[Object] = ()
    originals: Sequence[Object] = ()
    nfd_may_run: bool = True
    existing: Mapping[str, Collection[str]] = field(default_factory=dict)
    pods: Sequence[Object] = ()
    crds: Mapping[str, Object] = field(default_factory=dict)
    lease: Object | None = None
    own_namespace: Object | None = None
    revisions: Mapping[str, str] = field(default_factory=dict)
    offline: bool = False

    @property
    def serves_service_monitors(self) -> bool:
        return name_of_crd(SERVICE_MONITORS) in self.crds

    def find_live(self, key: Key) -> Object | None:
        return self._by_key.get(key)

    @cached_property
    def own_pods(self) -> list[Object]:
        """Those of the operator's namespace."""
        return [pod for pod in self.pods if pod["metadata"].get("namespace") == self.namespace]

    def with_beside(self, beside: Beside) -> Look:
        """As it is once what stands in the policy's file is applied too."""
        existing = {kind: {*found, *beside.existing.get(kind, ())} for kind, found in self.existing.items()}
        return replace(self, configmaps={**self.configmaps, **beside.configmaps}, existing=existing)

    def namespaces_of_the_operator(self) -> list[str]:
        """Where its pods, or its operands', run when this namespace holds nothing of them; else none."""
        if any(obj["metadata"].get("namespace") for obj in self.owned):
            return []
        found = {
            pod["metadata"].get("namespace", "") for pod in self.pods if _is_the_operators(pod["metadata"])
        }
        return [] if self.namespace in found else sorted(found)

    @cached_property
    def _by_key(self) -> dict[Key, Object]:
        return {key_of(obj): obj for obj in (*self.foreign, *self.owned)}


def _is_the_operators(metadata: Mapping[str, Any]) -> bool:
    labels = metadata.get("labels") or {}
    return names.OPERAND_LABEL in labels or labels.get("app") == names.OPERATOR_APP


def name_of_crd(kind: Resource) -> str:
    return f"{kind.plural}.{kind.group}"


def decoded(nodes: Iterable[Object]) -> list[Node]:
    """As the controller's cache holds them."""
    return [decode_node(msgspec.json.encode(node)) for node in nodes]


async def gather(client: KubeClient, namespace: str, image: str = "") -> Look:
    """All lists at once.

    image    the operator's own, "" = as its Deployment says, or the one that its node agent has
    raises   ApiError when the server cannot be reached or refuses
    """
    originals, existing = await asyncio.gather(_unlabelled(client, namespace), _existing(client, namespace))
    deployments, policies, nodes, gpu_nodes, configmaps, pods, *owned = await asyncio.gather(
        _found(client, DEPLOYMENTS, namespace),
        _found(client, CLUSTER_POLICIES),
        _found(client, NODES),
        _found(client, GPU_NODES),
        _found(client, CONFIGMAPS, namespace),
        _found(client, PODS),
        *(_found(client, kind, namespace, names.OPERAND_LABEL) for kind in (*OWNED_KINDS, SERVICE_MONITORS)),
    )
    ours = [obj for each in owned for obj in each]
    env = _operator_env(deployments)
    summaries = [decode_gpunode(msgspec.json.encode(obj)) for obj in gpu_nodes]
    devices = {obj["metadata"]["name"]: (obj.get("status") or {}).get("devices") or () for obj in gpu_nodes}
    return Look(
        namespace=namespace,
        image=image or env.get("GPUREADY_IMAGE") or _image_of(ours) or OWN_IMAGE,
        images=env,
        policies=policies,
        nodes=nodes,
        gpu_nodes={summary.metadata.name: summary for summary in summaries},
        devices=devices,
        configmaps={obj["metadata"]["name"]: obj for obj in configmaps},
        owned=ours,
        originals=originals,
        nfd_may_run=any(map(is_nfd_worker, await _nfd(client))),
        existing={**existing, CONFIGMAPS.kind: {obj["metadata"]["name"] for obj in configmaps}},
        pods=pods,
        crds=await _crds(client),
        lease=await _find_if_allowed(client, LEASES, names.LEADER_LEASE, namespace),
        own_namespace=await _find_if_allowed(client, NAMESPACES, namespace, ""),
        revisions=await _revisions(client, namespace),
    )


async def check_namespace(client: KubeClient, look: Look) -> None:
    """Raises UsageError where the operator is elsewhere: a plan would be that of a second installation."""
    elsewhere = look.namespaces_of_the_operator()
    if not elsewhere:
        return
    there = await _find(client, NAMESPACES, look.namespace, "") is not None
    what = "nothing of the operator is in the namespace" if there else "there is no namespace"
    raise UsageError(
        f"{what} {look.namespace}",
        why=f"the operator's objects are in {', '.join(elsewhere)}",
        next_step=f"gpuready plan --namespace {elsewhere[0]} …",
    )


async def with_foreign(client: KubeClient, look: Look, wanted: Iterable[Object]) -> Look:
    """The same look, with objects that somebody else made under the names that are wanted."""
    missing = [obj for obj in wanted if look.find_live(key_of(obj)) is None]
    found = await asyncio.gather(*(_find(client, resource_of(obj), *_where(obj)) for obj in missing))
    return replace(look, foreign=[obj for obj in found if obj is not None])


def offline(nodes: Sequence[Object], namespace: str, image: str = "") -> Look:
    """A cluster that holds these nodes and nothing else.

    raises  UsageError for a node that no API server would have
    """
    try:
        decoded(nodes)
    except msgspec.ValidationError as exc:
        raise UsageError(
            "the file given with --nodes holds a node that cannot be read",
            why=str(exc),
            next_step="make it with: kubectl get nodes -o yaml > nodes.yaml",
        ) from exc
    return Look(namespace, image or OWN_IMAGE, nodes=nodes, offline=True)


def _operator_env(deployments: Iterable[Object]) -> dict[str, str]:
    """Literal values of the operator's container; none where it runs without a Deployment."""
    containers = [row for each in deployments for row in each["spec"]["template"]["spec"]["containers"]]
    for container in containers:
        if [*(container.get("command") or ()), *(container.get("args") or ())][:2] == [
            "gpuready",
            "operator",
        ]:
            return {row["name"]: row.get("value") or "" for row in container.get("env") or ()}
    return {}


def _image_of(owned: Iterable[Object]) -> str:
    """The node agent always runs the operator's own image."""
    for obj in owned:
        if key_of(obj)[::2] == ("DaemonSet", node_agent.DAEMONSET):
            return str(obj["spec"]["template"]["spec"]["containers"][0].get("image") or "")
    return ""


async def _found(
    client: KubeClient, resource: Resource, namespace: str = "", labels: str = ""
) -> list[Object]:
    """Nothing where the API server does not know the kind: its CRD is not installed yet."""
    try:
        where = namespace if resource.namespaced and namespace else None
        items, _ = await client.list(resource, where, label_selector=labels)
    except NotFound:
        return []
    return items


async def _nfd(client: KubeClient) -> list[Object]:
    selectors = names.NFD_SELECTORS
    found = await asyncio.gather(*(_found(client, DAEMONSETS, labels=each) for each in selectors))
    return [obj for each in found for obj in each]


async def _unlabelled(client: KubeClient, namespace: str) -> list[Object]:
    """Whatever of our kinds is not ours, in short; the operator looks for the original's among them."""
    found = await asyncio.gather(
        *(
            _metadata(client, kind, namespace, f"!{names.OPERAND_LABEL}")
            for kind in (*OWNED_KINDS, SERVICE_MONITORS)
        )
    )
    return [obj for each in found for obj in each or ()]


async def _existing(client: KubeClient, namespace: str) -> dict[str, set[str]]:
    """Without the right to list a kind, nothing is known of it."""
    kinds = (SECRETS, PRIORITY_CLASSES)
    found = await asyncio.gather(*(_metadata(client, kind, namespace) for kind in kinds))
    return {
        kind.kind: {obj["metadata"]["name"] for obj in rows}
        for kind, rows in zip(kinds, found, strict=True)
        if rows is not None
    }


async def _metadata(
    client: KubeClient, resource: Resource, namespace: str, labels: str = ""
) -> list[Object] | None:
    try:
        return await client.list_metadata(resource, namespace if resource.namespaced else None, labels)
    except (NotFound, Forbidden):
        return None


async def _crds(client: KubeClient) -> dict[str, Object]:
    """One by one: all CRDs of a cluster are many megabytes. Without the right to read them, none."""
    found = {}
    for kind in (CLUSTER_POLICIES, GPU_NODES, SERVICE_MONITORS):
        try:
            found[name_of_crd(kind)] = await client.get(CRDS, name_of_crd(kind))
        except (NotFound, Forbidden):
            continue
    return found


async def _revisions(client: KubeClient, namespace: str) -> dict[str, str]:
    """Without the right to list them, none."""
    try:
        found, _ = await client.list(CONTROLLER_REVISIONS, namespace)
    except (NotFound, Forbidden):
        return {}
    newest: dict[str, tuple[int, str]] = {}
    for each in found:
        meta = each["metadata"]
        row = int(each.get("revision") or 0), str((meta.get("labels") or {}).get(_REVISION_LABEL) or "")
        for owner in meta.get("ownerReferences") or ():
            newest[owner["name"]] = max(newest.get(owner["name"], row), row)
    return {name: revision for name, (_, revision) in newest.items()}


_REVISION_LABEL = "controller-revision-hash"


def is_outdated(pod: Mapping[str, Any], revision: str) -> bool:
    """It was made of an earlier template than the one with this hash; "" = not known."""
    had = (pod["metadata"].get("labels") or {}).get(_REVISION_LABEL, "")
    return bool(revision and had and had != revision)


def _where(obj: Object) -> tuple[str, str]:
    _, namespace, name = key_of(obj)
    return name, namespace


async def _find(client: KubeClient, resource: Resource, name: str, namespace: str) -> Object | None:
    try:
        return await client.get(resource, name, namespace or None)
    except NotFound:
        return None


async def _find_if_allowed(
    client: KubeClient, resource: Resource, name: str, namespace: str
) -> Object | None:
    """What only says more: who may not read it gets his plan all the same."""
    try:
        return await _find(client, resource, name, namespace)
    except Forbidden:
        return None
