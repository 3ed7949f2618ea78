"""Builders of Kubernetes objects for the tools' tests; every argument has a default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuready import names
from gpuready.tools.snapshot import Snapshot

GPU = "nvidia.com/gpu"
PCI = names.NFD_PCI_LABELS[0]
Object = dict[str, Any]
NOW = "2026-01-01T01:00:00Z"
LONG_AGO = "2026-01-01T00:00:00Z"


def meta(name: str, labels: Mapping[str, str] | None = None, namespace: str = "", **more: Any) -> Object:
    found: Object = {"name": name, "labels": dict(labels or {}), "creationTimestamp": LONG_AGO, **more}
    return {**found, "namespace": namespace} if namespace else found


def node(
    name: str,
    *,
    gpus: int = 0,
    healthy: int | None = None,
    resource: str = GPU,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Object] = (),
    ready: bool = True,
    cordoned: bool = False,
) -> Object:
    """A node with `gpus` in its capacity; a GPU node has its labels too."""
    shown = {
        "capacity": {resource: str(gpus)},
        "allocatable": {resource: str(gpus if healthy is None else healthy)},
    }
    own = {"kubernetes.io/os": "linux", **({PCI: "true", names.GPU_PRESENT: "true"} if gpus else {})}
    return {
        "metadata": meta(name, {**own, **(labels or {})}),
        "spec": {"taints": list(taints), "unschedulable": cordoned},
        "status": {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if ready else "Unknown",
                    "message": "Kubelet stopped posting",
                }
            ],
            "nodeInfo": {"bootID": "boot-1"},
            **(shown if gpus else {}),
        },
    }


def link(name: str, state: str = "ok", reason: str = "Fine", message: str = "fine", **more: Any) -> Object:
    return {"link": name, "state": state, "reason": reason, "message": message, **more}


def gpu_node(name: str, *changed: Object, gpus: int = 8, healthy: int | None = None) -> Object:
    whole = {row: link(row) for row in ("discovery", "driver", "device-plugin")}
    dashes = {row: link(row, "not-checked", "NotChecked") for row in ("toolkit", "cuda")}
    chain = {**whole, **dashes, **{row["link"]: row for row in changed}}
    status = {"chain": list(chain.values()), "gpus": gpus, "healthy": gpus if healthy is None else healthy}
    return {"metadata": meta(name), "spec": {}, "status": {**status, "bootID": "boot-1"}}


def pod(
    name: str,
    *,
    on: str = "",
    gpus: int = 0,
    resource: str = GPU,
    phase: str = "",
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    waiting: Object | None = None,
    said: str = "",
    **spec: Any,
) -> Object:
    limits = {"limits": {resource: str(gpus)}} if gpus else {}
    conditions = [{"type": "Ready", "status": "False" if waiting or not on else "True"}]
    if said:
        conditions.append({"type": "PodScheduled", "status": "False", "message": said})
    state = {"waiting": waiting} if waiting else {"running": {}}
    statuses = [{"name": "main", "restartCount": 3 if waiting else 0, "state": state}]
    return {
        "metadata": meta(name, labels, namespace),
        "spec": {"nodeName": on, "containers": [{"name": "main", "resources": limits}], **spec},
        "status": {
            "phase": phase or ("Running" if on else "Pending"),
            "conditions": conditions,
            "containerStatuses": statuses if on else [],
        },
    }


def operand_pod(operand: str, on: str, **changes: Any) -> Object:
    labels = {names.OPERAND_LABEL: operand}
    return pod(f"{operand}-{on}", on=on, labels=labels, namespace="gpu-operator", **changes)


def daemonset(
    name: str,
    operand: str = "",
    *,
    labels: Mapping[str, str] | None = None,
    tolerations: Sequence[Object] = (),
    selector: Mapping[str, str] | None = None,
) -> Object:
    own = {names.OPERAND_LABEL: operand} if operand else {}
    spec = {"tolerations": list(tolerations), "nodeSelector": dict(selector or {})}
    return {
        "metadata": meta(name, {**own, **(labels or {})}, "gpu-operator"),
        "spec": {"template": {"spec": spec}},
        "status": {},
    }


AGENT = daemonset(
    "gpuready-node-agent",
    "node-agent",
    tolerations=[{"operator": "Exists"}],
    selector={"kubernetes.io/os": "linux"},
)


def policy(state: str = "ready", reason: str = "Reconciled", message: str = "", **status: Any) -> Object:
    ready = {
        "type": "Ready",
        "status": "True" if state == "ready" else "False",
        "reason": reason,
        "message": message,
    }
    error = {**ready, "type": "Error", "status": "True" if state == "notReady" else "False"}
    conditions = [{**ready, "reason": "Error"} if state == "notReady" else ready, error]
    told = {"state": state, "observedGeneration": 1, "conditions": conditions, **status} if state else {}
    return {"metadata": meta("cluster-policy", generation=1), "status": told}


def cluster(
    *nodes: Object,
    gpu_nodes: Sequence[Object] = (),
    pods: Sequence[Object] = (),
    daemonsets: Sequence[Object] | None = None,
    policies: Sequence[Object] | None = None,
    missing: tuple[str, ...] = (),
    agents: bool = True,
) -> Snapshot:
    """With a ready policy, an agent on every node, and nothing wrong unless the test says so."""
    running = [operand_pod("node-agent", row["metadata"]["name"]) for row in nodes] if agents else []
    return Snapshot(
        nodes=list(nodes),
        gpu_nodes=list(gpu_nodes),
        pods=[*running, *pods],
        daemonsets=[AGENT] if daemonsets is None else list(daemonsets),
        policies=[policy()] if policies is None else list(policies),
        missing=missing,
        taken_at=NOW,
    )
