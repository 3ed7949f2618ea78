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
from gpuready.kube.resources import (
    CLUSTER_POLICIES,
    DAEMONSETS,
    DEPLOYMENTS,
    GPU_NODES,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    Resource,
)
from gpuready.shape import ShapeError, check
from gpuready.tools.shape import BUNDLE

Object = dict[str, Any]
Operator = tuple[Object | None, Object | None, str]  # its Lease, else its place, and why neither was seen
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
    place         where there is no Lease: the operator's `namespace` ("" = not known), whether it is `gone`,
                  and the chart's `deployments` (namespace, name, ready)
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
    place: Object | None = None

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
            **({"operator": self.place} if self.place else {}),
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
            place=row.get("operator") or None,
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
    lease, place, lease_unseen = await find_operator(client, policies or [])
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
        place=place,
    )


async def find_operator(client: KubeClient, policies: Sequence[Mapping[str, Any]]) -> Operator:
    """The Lease beside the operator that answered a policy; else its place; and why neither can be seen.

    Where nobody has answered yet, it is looked for in all namespaces.
    """
    namespaces = [(policy.get("status") or {}).get("namespace") for policy in policies]
    namespace = next((each for each in namespaces if each), "")
    try:
        lease = await _find_lease(client, namespace)
        return lease, None if lease else await _place_of_operator(client, namespace), ""
    except ApiError as exc:
        return None, None, f"whether an operator works was not looked at: {exc}"


async def _find_lease(client: KubeClient, namespace: str) -> Object | None:
    found, _ = await client.list(
        LEASES, namespace or None, field_selector=f"metadata.name={names.LEADER_LEASE}"
    )
    rows = [_some_of_lease(each) for each in found]
    return max(rows, key=lambda row: str(row["spec"].get("renewTime") or ""), default=None)


def _some_of_lease(lease: Object) -> Object:
    meta = {"name": names.LEADER_LEASE, "namespace": lease["metadata"]["namespace"]}
    return {"metadata": meta, "spec": dict(lease.get("spec") or {})}


async def _place_of_operator(client: KubeClient, namespace: str) -> Object:
    labels = f"app={names.OPERATOR_APP},app.kubernetes.io/name=gpuready"  # the chart's
    found, _ = await client.list(DEPLOYMENTS, namespace or None, label_selector=labels)
    deployments = [
        {
            "namespace": each["metadata"]["namespace"],
            "name": each["metadata"]["name"],
            "ready": int((each.get("status") or {}).get("readyReplicas") or 0),
        }
        for each in found
    ]
    gone = bool(namespace) and not deployments and await _is_gone(client, namespace)
    return {"namespace": namespace, "gone": gone, "deployments": deployments}


async def _is_gone(client: KubeClient, namespace: str) -> bool:
    try:
        await client.get(NAMESPACES, namespace)
    except NotFound:
        return True
    return False


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
