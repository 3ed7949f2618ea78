"""A cluster in which a policy is in force, and what stands in it, for the tests of `gpuready plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.unit.tools.cluster import PCI, meta, node

from gpuready import names
from gpuready.kube.apply import with_digest
from gpuready.tools.plan.forecast import Fate, Forecast
from gpuready.tools.plan.foresee import wanted_objects
from gpuready.tools.plan.look import Look

Object = dict[str, Any]
OFF = {block: {"enabled": False} for block in ("toolkit", "dcgm", "dcgmExporter", "migManager")}
UBUNTU = {names.OS_ID_LABEL: "ubuntu", names.OS_VERSION_LABEL: "22.04"}
PLUGIN, DRIVER = "nvidia-device-plugin-daemonset", "nvidia-driver-daemonset"
TOOLKIT = "nvidia-container-toolkit-daemonset"
TEAM_TAINT = {"key": "team", "value": "ml", "effect": "NoSchedule"}


def policy(name: str = "cluster-policy", *, metadata: Mapping[str, Any] = {}, **spec: Any) -> Object:
    off = {**OFF, "driver": {"enabled": False}}
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": name, **metadata},
        "spec": {**off, **spec},
    }


def gpu_machine(name: str = "gpu-1", **labels: str) -> Object:
    """As node feature discovery has labelled it; nobody of ours was there yet."""
    return node(name, labels={PCI: "true", **UBUNTU, **labels})


def cluster(*nodes: Object, pods: list[Object] | None = None, **spec: Any) -> tuple[Object, Look]:
    """A cluster in which the policy is in force, and that policy."""
    raw = policy(metadata={"uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"}, **spec)
    bare = Look("gpu-operator", policies=[raw], nodes=nodes or (gpu_machine(),))
    owned = [with_digest(obj) for obj in wanted_objects(raw, bare)]
    return policy(**spec), replace(bare, owned=owned, pods=pods or [])


def daemon_pod(daemonset: str, node_name: str, operand: str, **labels: str) -> Object:
    owner = {"kind": "DaemonSet", "name": daemonset, "uid": "d", "controller": True}
    own = {names.OPERAND_LABEL: operand, "app": daemonset, **labels}
    metadata = meta(f"{daemonset}-{node_name}", own, namespace="gpu-operator", ownerReferences=[owner])
    return {"metadata": metadata, "spec": {"nodeName": node_name}, "status": {"phase": "Running"}}


def training(node_name: str, gpus: int = 2) -> Object:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"nodeName": node_name, "containers": [container]}
    return {"metadata": meta("training", namespace="ml"), "spec": spec, "status": {"phase": "Running"}}


def named(forecast: Forecast, fate: Fate) -> set[str]:
    return {f"{each.kind}/{each.name}" for each in forecast.of_fate(fate)}
