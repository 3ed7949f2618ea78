"""On which nodes a DaemonSet's pods belong, and how such a pod looks. Pure.

Source: kubernetes, pkg/controller/daemon/daemon_controller.go (NodeShouldRunDaemonPod),
pkg/controller/daemon/util/daemonset_util.go.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuready_sim.controllers import taints
from gpuready_sim.controllers.selectors import matches_node

HASH_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
_SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Fit:
    """Whether a pod should be started on a node, and whether a running one may stay."""

    run: bool
    keep: bool


def fit(daemon_set: Object, node: Object) -> Fit:
    """A pod belongs where selector and affinity match and taints are tolerated.

    An untolerated NoSchedule taint starts none and leaves a running one; NoExecute takes it away.
    """
    spec = daemon_set["spec"]["template"]["spec"]
    if spec.get("nodeName") and spec["nodeName"] != node["metadata"]["name"]:
        return Fit(run=False, keep=False)
    if not matches_node(spec, node):
        return Fit(run=False, keep=False)
    tolerations = tolerations_for(spec)
    refused = taints.first_untolerated(taints.taints_of(node), tolerations)
    if refused is None:
        return Fit(run=True, keep=True)
    evicted = taints.first_untolerated(taints.taints_of(node), tolerations, (taints.NO_EXECUTE,))
    return Fit(run=False, keep=evicted is None)


def tolerations_for(pod_spec: Object) -> list[Mapping[str, Any]]:
    """The template's tolerations and those every daemon pod gets."""
    given = [(taints.NOT_READY, taints.NO_EXECUTE), (taints.UNREACHABLE, taints.NO_EXECUTE)]
    given += [
        (key, taints.NO_SCHEDULE)
        for key in (
            taints.DISK_PRESSURE,
            taints.MEMORY_PRESSURE,
            taints.PID_PRESSURE,
            taints.UNSCHEDULABLE,
        )
    ]
    if pod_spec.get("hostNetwork"):
        given.append((taints.NETWORK_UNAVAILABLE, taints.NO_SCHEDULE))
    automatic = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in given]
    own = taints.tolerations_of(pod_spec)
    return [*own, *(one for one in automatic if one not in own)]


def new_pod(daemon_set: Object, node_name: str, revision_hash: str) -> dict[str, Any]:
    """The pod for one node; the scheduler binds it, as the affinity allows no other node."""
    template = copy.deepcopy(daemon_set["spec"]["template"])
    meta, owner = template.get("metadata") or {}, daemon_set["metadata"]
    spec = template["spec"]
    spec["tolerations"] = tolerations_for(spec)
    spec["affinity"] = _pinned(spec.get("affinity") or {}, node_name)
    labels = {
        **(meta.get("labels") or {}),
        HASH_LABEL: revision_hash,
        GENERATION_LABEL: str(owner.get("generation", 1)),
    }
    metadata = {
        "generateName": f"{owner['name']}-",
        "namespace": owner["namespace"],
        "labels": labels,
        "ownerReferences": [owner_reference(daemon_set)],
    }
    for key in ("annotations", "finalizers"):
        if meta.get(key):
            metadata[key] = meta[key]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def owner_reference(daemon_set: Object) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": daemon_set["metadata"]["name"],
        "uid": daemon_set["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _pinned(affinity: Mapping[str, Any], node_name: str) -> dict[str, Any]:
    """The affinity with its required node terms replaced by this one node."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
    }
    return {**affinity, "nodeAffinity": node_affinity}


def template_hash(daemon_set: Object) -> str:
    """A short word that changes when the pod template changes."""
    text = json.dumps(daemon_set["spec"]["template"], sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_SAFE_ALPHABET[byte % len(_SAFE_ALPHABET)] for byte in digest[:10])
