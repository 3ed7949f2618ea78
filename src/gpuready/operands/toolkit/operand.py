"""The declaration of the container toolkit."""

from __future__ import annotations

from gpuready.chain.verdict import Link
from gpuready.operands.contract import Flavour, Operand
from gpuready.operands.toolkit import original

OPERAND = Operand(
    name="toolkit",
    deploy_label="nvidia.com/gpu.deploy.container-toolkit",
    link=Link.TOOLKIT,
    waits_for=(Link.DRIVER,),
    enabled=lambda policy: policy.spec.toolkit.enabled,
    component="toolkit",
    original=original.objects,
    access=original.ACCESS,
    no_effect={Flavour.ORIGINAL: {"toolkit.args": "ignored as in the original"}},
)
