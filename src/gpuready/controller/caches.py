"""The caches that every loop of the controller reads; nothing else of the cluster is known to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from gpuready import names
from gpuready.controller.kept import decode_found_driver, decode_own_node, decode_own_pod
from gpuready.controller.nfd import is_nfd_worker
from gpuready.controller.nodes.summary import GPUNodeSummary, decode_gpunode
from gpuready.kube import resources
from gpuready.kube.cache import WatchCache
from gpuready.kube.client import KubeClient
from gpuready.kube.contact import Contact
from gpuready.kube.errors import Unreachable
from gpuready.kube.resources import Resource
from gpuready.kube.trimmed import Node, Pod
from gpuready.kube.wire import key_of
from gpuready.operands.driver.pools import COMPONENT, COMPONENT_LABEL

# The kinds our manifests use: hand edits on them are seen, and what is no longer wanted is found.
OWNED_KINDS: tuple[Resource, ...] = (
    resources.SERVICE_ACCOUNTS,
    resources.ROLES,
    resources.ROLE_BINDINGS,
    resources.CLUSTER_ROLES,
    resources.CLUSTER_ROLE_BINDINGS,
    resources.CONFIGMAPS,
    resources.SERVICES,
    resources.RUNTIME_CLASSES,
    resources.DAEMONSETS,
)
# And one that exists where Prometheus' operator is installed only.
SERVICE_MONITORS_CRD = f"{resources.SERVICE_MONITORS.plural}.{resources.SERVICE_MONITORS.group}"

AGENT, DRIVER = "node-agent", "driver"


def operand_of(pod: Pod) -> str:
    return pod.metadata.labels.get(names.OPERAND_LABEL, "")


def _nodes_of(operand: str, pod: Pod) -> list[str]:
    return _node_of(pod) if operand_of(pod) == operand else []


def _node_of(pod: Pod) -> list[str]:
    return [pod.node_name] if pod.node_name else []


class _Name(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    resource_version: str = ""


class Existing(msgspec.Struct):
    """All that is kept of an object: that it is there."""

    metadata: _Name


@dataclass(frozen=True)
class Caches:
    """One watch per kind; `owned` is keyed by kind ("DaemonSet").

    A kind that the server keeps from us stays unsynced: nobody may take it for empty, the rest goes on.

    service_monitor_crd   empty while the API server knows no ServiceMonitors; they are watched only then

    nfd        DaemonSets of node-feature-discovery, wherever in the cluster they are, one watch a selector
    secrets, priority_classes   what a policy may name and we only ask whether it exists

    own_pods   the node agent's and the driver's: the two whose absence their node cannot explain itself
    found_drivers   the driver's pods that the original made: they have no label of ours
    """

    namespace: str
    policies: WatchCache[dict[str, Any]]
    nodes: WatchCache[Node]
    gpu_nodes: WatchCache[GPUNodeSummary]
    own_pods: WatchCache[Pod]
    found_drivers: WatchCache[Pod]
    configmaps: WatchCache[dict[str, Any]]
    nfd: tuple[WatchCache[dict[str, Any]], ...]
    secrets: WatchCache[Existing]
    priority_classes: WatchCache[Existing]
    owned: Mapping[str, WatchCache[dict[str, Any]]]
    service_monitors: WatchCache[dict[str, Any]]
    service_monitor_crd: WatchCache[dict[str, Any]]
    own_namespace: WatchCache[dict[str, Any]]
    contact: Contact
    asks_for_secrets: bool = True

    @classmethod
    def of(cls, client: KubeClient, namespace: str, *, asks_for_secrets: bool = True) -> Caches:
        """`asks_for_secrets` is False where the operator is not to list the Secrets of its namespace."""
        contact = Contact()

        def owned_of(kind: Resource) -> WatchCache[dict[str, Any]]:
            return WatchCache(
                client,
                kind,
                namespace=namespace if kind.namespaced else None,
                label_selector=names.OPERAND_LABEL,
                contact=contact,
            )

        def existing(kind: Resource) -> WatchCache[Existing]:
            return WatchCache(
                client,
                kind,
                namespace=namespace if kind.namespaced else None,
                decode=msgspec.json.Decoder(Existing).decode,
                contact=contact,
                metadata_only=True,
            )

        own_pods = WatchCache(
            client,
            resources.PODS,
            namespace=namespace,
            label_selector=f"{names.OPERAND_LABEL} in ({AGENT},{DRIVER})",
            decode=decode_own_pod,
            contact=contact,
        )
        for operand in (AGENT, DRIVER):
            own_pods.add_index(operand, partial(_nodes_of, operand))
        found_drivers = WatchCache(
            client,
            resources.PODS,
            namespace=namespace,
            label_selector=f"{COMPONENT_LABEL}={COMPONENT},!{names.OPERAND_LABEL}",
            decode=decode_found_driver,
            contact=contact,
        )
        found_drivers.add_index(DRIVER, _node_of)
        return cls(
            namespace=namespace,
            policies=WatchCache(client, resources.CLUSTER_POLICIES, contact=contact),
            nodes=WatchCache(client, resources.NODES, decode=decode_own_node, contact=contact),
            gpu_nodes=WatchCache(client, resources.GPU_NODES, decode=decode_gpunode, contact=contact),
            own_pods=own_pods,
            found_drivers=found_drivers,
            configmaps=WatchCache(client, resources.CONFIGMAPS, namespace=namespace, contact=contact),
            nfd=tuple(
                WatchCache(client, resources.DAEMONSETS, label_selector=selector, contact=contact)
                for selector in names.NFD_SELECTORS
            ),
            secrets=existing(resources.SECRETS),
            priority_classes=existing(resources.PRIORITY_CLASSES),
            owned={kind.kind: owned_of(kind) for kind in OWNED_KINDS},
            service_monitors=owned_of(resources.SERVICE_MONITORS),
            service_monitor_crd=WatchCache(
                client,
                resources.CRDS,
                field_selector=f"metadata.name={SERVICE_MONITORS_CRD}",
                contact=contact,
            ),
            own_namespace=WatchCache(
                client,
                resources.NAMESPACES,
                field_selector=f"metadata.name={namespace}",
                contact=contact,
            ),
            contact=contact,
            asks_for_secrets=asks_for_secrets,
        )

    @property
    def all(self) -> list[WatchCache[Any]]:
        first: list[WatchCache[Any]] = [self.policies, self.nodes, self.gpu_nodes]
        last = [self.service_monitor_crd, self.own_namespace]
        first += [self.own_pods, self.found_drivers, self.configmaps, *self.nfd, self.priority_classes]
        first += [self.secrets] if self.asks_for_secrets else []
        return [*first, *self.owned.values(), *last]

    @property
    def needed(self) -> list[WatchCache[Any]]:
        """Not the names of Secrets: without them a missing one is told by its pod only."""
        return [cache for cache in self.all if cache is not self.secrets]

    @property
    def _watching(self) -> list[WatchCache[Any]]:
        """Not the look whether ServiceMonitors are served: who may not look has none, and the log says so."""
        needed = [cache for cache in self.needed if cache is not self.service_monitor_crd]
        return [*needed, *([self.service_monitors] if self.serves_service_monitors else [])]

    @property
    def serves_service_monitors(self) -> bool:
        return len(self.service_monitor_crd) > 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for cache in self.all:
                group.create_task(cache.run(), name=f"watch {cache.resource.plural}")
            group.create_task(self._watch_service_monitors(), name="watch servicemonitors")

    async def _watch_service_monitors(self) -> None:
        """Once they are served: before that, each look would only be refused."""
        served = asyncio.Event()
        self.service_monitor_crd.add_handler(lambda old, new: served.set() if new else None)
        await served.wait()
        await self.service_monitors.run()

    async def wait_answered(self) -> None:
        """Until every kind was listed or is kept from us."""
        for cache in self.all:
            await cache.wait_answered()
        if self.serves_service_monitors:
            await self.service_monitors.wait_answered()

    async def wait_synced(self) -> None:
        for cache in self.all:
            await cache.wait_synced()
        if self.serves_service_monitors:
            await self.service_monitors.wait_synced()

    @property
    def troubles(self) -> list[str]:
        """What cannot be read any more, or never could, in the server's words."""
        found = {cache.resource.plural: cache.trouble for cache in self._watching if cache.trouble}
        return [str(exc) for exc in found.values() if not isinstance(exc, Unreachable)]

    @property
    def synced(self) -> bool:
        return all(cache.synced for cache in self.all)

    def nfd_workers(self) -> list[dict[str, Any]]:
        """They look for GPUs; NFD's other parts do not."""
        every = (obj for cache in self.nfd for obj in cache.values() if is_nfd_worker(obj))
        found = {key_of(obj): obj for obj in every}
        return [found[key] for key in sorted(found)]

    @property
    def nfd_may_run(self) -> bool:
        """False where its labels are all that is left of it; who may not look believes the labels."""
        return not all(cache.synced for cache in self.nfd) or bool(self.nfd_workers())

    def agents_on(self, node: str) -> list[Pod]:
        return self.own_pods.by_index(AGENT, node)

    def drivers_on(self, node: str) -> list[Pod]:
        """Ours, and those of the original whose DaemonSet is ours by now."""
        found = self.found_drivers.by_index(DRIVER, node)
        taken_over = [pod for pod in found if self.find_owned("DaemonSet", self.namespace, pod.controller)]
        return [*self.own_pods.by_index(DRIVER, node), *taken_over]

    def driver_sets(self) -> list[dict[str, Any]]:
        """The driver's DaemonSets, one for each pool of nodes."""
        return [
            obj
            for obj in self.owned["DaemonSet"].values()
            if obj["metadata"]["labels"].get(names.OPERAND_LABEL) == DRIVER
        ]

    def find_owned(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        return self.cache_of(kind).get(f"{namespace}/{name}" if namespace else name)

    def cache_of(self, kind: str) -> WatchCache[dict[str, Any]]:
        """Of a kind that our manifests use."""
        return self.service_monitors if kind == resources.SERVICE_MONITORS.kind else self.owned[kind]

    def existing(self) -> dict[str, set[str]]:
        """Kind -> names of what pods may refer to; a kind that is kept from us is left out."""
        found: dict[str, WatchCache[Any]] = {
            "ConfigMap": self.configmaps,
            "Secret": self.secrets,
            "PriorityClass": self.priority_classes,
        }
        return {
            kind: {key.rpartition("/")[2] for key in cache.keys()}  # noqa: SIM118
            for kind, cache in found.items()
            if cache.synced
        }

    def of_objects(self) -> list[WatchCache[dict[str, Any]]]:
        """Those of the kinds that our manifests use and the server knows, in the order of the kinds."""
        found = [self.owned[kind.kind] for kind in OWNED_KINDS]
        return [*found, *([self.service_monitors] if self.serves_service_monitors else [])]

    def all_owned(self) -> list[dict[str, Any]]:
        """Every object of ours, in the order of the kinds."""
        return [obj for cache in self.of_objects() for obj in cache.values()]
