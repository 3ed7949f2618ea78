"""The declaration of the driver operand."""

from __future__ import annotations

from gpuready import names
from gpuready.chain.verdict import Link
from gpuready.operands.contract import Operand
from gpuready.operands.driver import manifest

OPERAND = Operand(
    name="driver",
    deploy_label=names.DEPLOY_DRIVER,
    link=Link.DRIVER,
    enabled=manifest.is_enabled,
    objects=manifest.objects,
    runs_named_image=True,
)
