"""Short words for the requests of scenarios."""

from __future__ import annotations

from typing import Any

from ..transcript import Ask

Obj = dict[str, Any]
MAPS = "/api/v1/namespaces/$NS/configmaps"
PODS = "/api/v1/namespaces/$NS/pods"
SECRETS = "/api/v1/namespaces/$NS/secrets"
SERVICES = "/api/v1/namespaces/$NS/services"
DEPLOYMENTS = "/apis/apps/v1/namespaces/$NS/deployments"
DAEMON_SETS = "/apis/apps/v1/namespaces/$NS/daemonsets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/$NS/leases"
NODES = "/api/v1/nodes"
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
GPU_NODES = "/apis/gpuready.dev/v1alpha1/gpunodes"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def get(path: str, accept: str = "application/json", **params: str) -> Ask:
    return Ask("GET", path, accept=accept, params=params)


def post(path: str, body: object, **params: str) -> Ask:
    return Ask("POST", path, body, params=params)


def put(path: str, body: object, **params: str) -> Ask:
    return Ask("PUT", path, body, params=params)


def delete(path: str, body: object = None, **params: str) -> Ask:
    return Ask("DELETE", path, body, params=params)


def patch(kind: str, path: str, body: object, **params: str) -> Ask:
    """kind: merge, strategic, jsonpatch"""
    return Ask("PATCH", path, body, type=kind, params=params)


def apply(path: str, body: object, manager: str = "alice", **params: str) -> Ask:
    return Ask("PATCH", path, body, type="apply", params={"fieldManager": manager, **params})


def config_map(name: str, data: Obj | None = None, **meta: Any) -> Obj:
    made: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}}
    return made if data is None else {**made, "data": data}


def pod(name: str, *containers: Obj, meta: Obj | None = None, **spec: Any) -> Obj:
    """Of a scheduler that does not exist, so nobody touches it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(meta or {})},
        "spec": {
            "schedulerName": "nobody",
            "containers": list(containers) or [{"name": "main", "image": "cuda"}],
            **spec,
        },
    }


def deployment(name: str, *containers: Obj, **spec: Any) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": list(containers) or [{"name": "main", "image": "cuda"}]},
            },
            **spec,
        },
    }


def policy(spec: object = None, name: str = "$NS", **more: Any) -> Obj:
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": name},
        "spec": {} if spec is None else spec,
        **more,
    }


def gpu_node(spec: object = None, name: str = "$NS", **more: Any) -> Obj:
    return {
        "apiVersion": "gpuready.dev/v1alpha1",
        "kind": "GPUNode",
        "metadata": {"name": name},
        "spec": {} if spec is None else spec,
        **more,
    }
