"""The declaration of the metrics exporter."""

from __future__ import annotations

from gpuready.operands.contract import Operand
from gpuready.operands.exporter import original

OPERAND = Operand(
    name="dcgm-exporter",
    deploy_label="nvidia.com/gpu.deploy.dcgm-exporter",
    link=None,
    enabled=lambda policy: policy.spec.dcgm_exporter.enabled,
    component="dcgmExporter",
    original=original.objects,
    access=original.ACCESS,
)
