"""Nodes, pods and DaemonSets with every argument defaulted."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def node(
    name: str = "n1",
    *,
    labels: dict[str, str] | None = None,
    taints: list[Object] | None = None,
    allocatable: dict[str, str] | None = None,
    conditions: dict[str, str] | None = None,
    unschedulable: bool = False,
) -> Object:
    spec: Object = {"taints": taints} if taints else {}
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": spec,
        "status": {
            "allocatable": allocatable or {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": k, "status": v} for k, v in (conditions or {"Ready": "True"}).items()],
        },
    }


def taint(key: str = "nvidia.com/gpu", value: str = "present", effect: str = "NoSchedule") -> Object:
    return {"key": key, "value": value, "effect": effect}


def pod(
    name: str = "p1",
    *,
    requests: dict[str, str] | None = None,
    node_name: str = "",
    labels: dict[str, str] | None = None,
    namespace: str = "default",
    tolerations: list[Object] | None = None,
    phase: str = "Pending",
    **spec: Any,
) -> Object:
    body: Object = {"containers": [{"name": "main", "resources": {"requests": requests or {}}}], **spec}
    if node_name:
        body["nodeName"] = node_name
    if tolerations:
        body["tolerations"] = tolerations
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "namespace": namespace, "labels": labels or {}},
        "spec": body,
        "status": {"phase": phase},
    }


def daemon_set(
    name: str = "ds",
    *,
    template: Object | None = None,
    max_unavailable: int | str = 1,
    strategy: str = "RollingUpdate",
    min_ready_s: int = 0,
) -> Object:
    update: Object = {"type": strategy}
    if strategy == "RollingUpdate":
        update["rollingUpdate"] = {"maxUnavailable": max_unavailable}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "generation": 3},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": template or {"containers": [{"name": "main", "image": "sleep"}]},
            },
            "updateStrategy": update,
            "minReadySeconds": min_ready_s,
        },
    }


def daemon_pod(
    node_name: str,
    *,
    revision: str = "new",
    ready: bool = True,
    since: str = "2026-01-01T00:00:00Z",
    phase: str = "Running",
    deleting: bool = False,
    name: str = "",
) -> Object:
    made = pod(name or f"ds-{node_name}", node_name=node_name, phase=phase)
    made["metadata"]["labels"] = {"controller-revision-hash": revision}
    made["metadata"]["creationTimestamp"] = since
    if deleting:
        made["metadata"]["deletionTimestamp"] = since
    status = "True" if ready else "False"
    made["status"]["conditions"] = [{"type": "Ready", "status": status, "lastTransitionTime": since}]
    return made
