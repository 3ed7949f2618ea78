"""A real Prometheus scrapes a real operator: each panel has its data, and a healthy cluster alarms nobody."""

from __future__ import annotations

from pathlib import Path

from tests.node.prometheus import DEADLINE_S, needs_prometheus, prometheus
from tests.sim.conftest import StartCluster
from tests.sim.operator_cluster import Operator, policy, ready
from tests.unit.monitoring.promql import ALERTS, DASHBOARDS, queries

pytestmark = needs_prometheus

NODES = "nodes: [{name: l4, gpus: {L4: 1}, driver: {where: host}}]"
# A fleet that is whole has no such rows.
EMPTY_WHEN_HEALTHY = {
    "What holds nodes up",
    "Nodes held up",
    "GPUs that do not work",
    "Requests refused or unanswered",
}


async def test_every_panel_shows_the_fleet_and_no_alert_is_even_pending(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    cluster = await start_cluster(NODES)
    async with Operator(cluster) as operator:
        await cluster.apply(policy())
        await ready(cluster, timeout_s=DEADLINE_S)
        async with prometheus(f"127.0.0.1:{operator.metrics_port}", tmp_path, rules=[ALERTS]) as server:
            await server.wait_for("count_over_time(gpuready_leader[1m]) >= 3")
            await server.wait_for("max(gpu_operator_reconciliation_status) == 1")

            for dashboard in DASHBOARDS:
                for title, query in queries(dashboard):
                    found = await server.rows(query.replace("$__rate_interval", "30s"))
                    if title in EMPTY_WHEN_HEALTHY:
                        continue
                    assert found, f"{title}: {query}"
            alerts = (await server.get("/api/v1/alerts"))["alerts"]
            # It has just written all that it has to write.
            raised = {each["labels"]["alertname"] for each in alerts} - {"GPUReadyWritesNeverEnd"}
            assert raised == set()
