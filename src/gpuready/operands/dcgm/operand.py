"""The declaration of DCGM's host engine. It exists as NVIDIA's image only."""

from __future__ import annotations

from gpuready.operands.contract import Operand
from gpuready.operands.dcgm import original

OPERAND = Operand(
    name="dcgm",
    deploy_label="nvidia.com/gpu.deploy.dcgm",
    link=None,
    enabled=lambda policy: policy.spec.dcgm.enabled,
    component="dcgm",
    original=original.objects,
    access=original.ACCESS,
)
