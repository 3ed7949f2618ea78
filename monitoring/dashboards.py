"""The exporter's dashboards, from one short definition: `python monitoring/dashboards.py` writes them.

A panel is a title, what a reader learns from it, its queries and a unit; the place on the page follows from
the order. gpuready-fleet.json is the operator's and is kept by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24


@dataclass(frozen=True)
class Panel:
    """
    queries  (expression, legend)
    kind     timeseries, stat or table
    width    in 24ths of the page
    columns  of a table: (label, heading); "Value" is the value
    empty    what an empty panel says, where that is good news
    """

    title: str
    learn: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "none"
    kind: str = "timeseries"
    width: int = 12
    bad_above: float | None = None
    columns: tuple[tuple[str, str], ...] = ()
    empty: str = ""


@dataclass(frozen=True)
class Board:
    """
    variables  (name, label, query); $node is one of them on every board
    one        opens with one node, or one GPU, and not with all of them
    """

    uid: str
    title: str
    learn: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    variables: tuple[tuple[str, str, str], ...]
    one: bool = False


NODE = ("node", "Node", "label_values(DCGM_FI_DEV_GPU_TEMP, Hostname)")
GPU = ("gpu", "GPU", 'label_values(DCGM_FI_DEV_GPU_TEMP{Hostname=~"$node"}, gpu)')
ON_NODE = '{Hostname=~"$node"}'
ON_GPU = '{Hostname=~"$node",gpu=~"$gpu"}'
BY_GPU = "{{Hostname}} / {{gpu}}"
BY_PART = BY_GPU + " {{GPU_I_PROFILE}} {{GPU_I_ID}}"  # of whole GPUs the last two are empty
ON_INSTANCE = '{Hostname=~"$node",GPU_I_ID!=""}'
ALLOCATED = "gpuready_allocation_info"
HOLDER = (
    ("namespace", "Namespace"), ("pod", "Pod"), ("container", "Container"), ("Hostname", "Node"),
    ("gpu", "GPU"), ("GPU_I_PROFILE", "Profile"), ("GPU_I_ID", "Instance"), ("sharing", "Sharing"),
    ("replica", "Share"), ("resource", "Resource"), ("UUID", "UUID"),
)  # fmt: skip


def _both(metric: str, place: str = ON_GPU, legend: str = BY_GPU) -> tuple[tuple[str, str], ...]:
    return ((f"{metric}{place}", legend),)


BOARDS = (
    Board(
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
                        _both("DCGM_FI_DEV_GPU_UTIL", ON_NODE),
                        unit="percent",
                    ),
                    Panel(
                        "Memory in use",
                        "Of each GPU, its instances together.",
                        ((f"sum by (Hostname, gpu) (DCGM_FI_DEV_FB_USED{ON_NODE})", BY_GPU),),
                        unit="mbytes",
                    ),
                    Panel(
                        "Temperature", "Of each GPU.", _both("DCGM_FI_DEV_GPU_TEMP", ON_NODE), unit="celsius"
                    ),
                    Panel("Power", "Of each GPU.", _both("DCGM_FI_DEV_POWER_USAGE", ON_NODE), unit="watt"),
                ),
            ),
        ),
        (NODE,),
        one=True,
    ),
    Board(
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
    ),
    Board(
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
    ),
    Board(
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
    ),
    Board(
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
    ),
)


def files() -> dict[Path, str]:
    """Every file that this writes, with its text."""
    return {FOLDER / f"{board.uid}.json": json.dumps(_board(board), indent=1) + "\n" for board in BOARDS}


def _board(board: Board) -> dict[str, Any]:
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.learn,
        "tags": ["gpuready", "gpu", "kubernetes"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [_data_source(), *(_variable(*each, one=board.one) for each in board.variables)]
        },
        "annotations": {"list": []},
        "links": [],
        "panels": _panels(board),
    }


def _data_source() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
        "refresh": 1,
        "regex": "",
        "multi": False,
        "includeAll": False,
        "current": {},
    }


def _variable(name: str, label: str, query: str, *, one: bool) -> dict[str, Any]:
    """A variable that knows no "all" opens with its first value."""
    everything: dict[str, Any] = {"text": ["All"], "value": ["$__all"]}
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "hide": 0,
        "refresh": 2,
        "regex": "",
        "sort": 1,
        "multi": True,
        "includeAll": not one,
        "allValue": ".*",
        "current": {} if one else everything,
    }


def _panels(board: Board) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    y = 0
    for title, panels in board.rows:
        made.append(
            {
                "id": len(made) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
                "panels": [],
            }
        )
        x, y, height = 0, y + 1, 0
        for panel in panels:
            if x + panel.width > COLUMNS:
                x, y = 0, y + height
            height = 4 if panel.kind == "stat" else 8
            made.append(_panel(len(made) + 1, panel, {"x": x, "y": y, "w": panel.width, "h": height}))
            x += panel.width
        y += height
    return made


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_above is not None:
        steps.append({"color": "red", "value": panel.bad_above})
    instant = panel.kind != "timeseries"
    made: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.learn,
        "datasource": SOURCE,
        "gridPos": place,
        "targets": [
            {
                "refId": chr(ord("A") + position),
                "datasource": SOURCE,
                "expr": expression,
                "legendFormat": legend or "__auto",
                "instant": instant,
                "range": not instant,
                **({"format": "table"} if panel.kind == "table" else {}),
            }
            for position, (expression, legend) in enumerate(panel.queries)
        ],
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "thresholds": {"mode": "absolute", "steps": steps},
                **({"noValue": panel.empty} if panel.empty else {}),
                **(_LINES if panel.kind == "timeseries" else {}),
            },
            "overrides": [],
        },
        "options": _OPTIONS[panel.kind](panel),
    }
    if panel.columns:
        made["transformations"] = [_organized(panel)]
    return made


_LINES = {"min": 0, "custom": {"drawStyle": "line", "fillOpacity": 0, "showPoints": "never"}}
_OPTIONS: dict[str, Callable[[Panel], dict[str, Any]]] = {
    "timeseries": lambda panel: {
        "legend": {"displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": lambda panel: {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "none" if panel.bad_above is None else "background",
        "graphMode": "none",
        "textMode": "auto" if panel.width == COLUMNS else "value",
    },
    "table": lambda panel: {"showHeader": True},
}


def _organized(panel: Panel) -> dict[str, Any]:
    """Only these columns, in this order, under these headings."""
    wanted = [label for label, _ in panel.columns]
    hidden = [label for label in ("Time", "__name__", "instance", "job", "Value") if label not in wanted]
    return {
        "id": "organize",
        "options": {
            "excludeByName": dict.fromkeys(hidden, True),
            "indexByName": {label: place for place, label in enumerate(wanted)},
            "renameByName": dict(panel.columns),
        },
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
