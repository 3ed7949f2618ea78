"""The operands in the order in which a node needs them. Read this first.

The node agent is not among them: it is not the policy's to switch off, and it outlives the policy by the
moment it takes to clean up.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.api.policy import without_effect
from gpuready.operands.contract import Flavour, Operand, PlannedOperand
from gpuready.operands.dcgm.operand import OPERAND as DCGM
from gpuready.operands.device_plugin.operand import OPERAND as DEVICE_PLUGIN
from gpuready.operands.driver.operand import OPERAND as DRIVER
from gpuready.operands.exporter.operand import OPERAND as EXPORTER
from gpuready.operands.gfd.operand import OPERAND as FEATURE_DISCOVERY
from gpuready.operands.mig.operand import OPERAND as MIG_MANAGER
from gpuready.operands.mps.operand import OPERAND as MPS
from gpuready.operands.node_status_exporter.operand import OPERAND as NODE_STATUS_EXPORTER
from gpuready.operands.operator_metrics.operand import OPERAND as OPERATOR_METRICS
from gpuready.operands.runtime_classes.operand import OPERAND as RUNTIME_CLASSES
from gpuready.operands.toolkit.operand import OPERAND as TOOLKIT
from gpuready.operands.validator.operand import OPERAND as VALIDATOR_ALONE


def _runs_original(*operands: Operand) -> Callable[[ClusterPolicy], bool]:
    return lambda policy: any(
        each.enabled(policy) and each.flavour(policy) is Flavour.ORIGINAL for each in operands
    )


# Their pods wait for the gate toolkit-ready, which only NVIDIA's validator opens.
_WAITING = (TOOLKIT, DEVICE_PLUGIN, DCGM, EXPORTER, FEATURE_DISCOVERY, MIG_MANAGER)

VALIDATOR = replace(
    VALIDATOR_ALONE,
    enabled=lambda policy: VALIDATOR_ALONE.enabled(policy) or _runs_original(*_WAITING)(policy),
)

OPERANDS: tuple[Operand, ...] = (
    RUNTIME_CLASSES,
    OPERATOR_METRICS,
    DRIVER,
    TOOLKIT,
    VALIDATOR,
    DEVICE_PLUGIN,
    # NVIDIA's MPS daemon serves NVIDIA's device plugin and no other.
    replace(MPS, enabled=_runs_original(DEVICE_PLUGIN)),
    DCGM,
    EXPORTER,
    FEATURE_DISCOVERY,
    MIG_MANAGER,
    NODE_STATUS_EXPORTER,
)

# Without code here yet; `status.operands[]` says so for each that the policy enables.
NOT_IMPLEMENTED: tuple[PlannedOperand, ...] = (
    PlannedOperand(
        "driver-upgrade",
        lambda policy: policy.spec.driver.enabled and policy.spec.driver.upgrade_policy.auto_upgrade,
        "drain each node that runs another driver than the policy asks for, and delete its driver's pod",
        ("driver.upgradePolicy",),
    ),
    PlannedOperand(
        "sandbox-workloads",
        lambda policy: policy.spec.sandbox_workloads.enabled,
        "set sandboxWorkloads.enabled=false, and keep GPUs for virtual machines on nodes of another operator",
        (
            *("sandboxWorkloads", "sandboxDevicePlugin", "kataSandboxDevicePlugin", "vgpuManager"),
            *("vgpuDeviceManager", "vfioManager", "kataManager", "ccManager"),
            *("validator.vfioPCI", "validator.vgpuManager", "validator.vgpuDevices"),
        ),
    ),
)


_NO_MONITORS = {
    "dcgmExporter.serviceMonitor": "the API server knows no ServiceMonitor (monitoring.coreos.com/v1) yet; "
    "install Prometheus' CRDs to have it"
}


def fields_without_effect(policy: ClusterPolicy, *, service_monitors: bool = True) -> list[str]:
    """ "spec.toolkit.args: ignored as in the original" for each field that is set and does nothing.

    Depends on whose images run: ours and the original's take different settings.

    service_monitors   the API server knows Prometheus' ServiceMonitor
    """
    rows: dict[str, str] = {} if service_monitors else dict(_NO_MONITORS)
    for operand in OPERANDS:
        with suppress(Exception):  # a mistake of ours is told where its objects are built
            flavour = operand.flavour(policy) if operand.enabled(policy) else None
            rows |= operand.no_effect.get(flavour, {})
    return without_effect(policy, rows)
