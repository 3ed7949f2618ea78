"""The declaration of the feature labels operand; it has no pod of its own."""

from __future__ import annotations

from gpuready.api import images
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import ClusterView, KubeObject, Operand


def _is_enabled(policy: ClusterPolicy) -> bool:
    return policy.spec.gfd.enabled


def _objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    return []  # the node agent computes the labels from its inventory; it needs no pod of their own


OPERAND = Operand(
    name="gpu-feature-discovery",
    deploy_label="nvidia.com/gpu.deploy.gpu-feature-discovery",
    link=None,
    enabled=_is_enabled,
    objects=_objects,
    image=lambda policy: images.named_image(policy, "gfd"),
)
