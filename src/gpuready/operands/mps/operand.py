"""The declaration of the MPS control daemon, which belongs to NVIDIA's device plugin (see registry.py)."""

from __future__ import annotations

from gpuready import names
from gpuready.operands.contract import Operand
from gpuready.operands.mps import original

OPERAND = Operand(
    name="mps-control-daemon",
    deploy_label=names.DEPLOY_DEVICE_PLUGIN,
    link=None,
    enabled=lambda policy: policy.spec.device_plugin.enabled,
    component="devicePlugin",
    original=original.objects,
    access=original.ACCESS,
)
