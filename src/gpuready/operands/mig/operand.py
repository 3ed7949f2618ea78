"""The declaration of the MIG manager."""

from __future__ import annotations

from gpuready.operands.contract import Operand
from gpuready.operands.mig import original

OPERAND = Operand(
    name="mig-manager",
    deploy_label="nvidia.com/gpu.deploy.mig-manager",
    link=None,
    enabled=lambda policy: policy.spec.mig_manager.enabled,
    component="migManager",
    original=original.objects,
    access=original.ACCESS,
)
