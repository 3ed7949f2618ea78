"""The declaration of GPU feature discovery; ours has no pod, the node agent writes the labels."""

from __future__ import annotations

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import ClusterView, Flavour, KubeObject, Operand, ours_runs
from gpuready.operands.gfd import original


def _own(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    return []  # the node agent computes the labels from its inventory; it needs no pod of their own


_OF_A_POD = ("imagePullPolicy", "imagePullSecrets", "resources", "args", "env", "hostNetwork")
_BY_THE_AGENT = "the node agent writes these labels, without a pod of their own"

OPERAND = Operand(
    name="gpu-feature-discovery",
    deploy_label="nvidia.com/gpu.deploy.gpu-feature-discovery",
    link=None,
    enabled=lambda policy: policy.spec.gfd.enabled,
    component="gfd",
    own=_own,
    original=original.objects,
    access=original.ACCESS,
    no_effect={
        Flavour.OWN: {
            **ours_runs("gfd"),
            **{f"gfd.{field}": _BY_THE_AGENT for field in _OF_A_POD},
        }
    },
)
