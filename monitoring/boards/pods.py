"""Pods and their GPUs: who holds which, uses how much of it, or does nothing with it."""

from __future__ import annotations

from monitoring.boards.shapes import BY_GPU, NODE, ON_NODE, Board, Panel

ALLOCATED = "gpuready_allocation_info"
HOLDER = (
    ("namespace", "Namespace"), ("pod", "Pod"), ("container", "Container"), ("Hostname", "Node"),
    ("gpu", "GPU"), ("GPU_I_PROFILE", "Profile"), ("GPU_I_ID", "Instance"), ("sharing", "Sharing"),
    ("replica", "Share"), ("resource", "Resource"), ("UUID", "UUID"),
)  # fmt: skip

BOARD = Board(
    "gpuready-pods",
    "gpuready: pods and their GPUs",
    "Who holds which GPU, how much each pod uses of it, and who holds one and does nothing.",
    (
        (
            "Pods",
            (
                Panel(
                    "Who holds what",
                    "One line for each device, or share of one, that a container holds.",
                    ((f'{ALLOCATED}{{Hostname=~"$node",namespace=~"$namespace"}}', ""),),
                    kind="table",
                    width=24,
                    columns=HOLDER,
                ),
                Panel(
                    "Memory by pod",
                    "Of the pod's own processes, also where several pods share a GPU.",
                    (
                        (
                            "sum by (namespace, pod) (gpuready_pod_memory_used_bytes"
                            '{Hostname=~"$node",namespace=~"$namespace"})',
                            "{{namespace}}/{{pod}}",
                        ),
                    ),
                    unit="bytes",
                ),
                Panel(
                    "GPU time by pod",
                    "Share of a GPU's time; 2 is two whole GPUs. MIG instances have no such value.",
                    (
                        (
                            "sum by (namespace, pod) (gpuready_pod_sm_utilization_ratio"
                            '{Hostname=~"$node",namespace=~"$namespace"})',
                            "{{namespace}}/{{pod}}",
                        ),
                    ),
                    unit="percentunit",
                ),
                Panel(
                    "Held but idle",
                    "For how long a device that a pod holds has done nothing.",
                    (
                        (
                            "max by (namespace, pod) (gpuready_allocation_idle_seconds"
                            '{Hostname=~"$node",namespace=~"$namespace"}) > 600',
                            "{{namespace}}/{{pod}}",
                        ),
                    ),
                    unit="s",
                    empty="nobody for ten minutes",
                ),
                Panel(
                    "Used by nobody known",
                    "Memory of GPUs that belongs to no pod: programs of the host, pods that have gone.",
                    (
                        (
                            f"sum by (Hostname, gpu) (gpuready_unattributed_memory_used_bytes{ON_NODE})",
                            BY_GPU,
                        ),
                    ),
                    unit="bytes",
                ),
            ),
        ),
    ),
    (NODE, ("namespace", "Namespace", f"label_values({ALLOCATED}, namespace)")),
)
