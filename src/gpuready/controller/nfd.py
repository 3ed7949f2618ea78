"""Who of node-feature-discovery looks for GPUs, however it was installed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_nfd_worker(daemonset: Mapping[str, Any]) -> bool:
    """It looks for GPUs; NFD's other parts do not.

    Source: node-feature-discovery v0.18, deployment/helm (label role) and deployment/base/worker-daemonset;
    openshift/cluster-nfd-operator, assets/worker (label app=nfd, name nfd-worker).
    """
    meta = daemonset["metadata"]
    labels = meta.get("labels") or {}
    if labels.get("app.kubernetes.io/name") == "node-feature-discovery":
        return "worker" in (labels.get("role"), labels.get("app.kubernetes.io/component"))
    return labels.get("app") in ("nfd", "nfd-worker") and str(meta.get("name", "")).endswith("nfd-worker")
