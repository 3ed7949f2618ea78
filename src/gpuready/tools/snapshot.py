"""What the tools look at: a few lists of Kubernetes objects, read once or loaded from a saved bundle.

A bundle holds no secrets: of pods and DaemonSets only what the analysis reads is kept, no environment, no
commands, no annotations, no ConfigMaps.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from gpuready import names
from gpuready.errors import ApiError, UsageError
from gpuready.given_files import MOST_BYTES_OF_A_CLUSTER, read_given
from gpuready.kube.client import KubeClient
from gpuready.kube.errors import NotFound
from gpuready.kube.resources import CLUSTER_POLICIES, DAEMONSETS, GPU_NODES, LEASES, NODES, PODS, Resource
from gpuready.shape import ShapeError, check
from gpuready.tools.shape import BUNDLE

Object = dict[str, Any]
FORMAT = "gpuready.dev/bundle/v1"

_META = ("name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp", "generation")
_POD_SPEC = ("nodeName", "nodeSelector", "affinity", "tolerations")
_CONTAINER = ("name", "resources", "restartPolicy")
_NODE_STATUS = ("conditions", "capacity", "allocatable", "nodeInfo", "addresses")
_DAEMONSET_POD = ("nodeSelector", "affinity", "tolerations")


@dataclass(frozen=True)
class Snapshot:
    """What was there at one moment.

    missing       kinds that the API server does not know (their CRDs are not installed)
    lease         what the working operator renews; None where there is none or it was not looked at
    lease_unseen  why it could not be read
    """

    nodes: list[Object] = field(default_factory=list)
    gpu_nodes: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    daemonsets: list[Object] = field(default_factory=list)
    policies: list[Object] = field(default_factory=list)
    missing: tuple[str, ...] = ()
    taken_at: str = ""
    lease: Object | None = None
    lease_unseen: str = ""

    def to_json(self) -> Object:
        return {
            "format": FORMAT,
            "takenAt": self.taken_at,
            "missing": list(self.missing),
            "nodes": self.nodes,
            "gpunodes": self.gpu_nodes,
            "pods": self.pods,
            "daemonsets": self.daemonsets,
            "clusterpolicies": self.policies,
            **({"lease": self.lease} if self.lease else {}),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """raises  ShapeError when something that the analysis reads is not what it must be"""
        check(row, BUNDLE)
        return cls(
            nodes=list(row.get("nodes") or ()),
            gpu_nodes=list(row.get("gpunodes") or ()),
            pods=list(row.get("pods") or ()),
            daemonsets=list(row.get("daemonsets") or ()),
            policies=list(row.get("clusterpolicies") or ()),
            missing=tuple(row.get("missing") or ()),
            taken_at=str(row.get("takenAt") or ""),
            lease=row.get("lease") or None,
        )


async def gather(client: KubeClient, *, pod_labels: str = "") -> Snapshot:
    """All lists at once.

    pod_labels   only pods with these labels
    raises       ApiError when the server cannot be reached or refuses
    """
    nodes, pods, daemonsets, gpu_nodes, policies = await asyncio.gather(
        _list(client, NODES),
        _list(client, PODS, pod_labels),
        _list(client, DAEMONSETS),
        _find(client, GPU_NODES),
        _find(client, CLUSTER_POLICIES),
    )
    missing = [r.plural for r, rows in ((GPU_NODES, gpu_nodes), (CLUSTER_POLICIES, policies)) if rows is None]
    lease, lease_unseen = await find_lease(client, policies or [])
    return Snapshot(
        nodes=[trimmed_node(obj) for obj in nodes],
        gpu_nodes=[_with_meta(obj, "spec", "status") for obj in gpu_nodes or []],
        pods=[trimmed_pod(obj) for obj in pods],
        daemonsets=[trimmed_daemonset(obj) for obj in daemonsets],
        policies=[_with_meta(obj, "status") for obj in policies or []],
        missing=tuple(missing),
        taken_at=now_text(),
        lease=lease,
        lease_unseen=lease_unseen,
    )


async def find_lease(client: KubeClient, policies: Sequence[Object]) -> tuple[Object | None, str]:
    """The Lease beside the operator that answered a policy, and why it cannot be seen.

    An operator that was told not to elect has none: a Lease that is not there says nothing.
    """
    namespaces = [(policy.get("status") or {}).get("namespace") for policy in policies]
    namespace = next((each for each in namespaces if each), "")
    if not namespace:
        return None, ""
    try:
        found = await client.get(LEASES, names.LEADER_LEASE, namespace)
    except NotFound:
        return None, ""
    except ApiError as exc:
        return None, f"whether an operator works was not looked at: {exc}"
    meta = {"name": names.LEADER_LEASE, "namespace": namespace}
    return {"metadata": meta, "spec": dict(found.get("spec") or {})}, ""


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_between(since: str, now: str) -> float:
    """Of two RFC 3339 times; infinity when one of them is not known."""
    try:
        return (datetime.fromisoformat(now) - datetime.fromisoformat(since)).total_seconds()
    except (ValueError, TypeError):  # TypeError: only one of them has a time zone
        return float("inf")


def save(snapshot: Snapshot, path: str) -> None:
    try:
        Path(path).write_text(json.dumps(snapshot.to_json(), indent=1) + "\n")
    except OSError as exc:
        raise UsageError(
            f"cannot write the bundle {path}",
            why=exc.strerror or str(exc),
            next_step="give --save-bundle a file in a directory that is there and that you may write to",
        ) from exc


def load(path: str) -> Snapshot:
    """raises  UsageError for a file that cannot be read or is no bundle"""
    try:
        row = json.loads(read_given(path, MOST_BYTES_OF_A_CLUSTER).decode())
        if not isinstance(row, dict) or row.get("format") != FORMAT:
            raise _no_bundle(path, f'it does not say "format": "{FORMAT}"')
        return Snapshot.from_json(row)
    except OSError as exc:
        raise UsageError(f"cannot read the bundle {path}", why=exc.strerror or str(exc)) from exc
    except RecursionError as exc:
        raise _no_bundle(path, "it is nested too deeply") from exc
    except ShapeError as exc:
        raise _no_bundle(path, str(exc)) from exc
    except ValueError as exc:
        raise _no_bundle(path, f"no JSON: {exc}") from exc


def _no_bundle(path: str, why: str) -> UsageError:
    return UsageError(
        f"{path} is not a bundle", why=why, next_step="make one with gpuready doctor --save-bundle FILE"
    )


# --- what is kept of each object --------------------------------------------------------------------------


def trimmed_node(obj: Mapping[str, Any]) -> Object:
    status = _some(obj.get("status"), _NODE_STATUS)
    return {**_with_meta(obj), "spec": _some(obj.get("spec"), ("taints", "unschedulable")), "status": status}


def trimmed_pod(obj: Mapping[str, Any]) -> Object:
    spec = obj.get("spec") or {}
    kept = _some(spec, _POD_SPEC)
    for name in ("containers", "initContainers"):
        if spec.get(name):
            kept[name] = [_some(container, _CONTAINER) for container in spec[name]]
    status = dict(obj.get("status") or {})
    return {**_with_meta(obj), "spec": kept, "status": status}


def trimmed_daemonset(obj: Mapping[str, Any]) -> Object:
    template = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
    spec = {"template": {"spec": _some(template, _DAEMONSET_POD)}}
    return {**_with_meta(obj), "spec": spec, "status": dict(obj.get("status") or {})}


def _with_meta(obj: Mapping[str, Any], *parts: str) -> Object:
    meta = _some(obj.get("metadata"), _META)
    return {"metadata": meta, **{part: obj[part] for part in parts if part in obj}}


def _some(row: Mapping[str, Any] | None, keys: tuple[str, ...]) -> Object:
    return {key: (row or {})[key] for key in keys if key in (row or {})}


async def _list(client: KubeClient, resource: Resource, labels: str = "") -> list[Object]:
    items, _ = await client.list(resource, label_selector=labels)
    return items


async def _find(client: KubeClient, resource: Resource) -> list[Object] | None:
    """None when the API server does not know the kind."""
    try:
        return await _list(client, resource)
    except NotFound:
        return None
