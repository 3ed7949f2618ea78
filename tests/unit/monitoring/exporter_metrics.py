"""What the exporter shows: its table of fields, its own families, and what the reference says of them."""

from __future__ import annotations

import re
from functools import cache

from tests.unit.monitoring.promql import ROOT

from gpuready.gpu.telemetry import fields
from gpuready.gpu.telemetry.model import Collection
from gpuready.operands.exporter.attribution import Attribution
from gpuready.operands.exporter.families import OUR_FIELDS, Style, pod_families
from gpuready.operands.exporter.holders import Holdings
from gpuready.operands.exporter.self_metrics import Counted, own_families
from gpuready.operands.exporter.usage import Use

REFERENCE = ROOT / "docs/reference/exporter-metrics.md"
SHORT = {"gpu", "UUID", "GPU_I_PROFILE", "GPU_I_ID", "Hostname"}
POD = {"namespace", "pod", "container", "pod_uid"}
DEVICE = {*SHORT, *POD, "pci_bus_id", "device", "modelName"}


@cache
def of_devices() -> dict[str, bool]:
    """Names of series of devices, in every spelling; whether the field is ours."""
    return {name: fields.find_field(name).id >= OUR_FIELDS for name in fields.all_names()}  # type: ignore[union-attr]


def of_ourselves() -> set[str]:
    """Names of families that are no fields."""
    nothing, nobody = Collection(), Attribution()
    families = [
        *pod_families(nothing, nobody, Style(), Use(), Use()),
        *own_families(nothing, nobody, Counted(holdings=Holdings(taken_at=1.0)), 2.0),
    ]
    return {family.name for family in families}


@cache
def documented() -> dict[str, set[str]]:
    """Metric -> labels, as the reference has them."""
    found = {}
    for name, labels in re.findall(r"^\| `(\w+)` \| \w+ \|([^|]*)\|", REFERENCE.read_text(), re.M):
        words = set(re.findall(r"\w+", labels))
        if "device" in words:
            words |= DEVICE
        if "short" in words:
            words = (words - {"short"}) | SHORT
        found[name] = words
    return found
