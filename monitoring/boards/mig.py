"""GPUs that are cut up: their instances, who holds them, how much they do."""

from __future__ import annotations

from monitoring.boards.shapes import BY_GPU, NODE, Board, Panel

ON_INSTANCE = '{Hostname=~"$node",GPU_I_ID!=""}'

BOARD = Board(
    "gpuready-mig",
    "gpuready: MIG",
    "GPUs that are cut up: their instances, who holds them, how much they do.",
    (
        (
            "Instances",
            (
                Panel(
                    "Instances by profile",
                    "How many there are on the nodes chosen.",
                    (
                        (
                            f"count by (GPU_I_PROFILE) (DCGM_FI_DEV_FB_USED{ON_INSTANCE})",
                            "{{GPU_I_PROFILE}}",
                        ),
                    ),
                    kind="stat",
                    width=24,
                ),
                Panel(
                    "Memory in use",
                    "Of each instance.",
                    (
                        (
                            f"DCGM_FI_DEV_FB_USED{ON_INSTANCE}",
                            BY_GPU + " / {{GPU_I_ID}} {{GPU_I_PROFILE}}",
                        ),
                    ),
                    unit="mbytes",
                ),
                Panel(
                    "Engine in use",
                    "Of each instance, by performance monitoring; MIG has no other utilisation.",
                    (
                        (
                            f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{ON_INSTANCE}",
                            BY_GPU + " / {{GPU_I_ID}} {{GPU_I_PROFILE}}",
                        ),
                    ),
                    unit="percentunit",
                ),
                Panel(
                    "Held by pods",
                    "Instances that a pod holds, by profile.",
                    (
                        (
                            f"sum by (GPU_I_PROFILE) (gpuready_allocated_shares{ON_INSTANCE})",
                            "{{GPU_I_PROFILE}}",
                        ),
                    ),
                ),
                Panel(
                    "Power of the whole GPUs",
                    "Once for each GPU, however many instances it has: sums are right.",
                    (
                        (
                            'DCGM_FI_DEV_POWER_USAGE{Hostname=~"$node"} and on (Hostname, UUID) '
                            'count by (Hostname, UUID) (DCGM_FI_DEV_FB_USED{GPU_I_ID!=""})',
                            BY_GPU,
                        ),
                    ),
                    unit="watt",
                ),
            ),
        ),
    ),
    (NODE,),
)
