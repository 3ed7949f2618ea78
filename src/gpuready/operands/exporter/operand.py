"""The declaration of the metrics exporter."""

from __future__ import annotations

from gpuready import names
from gpuready.chain.verdict import Link
from gpuready.operands.contract import Flavour, Operand, ours_runs
from gpuready.operands.exporter import manifest, original

OPERAND = Operand(
    name="dcgm-exporter",
    deploy_label=names.DEPLOY_EXPORTER,
    link=None,
    waits_for=(Link.DRIVER,),
    enabled=lambda policy: policy.spec.dcgm_exporter.enabled,
    component="dcgmExporter",
    own=manifest.objects,
    original=original.objects,
    access=original.ACCESS,
    check=manifest.check,
    reports_by_record=True,
    no_effect={
        Flavour.OWN: {
            **ours_runs("dcgmExporter"),
            "dcgmExporter.hostPID": "our exporter always sees the node's process ids, to tell whose they are",
        },
        Flavour.ORIGINAL: {"gpuready.exporter": "NVIDIA's exporter asks DCGM and nothing else"},
    },
)
