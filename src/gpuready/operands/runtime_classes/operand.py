"""RuntimeClasses: the names by which a pod asks for the handlers that the toolkit installs.

Source: gpu-operator v26.3.3, assets/pre-requisites; operator.md §3.1.
"""

from __future__ import annotations

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import ClusterView, KubeObject, Operand


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    """None with the NRI plugin, which needs no handlers; the two others only with CDI."""
    if policy.spec.cdi.nri_plugin_enabled:
        return []
    handlers = [policy.spec.operator.runtime_class or "nvidia"]
    if policy.spec.cdi.enabled:
        handlers += ["nvidia-cdi", "nvidia-legacy"]
    return [_runtime_class(handler) for handler in dict.fromkeys(handlers)]


def _runtime_class(handler: str) -> KubeObject:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": handler, "labels": {"app.kubernetes.io/component": "gpu-operator"}},
        "handler": handler,
    }


OPERAND = Operand(
    name="runtime-classes", deploy_label="", link=None, enabled=lambda policy: True, own=objects
)
