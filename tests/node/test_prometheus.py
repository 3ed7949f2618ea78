"""A real Prometheus scrapes a real operator: each panel has its data, and a healthy cluster alarms nobody."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.sim.conftest import StartCluster
from tests.sim.operator_cluster import Operator, policy, ready, wait_http
from tests.unit.monitoring.promql import ALERTS, DASHBOARDS, queries

from gpuready_sim.cluster.places import free_port

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus is not here (Debian package prometheus)"
)

NODES = "nodes: [{name: l4, gpus: {L4: 1}, driver: {where: host}}]"
# A fleet that is whole has no such rows.
EMPTY_WHEN_HEALTHY = {
    "What holds nodes up",
    "Nodes held up",
    "GPUs that do not work",
    "Requests refused or unanswered",
}
DEADLINE_S = 60


class Prometheus:
    def __init__(self, url: str) -> None:
        self._url = url

    async def get(self, path: str, **params: str) -> Any:
        async with aiohttp.ClientSession() as session, session.get(self._url + path, params=params) as answer:
            found = json.loads(await answer.text())
        assert found["status"] == "success", found
        return found["data"]

    async def rows(self, query: str) -> list[Any]:
        return list((await self.get("/api/v1/query", query=query))["result"])

    async def wait_for(self, query: str) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not await self.rows(query):
                await asyncio.sleep(0.2)


@asynccontextmanager
async def prometheus(target: str, directory: Path) -> AsyncIterator[Prometheus]:
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": "gpuready", "static_configs": [{"targets": [target]}]}],
    }
    path = directory / "prometheus.yaml"
    path.write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    url = f"http://{address}"
    options = [f"--config.file={path}", f"--storage.tsdb.path={directory / 'data'}"]
    with (directory / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "prometheus", *options, f"--web.listen-address={address}", stdout=log, stderr=log
        )
    try:
        await wait_http(f"{url}/-/ready", timeout_s=DEADLINE_S)
        yield Prometheus(url)
    finally:
        process.terminate()
        await process.wait()


async def test_every_panel_shows_the_fleet_and_no_alert_is_even_pending(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    cluster = await start_cluster(NODES)
    async with Operator(cluster) as operator:
        await cluster.apply(policy())
        await ready(cluster, timeout_s=DEADLINE_S)
        async with prometheus(f"127.0.0.1:{operator.metrics_port}", tmp_path) as server:
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
