"""What doctor finds in a snapshot, and what its tests share: links that are not whole, a pod that waits."""

from __future__ import annotations

from tests.unit.tools.cluster import link, pod

from gpuready.tools.doctor.analysis import report_of
from gpuready.tools.doctor.finding import Finding
from gpuready.tools.snapshot import Snapshot


def findings(snapshot: Snapshot) -> list[Finding]:
    return list(report_of(snapshot).findings)


def told(finding: Finding) -> str:
    return " ".join([finding.message, *finding.evidence, finding.next_step])


MISMATCH = link(
    "driver",
    "broken",
    "DriverLibraryMismatch",
    "driver/library version mismatch: library 570.9, module 570.1",
    evidence=["module nvidia 570.1 is loaded"],
    nextStep="reload the NVIDIA modules, or reboot the node",
)
WAITING_PLUGIN = link("device-plugin", "waiting", "WaitingForDriver", "for driver: DriverLibraryMismatch")
ILL = link(
    "device-plugin",
    "degraded",
    "UnhealthyDevices",
    "1 of 8 GPUs unhealthy: GPU 3 (GPU-d5-3): XID 79",
    nextStep="GPU 3: reboot the node",
)
LOST = link("device-plugin", "broken", "KubeletShowsNothing", "the Node shows none")
WANTS_ONE = pod("train", gpus=1)
