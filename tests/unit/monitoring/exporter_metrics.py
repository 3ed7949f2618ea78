"""What the exporter shows: its table of fields, its own families, and what the reference says of them."""

from __future__ import annotations

import re
from functools import cache

from tests.unit.monitoring.promql import ROOT

from gpuready.gpu.telemetry import fields
from gpuready.gpu.telemetry.model import Collection, Engine
from gpuready.operands.exporter.attribution import Attribution
from gpuready.operands.exporter.families import OUR_FIELDS, Style, pod_families
from gpuready.operands.exporter.holders import Holdings
from gpuready.operands.exporter.self_metrics import Counted, own_families
from gpuready.operands.exporter.usage import Use

REFERENCE = ROOT / "docs/reference/exporter.md"
SHORT = {"gpu", "UUID", "GPU_I_PROFILE", "GPU_I_ID", "Hostname"}
POD = {"namespace", "pod", "container", "pod_uid"}
DEVICE = {*SHORT, *POD, "pci_bus_id", "device", "modelName"}


@cache
def of_devices() -> dict[str, bool]:
    """Names of series of devices, in every spelling; whether the field is ours."""
    return {name: fields.find_field(name).id >= OUR_FIELDS for name in fields.all_names()}  # type: ignore[union-attr]


def of_ourselves() -> set[str]:
    """Names of families that are no fields."""
    nothing, nobody = Collection(engine=Engine("embedded")), Attribution()
    families = [
        *pod_families(nothing, nobody, Style(), Use(), Use()),
        *own_families(nothing, nobody, Counted(holdings=Holdings(taken_at=1.0)), 2.0),
    ]
    return {family.name for family in families}


@cache
def documented() -> dict[str, set[str]]:
    """Metric -> labels, as the reference has them; its tables of devices leave the device's own out."""
    found = {}
    for part in re.split(r"^## ", REFERENCE.read_text(), flags=re.M):
        of_device = "labels beside the device's" in part
        for name, labels in re.findall(r"^\| `(gpuready_\w+)` \|([^|]*)\|", part, re.M):
            found[name] = set(re.findall(r"\w+", labels)) | (_of_device(name) if of_device else set())
    return found


def _of_device(name: str) -> set[str]:
    return DEVICE if name in of_devices() else SHORT
