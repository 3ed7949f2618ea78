"""A node: what its GPUs do, together and beside each other."""

from __future__ import annotations

from monitoring.boards.shapes import BY_GPU, NODE, ON_NODE, Board, Panel


def _of_each_gpu(metric: str) -> tuple[tuple[str, str], ...]:
    return ((f"{metric}{ON_NODE}", BY_GPU),)


BOARD = Board(
    "gpuready-node",
    "gpuready: a node",
    "What the GPUs of a node do, together and beside each other.",
    (
        (
            "Node",
            (
                Panel(
                    "GPUs",
                    "How many GPUs report from here.",
                    ((f"count(DCGM_FI_DEV_GPU_TEMP{ON_NODE})", "GPUs"),),
                    kind="stat",
                    width=4,
                ),
                Panel(
                    "Held by pods",
                    "Devices, or shares of one, that pods hold.",
                    ((f"sum(gpuready_allocated_shares{ON_NODE})", "held"),),
                    kind="stat",
                    width=4,
                ),
                Panel(
                    "Power",
                    "All GPUs together.",
                    ((f"sum(DCGM_FI_DEV_POWER_USAGE{ON_NODE})", "power"),),
                    unit="watt",
                    kind="stat",
                    width=4,
                ),
                Panel(
                    "Memory in use",
                    "Share of the memory of all GPUs.",
                    (
                        (
                            f"sum(DCGM_FI_DEV_FB_USED{ON_NODE}) / "
                            f"(sum(DCGM_FI_DEV_FB_USED{ON_NODE}) + sum(DCGM_FI_DEV_FB_FREE{ON_NODE}))",
                            "used",
                        ),
                    ),
                    unit="percentunit",
                    kind="stat",
                    width=4,
                ),
                Panel(
                    "GPUs that do not answer",
                    "Their other series are absent: nothing here is a value of before.",
                    ((f"sum(gpuready_exporter_gpu_silent{ON_NODE})", "silent"),),
                    kind="stat",
                    width=4,
                    bad_above=1,
                ),
                Panel(
                    "XIDs in the last hour",
                    "Of any code; the board of health says which.",
                    ((f"round(sum(increase(gpuready_xids_total{ON_NODE}[1h])))", "XIDs"),),
                    kind="stat",
                    width=4,
                    bad_above=1,
                ),
            ),
        ),
        (
            "GPUs",
            (
                Panel(
                    "Utilisation",
                    "Share of time with a kernel on the GPU; absent while MIG is on.",
                    _of_each_gpu("DCGM_FI_DEV_GPU_UTIL"),
                    unit="percent",
                ),
                Panel(
                    "Memory in use",
                    "Of each GPU, its instances together.",
                    ((f"sum by (Hostname, gpu) (DCGM_FI_DEV_FB_USED{ON_NODE})", BY_GPU),),
                    unit="mbytes",
                ),
                Panel("Temperature", "Of each GPU.", _of_each_gpu("DCGM_FI_DEV_GPU_TEMP"), unit="celsius"),
                Panel("Power", "Of each GPU.", _of_each_gpu("DCGM_FI_DEV_POWER_USAGE"), unit="watt"),
            ),
        ),
    ),
    (NODE,),
    one=True,
)
