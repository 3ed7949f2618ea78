"""The declaration of the node status exporter."""

from __future__ import annotations

from gpuready.operands.contract import Operand
from gpuready.operands.node_status_exporter import original

OPERAND = Operand(
    name="node-status-exporter",
    deploy_label="nvidia.com/gpu.deploy.node-status-exporter",
    link=None,
    enabled=lambda policy: policy.spec.node_status_exporter.enabled,
    component="nodeStatusExporter",
    original=original.objects,
    access=original.ACCESS,
)
