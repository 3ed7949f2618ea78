"""The declaration of the device plugin operand."""

from __future__ import annotations

from gpuready import names
from gpuready.chain.verdict import Link
from gpuready.operands.contract import Flavour, Operand, ours_runs
from gpuready.operands.device_plugin import manifest, original

OPERAND = Operand(
    name="device-plugin",
    deploy_label=names.DEPLOY_DEVICE_PLUGIN,
    link=Link.DEVICE_PLUGIN,
    waits_for=(Link.DRIVER,),
    enabled=lambda policy: policy.spec.device_plugin.enabled,
    component="devicePlugin",
    own=manifest.objects,
    original=original.objects,
    access=original.ACCESS,
    check=manifest.check,
    no_effect={
        Flavour.OWN: {
            "devicePlugin.args": "flags of NVIDIA's program; ours takes the same settings from env",
            **ours_runs("devicePlugin"),
            "devicePlugin.mps.root": "our device plugin does not share by MPS yet",
        }
    },
)
