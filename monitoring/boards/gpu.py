"""A GPU in detail: clocks, what holds them back, links, engines."""

from __future__ import annotations

from monitoring.boards.shapes import BY_GPU, NODE, Board, Panel

GPU = ("gpu", "GPU", 'label_values(DCGM_FI_DEV_GPU_TEMP{Hostname=~"$node"}, gpu)')
ON_GPU = '{Hostname=~"$node",gpu=~"$gpu"}'
BY_PART = BY_GPU + " {{GPU_I_PROFILE}} {{GPU_I_ID}}"  # of whole GPUs the last two are empty

BOARD = Board(
    "gpuready-gpu",
    "gpuready: a GPU",
    "One GPU in detail: clocks, what holds them back, links, engines.",
    (
        (
            "Work",
            (
                Panel(
                    "Engines",
                    "Shares of time; by performance monitoring where the GPU has it (Hopper and newer).",
                    (
                        (f"DCGM_FI_DEV_GPU_UTIL{ON_GPU} / 100", "kernel " + BY_GPU),
                        (f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{ON_GPU}", "graphics or compute " + BY_PART),
                        (f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{ON_GPU}", "tensor " + BY_PART),
                        (f"DCGM_FI_PROF_DRAM_ACTIVE{ON_GPU}", "memory " + BY_PART),
                    ),
                    unit="percentunit",
                    width=8,
                ),
                Panel(
                    "Memory",
                    "In use, free, and kept by the driver; instances together.",
                    (
                        (f"sum by (Hostname, gpu) (DCGM_FI_DEV_FB_USED{ON_GPU})", "used " + BY_GPU),
                        (f"sum by (Hostname, gpu) (DCGM_FI_DEV_FB_FREE{ON_GPU})", "free " + BY_GPU),
                        (
                            f"sum by (Hostname, gpu) (DCGM_FI_DEV_FB_RESERVED{ON_GPU})",
                            "reserved " + BY_GPU,
                        ),
                    ),
                    unit="mbytes",
                    width=8,
                ),
                Panel(
                    "Video engines",
                    "Encoder and decoder.",
                    (
                        (f"DCGM_FI_DEV_ENC_UTIL{ON_GPU}", "encoder " + BY_GPU),
                        (f"DCGM_FI_DEV_DEC_UTIL{ON_GPU}", "decoder " + BY_GPU),
                    ),
                    unit="percent",
                    width=8,
                ),
            ),
        ),
        (
            "Clocks, heat and power",
            (
                Panel(
                    "Clocks",
                    "Of the multiprocessors and of the memory.",
                    (
                        (f"DCGM_FI_DEV_SM_CLOCK{ON_GPU} * 1000000", "SM " + BY_GPU),
                        (f"DCGM_FI_DEV_MEM_CLOCK{ON_GPU} * 1000000", "memory " + BY_GPU),
                    ),
                    unit="hertz",
                ),
                Panel(
                    "Held back",
                    "Share of time for which a reason held the clocks back.",
                    (
                        (
                            f"rate(gpuready_clock_event_seconds_total{ON_GPU}[$__rate_interval]) > 0",
                            "{{reason}} " + BY_GPU,
                        ),
                    ),
                    unit="percentunit",
                    empty="nothing",
                ),
                Panel(
                    "Temperature",
                    "Of the chip and of the memory.",
                    (
                        (f"DCGM_FI_DEV_GPU_TEMP{ON_GPU}", "GPU " + BY_GPU),
                        (f"DCGM_FI_DEV_MEMORY_TEMP{ON_GPU}", "memory " + BY_GPU),
                    ),
                    unit="celsius",
                ),
                Panel(
                    "Power",
                    "Measured now, and from the energy counter, which misses nothing between scrapes.",
                    (
                        (f"DCGM_FI_DEV_POWER_USAGE{ON_GPU}", "now " + BY_GPU),
                        (
                            f"rate(gpuready_energy_joules_total{ON_GPU}[$__rate_interval])",
                            "average " + BY_GPU,
                        ),
                    ),
                    unit="watt",
                ),
            ),
        ),
        (
            "Links",
            (
                Panel(
                    "NVLink",
                    "All links together.",
                    (
                        (
                            f"rate(gpuready_nvlink_transmit_bytes_total{ON_GPU}[$__rate_interval])",
                            "sent " + BY_GPU,
                        ),
                        (
                            f"rate(gpuready_nvlink_receive_bytes_total{ON_GPU}[$__rate_interval])",
                            "received " + BY_GPU,
                        ),
                    ),
                    unit="Bps",
                ),
                Panel(
                    "PCIe",
                    "By performance monitoring where the GPU has it.",
                    (
                        (f"DCGM_FI_PROF_PCIE_TX_BYTES{ON_GPU}", "sent " + BY_GPU),
                        (f"DCGM_FI_PROF_PCIE_RX_BYTES{ON_GPU}", "received " + BY_GPU),
                    ),
                    unit="Bps",
                ),
            ),
        ),
    ),
    (NODE, GPU),
    one=True,
)
