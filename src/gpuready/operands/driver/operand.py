"""The declaration of the driver operand. Its image is always somebody else's.

Named by the policy, it comes as the original deploys it, with the driver manager; else it comes alone.
"""

from __future__ import annotations

from gpuready import names
from gpuready.chain.verdict import Link
from gpuready.operands.contract import Flavour, Operand
from gpuready.operands.driver import manifest, original

_ALONE = "the driver container comes alone here; name its image to have it as the original deploys it"
# `enabled` is heard by the device plugin all the same, which says where the kernel's module is missing.
_SIDE_CARS = tuple(
    f"{block}.{field}"
    for block in ("gds", "gdrcopy")
    for field in ("repository", "image", "version", "imagePullPolicy", "imagePullSecrets", "args", "env")
)
_NO_PROBE = "the driver container has a startup probe only"

OPERAND = Operand(
    name="driver",
    deploy_label=names.DEPLOY_DRIVER,
    link=Link.DRIVER,
    enabled=manifest.is_enabled,
    component="driver",
    own=manifest.objects,
    original=original.objects,
    external=True,
    access=original.ACCESS,
    no_effect={
        Flavour.OWN: {
            "driver.livenessProbe": _NO_PROBE,
            "driver.readinessProbe": _NO_PROBE,
            "driver.manager": _ALONE,
            "driver.rdma": _ALONE,
            **dict.fromkeys(_SIDE_CARS, _ALONE),
        },
        Flavour.ORIGINAL: {
            "driver.livenessProbe": _NO_PROBE,
            "driver.readinessProbe": _NO_PROBE,
            "gds.args": "ignored as in the original",
            "gdrcopy.args": "ignored as in the original",
        },
    },
)
