"""The declaration of the device plugin operand."""

from __future__ import annotations

from gpuready import names
from gpuready.api import images
from gpuready.chain.verdict import Link
from gpuready.operands.contract import Operand
from gpuready.operands.device_plugin import manifest

OPERAND = Operand(
    name="device-plugin",
    deploy_label=names.DEPLOY_DEVICE_PLUGIN,
    link=Link.DEVICE_PLUGIN,
    waits_for=(Link.DRIVER,),
    enabled=lambda policy: policy.spec.device_plugin.enabled,
    objects=manifest.objects,
    image=lambda policy: images.named_image(policy, "devicePlugin"),
    check=manifest.check,
)
