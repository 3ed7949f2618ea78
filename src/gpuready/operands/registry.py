"""The operands in the order in which a node needs them. Read this first.

The node agent is not among them: it is not the policy's to switch off, and it outlives the policy by the
moment it takes to clean up.
"""

from __future__ import annotations

from gpuready.operands.contract import Operand, PlannedOperand
from gpuready.operands.device_plugin.operand import OPERAND as DEVICE_PLUGIN
from gpuready.operands.driver.operand import OPERAND as DRIVER
from gpuready.operands.feature_labels.operand import OPERAND as FEATURE_LABELS

OPERANDS: tuple[Operand, ...] = (
    DRIVER,
    DEVICE_PLUGIN,
    FEATURE_LABELS,
)

# Enabled in most policies, without code here yet; `status.operands[]` says so for each.
NOT_IMPLEMENTED: tuple[PlannedOperand, ...] = (
    PlannedOperand(
        "driver-upgrade",
        lambda policy: policy.spec.driver.enabled and policy.spec.driver.upgrade_policy.auto_upgrade,
    ),
    PlannedOperand("toolkit", lambda policy: policy.spec.toolkit.enabled),
    PlannedOperand("dcgm", lambda policy: policy.spec.dcgm.enabled),
    PlannedOperand("dcgm-exporter", lambda policy: policy.spec.dcgm_exporter.enabled),
    PlannedOperand("mig-manager", lambda policy: policy.spec.mig_manager.enabled),
    PlannedOperand("node-status-exporter", lambda policy: policy.spec.node_status_exporter.enabled),
    PlannedOperand("gds", lambda policy: policy.spec.gds.enabled),
    PlannedOperand("gdrcopy", lambda policy: policy.spec.gdrcopy.enabled),
    PlannedOperand(
        "sandbox-workloads",
        lambda policy: policy.spec.sandbox_workloads.enabled,
    ),
)
