"""The declaration of the validator. Ours has no pod: the node agent judges the links and writes the gates.

NVIDIA's runs where the policy names it, and wherever another original image waits for its gates
(see registry.py); what the policy leaves open of it then comes from the release.
"""

from __future__ import annotations

from gpuready.api import images
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import Operand
from gpuready.operands.validator import original


def _is_named(policy: ClusterPolicy) -> bool:
    return policy.spec.gpuready.images != "own" and images.is_named(policy, "validator")


def proves_cuda(policy: ClusterPolicy) -> bool:
    """Whether a program may be run on GPUs: not where WITH_WORKLOAD says no, as to the original.

    Source: gpu-operator v26.3.3, cmd/nvidia-validator (a Go flag: strconv.ParseBool).
    """
    env = {each.name: each.value for each in policy.spec.validator.cuda.env}
    return env.get("WITH_WORKLOAD") not in _FALSE


_FALSE = ("false", "False", "FALSE", "f", "F", "0")
_HEEDED = "the node agent validates, without a pod of its own; it heeds WITH_WORKLOAD of cuda.env alone"


OPERAND = Operand(
    name="operator-validator",
    deploy_label="nvidia.com/gpu.deploy.operator-validator",
    link=None,
    enabled=_is_named,
    component="validator",
    original=original.objects,
    external=True,
    no_effect={None: {"validator": _HEEDED}},
    access=original.ACCESS,
)
