"""A real Prometheus scrapes a real exporter: labels stay, counters count, the public dashboard works.

Three pods share one GPU and the kubelet lists them in another order each time: with NVIDIA's exporter the
pod's label moved at most scrapes, and every series by pod was broken.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.node.prometheus import Prometheus, needs_prometheus, prometheus
from tests.sim.exporter_node import GPU, ExporterNode, Pod
from tests.unit.controller.policies import raw
from tests.unit.monitoring.promql import EXPORTER_ALERTS, alerts

from gpuready.controller.policy.active import read
from gpuready.operands.contract import ClusterView
from gpuready.operands.exporter import manifest
from gpuready_sim.hardware import work
from gpuready_sim.hardware.course import Course

pytestmark = needs_prometheus

WATCHED_S = 120
HELD = "gpuready_clock_event_seconds_total"
EVERYTHING = '{__name__=~"DCGM_.*|gpuready_.*",__name__!~"gpuready_exporter_.*"}'
# By its code an XID is a series that begins at 1, which no increase can see.
FIRST = 'increase(gpuready_xids_total{gpu="1",action="CheckApplication"}[1m])'
# Grafana's public dashboard 12239: its panels' queries and its variables. Labels: instance, gpu.
PUBLIC_DASHBOARD = (
    'DCGM_FI_DEV_GPU_TEMP{instance=~".*", gpu=~".*"}',
    'avg(DCGM_FI_DEV_GPU_TEMP{instance=~".*", gpu=~".*"})',
    'DCGM_FI_DEV_POWER_USAGE{instance=~".*", gpu=~".*"}',
    'sum(DCGM_FI_DEV_POWER_USAGE{instance=~".*", gpu=~".*"})',
    'DCGM_FI_DEV_SM_CLOCK{instance=~".*", gpu=~".*"} * 1000000',
    'DCGM_FI_DEV_GPU_UTIL{instance=~".*", gpu=~".*"}',
    'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{instance=~".*", gpu=~".*"}',
    'DCGM_FI_DEV_FB_USED{instance=~".*", gpu=~".*"}',
    "count by (instance) (DCGM_FI_DEV_GPU_TEMP)",
    "count by (gpu) (DCGM_FI_DEV_GPU_TEMP)",
)


# What the original operator records on OpenShift; accelerator_memory_total_bytes needs a field that is in
# neither of the files that come with the exporter.
# Source: gpu-operator v26.3.3, assets/state-dcgm-exporter/1000_prometheus_rule_openshift.yaml.
RECORDED = {
    "accelerator_gpu_utilization": "DCGM_FI_DEV_GPU_UTIL",
    "accelerator_memory_used_bytes": "DCGM_FI_DEV_MEM_COPY_UTIL",
    "accelerator_power_usage_watts": "DCGM_FI_DEV_POWER_USAGE",
    "accelerator_temperature_celsius": "DCGM_FI_DEV_GPU_TEMP",
    "accelerator_sm_clock_hertz": "DCGM_FI_DEV_SM_CLOCK",
    "accelerator_memory_clock_hertz": "DCGM_FI_DEV_MEM_CLOCK",
}


def _rules_of_the_original(folder: Path) -> Path:
    path = folder / "recorded.yaml"
    rows = [{"record": record, "expr": expr} for record, expr in RECORDED.items()]
    path.write_text(yaml.safe_dump({"groups": [{"name": "accelerators", "rules": rows}]}))
    return path


def _endpoint() -> dict[str, Any]:
    """Of the ServiceMonitor that a policy with the exporter makes."""
    active = read(raw(dcgmExporter={"enabled": True, "serviceMonitor": {"enabled": True}}))
    assert active.policy is not None
    view = ClusterView("gpu-operator", "gpuready:1", service_monitors=True)
    [monitor] = [each for each in manifest.objects(active.policy, view) if each["kind"] == "ServiceMonitor"]
    [endpoint] = monitor["spec"]["endpoints"]
    return dict(endpoint)


@pytest.mark.timeout(400)
async def test_three_pods_share_a_gpu_and_no_label_changes_while_counters_count(tmp_path: Path) -> None:
    async with ExporterNode(tmp_path / "node", gpus=2) as node:
        shared, alone = node.uuids()
        for number, name in enumerate(("a", "b", "c")):
            node.add(Pod(name, (f"{shared}::{number}",), f"{GPU}.shared"), on=0)
        node.add(Pod("alone", (alone,)), on=1, mib=2000)
        with node.gpus() as gpus:
            work.set_load(gpus, 0, Course.sine(20, 90, 7))
            work.set_load(gpus, 1, Course.constant(60))
        await node.start(DCGM_EXPORTER_INTERVAL="500")
        target = node.url.removeprefix("http://")
        job, rules = "nvidia-dcgm-exporter", [EXPORTER_ALERTS, _rules_of_the_original(tmp_path)]
        scraped = prometheus(target, tmp_path, rules=rules, job=job, endpoint=_endpoint())
        async with scraped as server:
            await server.wait_for("count_over_time(gpuready_xids_total[1m]) >= 3")
            with node.gpus() as gpus:
                gpus.raise_xid(1, 31)
                work.throttle(gpus, 1, ["hw-thermal"])
            await server.wait_for('gpuready_xid_errors_total{xid="31"} == 1')
            await server.wait_for(f"{FIRST} > 0.5")
            [shown] = await server.rows("round(sum(increase(gpuready_xids_total[1h])))")
            assert shown["value"][1] == "1"
            for _ in range(3):
                with node.gpus() as gpus:
                    gpus.raise_xid(1, 31)
            await server.wait_for(f"count_over_time(up[5m]) >= {WATCHED_S + 5}", 2 * WATCHED_S)

            await _labels_have_stayed(server)
            await _counters_are_right(server)
            await _public_dashboard_has_data(server)
            for record in RECORDED:
                assert len(await server.rows(record)) == 2, record
            raised = (await server.get("/api/v1/alerts"))["alerts"]
            assert {each["labels"]["alertname"] for each in raised} <= {"GPUReadyGPUThrottled"}


async def test_the_first_xid_that_asks_for_a_reset_is_counted_and_raises_the_alert(tmp_path: Path) -> None:
    [rule] = [each for each in alerts(EXPORTER_ALERTS) if each["alert"] == "GPUReadyXid"]
    counted = 'increase(gpuready_xids_total{gpu="0",action="ResetGpu"}[1m])'
    async with ExporterNode(tmp_path / "node") as node:
        await node.start(DCGM_EXPORTER_INTERVAL="500")
        async with prometheus(node.url.removeprefix("http://"), tmp_path, rules=[]) as server:
            await server.wait_for("count_over_time(gpuready_xids_total[1m]) >= 3")
            assert await _value(server, counted) == 0
            assert await server.rows(rule["expr"]) == []
            with node.gpus() as gpus:
                gpus.raise_xid(0, 119)

            await server.wait_for(f"{counted} > 0.5")
            [raised] = await server.rows(rule["expr"])
            assert raised["metric"]["xid"] == "119"


async def _labels_have_stayed(server: Prometheus) -> None:
    """Every series is there from the first second to the last; counters do not go back."""
    end = float((await server.get("/api/v1/query", query="time()"))["result"][1]) - 1
    seconds = {"start": str(end - WATCHED_S), "end": str(end), "step": "1"}
    series = (await server.get("/api/v1/query_range", query=EVERYTHING, **seconds))["result"]

    assert len(series) > 100
    assert {len(each["values"]) for each in series} == {WATCHED_S + 1}, "some came or went"
    for each in series:
        values = [float(value) for _, value in each["values"]]
        if each["metric"]["__name__"].endswith("_total"):
            assert values == sorted(values), each["metric"]
    assert await _value(server, f"min_over_time(up[{WATCHED_S}s])") == 1
    holders = await server.rows('gpuready_allocation_info{sharing!="exclusive"}')
    assert sorted(row["metric"]["pod"] for row in holders) == ["a", "b", "c"]
    assert await _value(server, 'count(DCGM_FI_DEV_GPU_TEMP{pod="alone"})') == 1
    assert await server.rows('{__name__=~".+",exported_pod!=""}') == []


async def _counters_are_right(server: Prometheus) -> None:
    window = f"{WATCHED_S - 5}s"
    counted = await _value(server, f'increase(gpuready_xid_errors_total{{xid="31"}}[{WATCHED_S + 5}s])')
    watts = await _value(server, f'avg_over_time(DCGM_FI_DEV_POWER_USAGE{{gpu="1"}}[{window}])')
    joules = await _value(server, f'rate(gpuready_energy_joules_total{{gpu="1"}}[{window}])')
    held = await _value(server, f'rate({HELD}{{gpu="1",reason="thermal"}}[{window}])')
    used = await _value(server, 'sum(gpuready_pod_memory_used_bytes{gpu="0"})')
    device = await _value(server, 'sum(DCGM_FI_DEV_FB_USED{gpu="0"}) * 1048576')

    assert counted == pytest.approx(3, rel=0.35)  # Prometheus extrapolates to the ends of its window
    assert joules == pytest.approx(watts, rel=0.05)
    assert held == pytest.approx(1, rel=0.05)
    assert used <= device
    assert used == 3 * 500 * 2**20


async def _public_dashboard_has_data(server: Prometheus) -> None:
    for query in PUBLIC_DASHBOARD:
        assert await server.rows(query), query


async def _value(server: Prometheus, query: str) -> float:
    rows = await server.rows(query)
    assert len(rows) == 1, f"{query}: {rows}"
    return float(rows[0]["value"][1])
