"""Everything that a user can see of the product on a cluster, without what differs from run to run.

Times, versions and uids are no part of it; neither are names of pods, nor what a GPU went through.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.sim.operator_cluster import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    GPU_NODES,
    NAMESPACE,
    POLICIES,
    Object,
)

from gpuready_sim.client import (
    CONFIG_MAPS,
    DAEMON_SETS,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    NotFound,
    Resource,
)
from gpuready_sim.cluster.handle import Cluster

EndState = dict[str, Any]  # "nodes/l4" or "l4:/run/cdi/x.json" -> what is there

KINDS: Sequence[tuple[Resource, str | None]] = (
    (POLICIES, None),
    (GPU_NODES, None),
    (NODES, None),
    (DAEMON_SETS, NAMESPACE),
    (CONFIG_MAPS, NAMESPACE),
    (SERVICE_ACCOUNTS, NAMESPACE),
    (Resource("rbac.authorization.k8s.io", "v1", "roles", "Role"), NAMESPACE),
    (Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"), NAMESPACE),
    (Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False), None),
    (CLUSTER_ROLES, None),
    (CLUSTER_ROLE_BINDINGS, None),
)
PLACES = (
    "etc/cdi",
    "etc/containerd",
    "run/gpuready",
    "run/nvidia",
    "usr/local/nvidia",
    "var/lib/gpuready",
    "var/lib/kubelet/device-plugins",
    "var/run/cdi",
)
# Differs from run to run, or tells what a GPU has been through.
_PASSING = frozenset(
    {
        *("uid", "resourceVersion", "generation", "observedGeneration", "creationTimestamp", "managedFields"),
        *("lastTransitionTime", "lastHeartbeatTime", "heartbeat", "bootID", "bootId", "bootid", "time"),
        *("lastXid", "since", "startedAt", "deprecated.daemonset.template.generation", "pid", "updated"),
        *("gpuready.dev/digest", "restarts", "allocations"),  # the digest holds the policy's uid
    }
)
_PASSING_FILES = ("kubelet_internal_checkpoint", "toolkit.pid", "nvidia-driver.pid", "nvidia-driver.state")
_DRIVER_ROOT = "run/nvidia/driver/"
_TOOLKIT = "run/gpuready/records/toolkit.json"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")


async def end_state(cluster: Cluster, nodes: Sequence[str]) -> EndState:
    found: EndState = {}
    for resource, namespace in KINDS:
        found |= await _objects(cluster, resource, namespace)
    found["pods"] = await _pods(cluster)
    for node in nodes:
        root = cluster.node_root(node)
        found |= {f"{node}:/{path.relative_to(root)}": _content(path) for path in _files(root)}
        if ((found.get(f"{node}:/{_TOOLKIT}") or {}).get("problem") or {}).get("reason") == "WaitingForWish":
            del found[f"{node}:/{_TOOLKIT}"]  # the last words of one that has done its work
    return found


async def _objects(cluster: Cluster, resource: Resource, namespace: str | None) -> EndState:
    try:
        items, _ = await cluster.client.list(resource, namespace)
    except NotFound:
        return {}
    return {
        f"{resource.plural}/{item['metadata']['name']}": without_passing(_lasting(item)) for item in items
    }


def _lasting(item: Object) -> Object:
    """Without what tells of the past.

    A resource of which no plugin tells any more leaves the Node by itself, minutes later. Of a toolkit that
    was never there a GPUNode says nothing, and of one that was, that it is not wanted. A driver's pod that
    runs is not replaced when its template changes.
    """
    strategy = (item.get("spec") or {}).get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        item["status"].pop("updatedNumberScheduled", None)
    if item.get("kind") == "GPUNode" and item["spec"].get("toolkit") == {"enabled": False}:
        del item["spec"]["toolkit"]
    for amounts in (item.get("status") or {}).get("allocatable"), (item.get("status") or {}).get("capacity"):
        for name in [name for name in amounts or () if name.startswith("nvidia.com/")]:
            if item["status"]["allocatable"].get(name, "0") == "0":
                del amounts[name]
    return item


async def _pods(cluster: Cluster) -> dict[str, int]:
    """ "device-plugin on l4, Running, ready" -> how many."""
    pods, _ = await cluster.client.list(PODS, NAMESPACE)
    return dict(Counter(map(_shown, pods)))


def _shown(pod: Object) -> str:
    meta, status = pod["metadata"], pod.get("status") or {}
    operand = (meta.get("labels") or {}).get("gpuready.dev/operand") or meta["name"]
    is_ready = all(row.get("ready") for row in status.get("containerStatuses") or [{}])
    going = ", going" if meta.get("deletionTimestamp") else ""
    node = pod["spec"].get("nodeName")
    return f"{operand} on {node}, {status.get('phase')}{', ready' if is_ready else ''}{going}"


def without_passing(value: Any) -> Any:
    match value:
        case Mapping():
            return {k: without_passing(v) for k, v in sorted(value.items()) if k not in _PASSING}
        case list():
            return [without_passing(item) for item in value]
        case str():
            return _TIME.sub("TIME", value)
    return value


def _files(root: Path) -> Iterator[Path]:
    for place in PLACES:
        for path in sorted((root / place).rglob("*")):
            is_thing = path.is_symlink() or not path.is_dir()  # an empty directory is no leftover
            if is_thing and path.name not in _PASSING_FILES and _DRIVER_ROOT not in str(path):
                yield path


def _content(path: Path) -> Any:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    if path.is_socket():
        return "socket"
    try:
        content = path.read_bytes()
        return without_passing(json.loads(content)) if path.suffix == ".json" else _text(content)
    except FileNotFoundError:
        return "gone meanwhile"
    except ValueError:
        return _text(content)


def _text(content: bytes) -> str:
    return _TIME.sub("TIME", content.decode(errors="replace"))


def differences(want: EndState, have: EndState) -> list[str]:
    """One line each: path, what is, what should be."""
    return [
        line for key in sorted({*want, *have}) for line in _differences(key, want.get(key), have.get(key))
    ]


def _differences(path: str, want: Any, have: Any) -> Iterator[str]:
    if isinstance(want, Mapping) and isinstance(have, Mapping):
        for key in sorted({*want, *have}):
            yield from _differences(f"{path} {key}", want.get(key), have.get(key))
    elif isinstance(want, list) and isinstance(have, list) and len(want) == len(have):
        for number, (one, other) in enumerate(zip(want, have, strict=True)):
            yield from _differences(f"{path}[{number}]", one, other)
    elif want != have:
        yield f"{path}: {have!r} instead of {want!r}"
