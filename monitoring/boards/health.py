"""The health of GPUs: XIDs, errors that are counted, what holds clocks back; and of the exporter."""

from __future__ import annotations

from monitoring.boards.shapes import BY_GPU, NODE, ON_NODE, Board, Panel

BOARD = Board(
    "gpuready-health",
    "gpuready: health of GPUs",
    "XIDs, errors that are counted, what holds clocks back, and how the exporter itself does.",
    (
        (
            "GPUs",
            (
                Panel(
                    "XIDs",
                    "By code, since the exporter started; they never go back.",
                    (
                        (
                            f"sum by (Hostname, gpu, xid) (gpuready_xid_errors_total{ON_NODE})",
                            "XID {{xid}} " + BY_GPU,
                        ),
                    ),
                    empty="none",
                ),
                Panel(
                    "Rows remapped",
                    "For errors that could not be corrected, and whether one could not be remapped.",
                    (
                        (f"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{ON_NODE}", "uncorrectable " + BY_GPU),
                        (f"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS{ON_NODE}", "correctable " + BY_GPU),
                        (f"DCGM_FI_DEV_ROW_REMAP_FAILURE{ON_NODE} > 0", "failed " + BY_GPU),
                    ),
                ),
                Panel(
                    "PCIe replays",
                    "A link that replays is slow and may be loose.",
                    (
                        (
                            f"increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER{ON_NODE}[$__rate_interval])",
                            BY_GPU,
                        ),
                    ),
                ),
                Panel(
                    "Held back by heat or power",
                    "Share of time; low use and chosen clocks left out.",
                    (
                        (
                            "rate(gpuready_clock_event_seconds_total"
                            '{Hostname=~"$node",reason!~"low_utilization|app_clocks|base_clocks"}'
                            "[$__rate_interval]) > 0",
                            "{{reason}} " + BY_GPU,
                        ),
                    ),
                    unit="percentunit",
                    empty="nothing",
                ),
            ),
        ),
        (
            "The exporter",
            (
                Panel(
                    "GPUs that do not answer",
                    "1: its other series are absent.",
                    ((f"gpuready_exporter_gpu_silent{ON_NODE} > 0", BY_GPU),),
                    empty="none",
                ),
                Panel(
                    "Age of samples and of the mapping to pods",
                    "Older than two intervals, samples are no longer shown.",
                    (
                        (
                            "max by (instance) (gpuready_exporter_sample_age_seconds)",
                            "samples {{instance}}",
                        ),
                        ("gpuready_exporter_mapping_age_seconds", "pods {{instance}}"),
                    ),
                    unit="s",
                ),
                Panel(
                    "Time of a look, and of making the page",
                    "Scrapes wait for neither.",
                    (
                        ("gpuready_exporter_collection_seconds", "look {{instance}}"),
                        ("gpuready_exporter_render_seconds", "page {{instance}}"),
                    ),
                    unit="s",
                ),
                Panel(
                    "Fields without a value",
                    "Which field, why, on how many devices.",
                    (
                        (
                            "sum by (field, reason) (gpuready_exporter_absent_fields)",
                            "",
                        ),
                    ),
                    kind="table",
                    columns=(("field", "Field"), ("reason", "Why"), ("Value", "Devices")),
                    empty="none",
                ),
            ),
        ),
    ),
    (NODE,),
)
