"""Which pods hold which GPUs right now: asked of the kubelet only when there is a reason.

The gRPC library is imported at the first question: most agents never need it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuready import names
from gpuready.errors import GPUReadyError
from gpuready.gpu.tree import Tree
from gpuready.log import get_logger
from gpuready.node.root import Root

POD_LOGS = "/var/log/pods"
_PREFIX = "nvidia.com/"
log = get_logger("node-agent.holders")


@dataclass(frozen=True)
class Holding:
    """One pod with the ids of the devices it holds, all and by container.

    uid  "" where the node does not tell it
    """

    namespace: str
    name: str
    uid: str
    device_ids: tuple[str, ...]
    by_container: tuple[tuple[str, ...], ...] = ()

    @property
    def reference(self) -> dict[str, Any]:
        """What an Event needs to be about this pod."""
        meta = {"namespace": self.namespace, "name": self.name, "uid": self.uid}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


async def find_holders(root: Root) -> list[Holding]:
    """[] also when the kubelet does not answer: an Event on a pod is worth no more than that."""
    try:
        return await list_holders(root)
    except GPUReadyError as exc:
        log.warning("holders not known", socket=names.POD_RESOURCES_SOCKET, error=str(exc))
        return []


async def list_holders(root: Root) -> list[Holding]:
    """raises  PodResourcesUnavailable; the connection is closed in any case"""
    from gpuready.node.kubelet.pod_resources import PodResources

    held = await PodResources(root.join(names.POD_RESOURCES_SOCKET)).list()
    by_pod: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for holder, resources in held.items():
        ids = _gpu_ids(resources.items())
        if ids:
            by_pod.setdefault((holder.namespace, holder.pod), []).append(tuple(sorted(ids)))
    host = root.host()
    return [
        Holding(
            namespace,
            name,
            find_uid(host, namespace, name),
            tuple(sorted({id_ for ids in containers for id_ in ids})),
            tuple(containers),
        )
        for (namespace, name), containers in sorted(by_pod.items())
    ]


def find_uid(host: Tree, namespace: str, name: str) -> str:
    """The kubelet names a pod's log directory namespace_name_uid; pod-resources itself tells no uid."""
    prefix = f"{namespace}_{name}_"
    found = [entry for entry in host.names_in(POD_LOGS) if entry.startswith(prefix)]
    return _newest(host.resolve(POD_LOGS), found).removeprefix(prefix) if found else ""


def _newest(directory: Path, entries: list[str]) -> str:
    """A pod of the same name may have been there before."""
    return max(entries, key=lambda entry: (directory / entry).stat().st_mtime)


def _gpu_ids(resources: Iterable[tuple[str, tuple[str, ...]]]) -> set[str]:
    return {id_ for resource, ids in resources if resource.startswith(_PREFIX) for id_ in ids}
