"""The declaration of the container toolkit."""

from __future__ import annotations

from gpuready import names
from gpuready.chain.verdict import Link
from gpuready.operands.contract import Flavour, Operand, ours_runs
from gpuready.operands.toolkit import manifest, original

OPERAND = Operand(
    name="toolkit",
    deploy_label=names.DEPLOY_TOOLKIT,
    link=Link.TOOLKIT,
    waits_for=(Link.DRIVER,),
    enabled=lambda policy: policy.spec.toolkit.enabled,
    component="toolkit",
    own=manifest.objects,
    undoes=True,
    original=original.objects,
    access=original.ACCESS,
    check=manifest.check,
    no_effect={
        Flavour.ORIGINAL: {
            "toolkit.args": "ignored as in the original",
            "gpuready.toolkit": "NVIDIA's toolkit restarts the runtime without asking",
        },
        Flavour.OWN: {
            "toolkit.args": "flags of NVIDIA's program; ours takes the same settings from env",
            **ours_runs("toolkit"),
        },
    },
)
