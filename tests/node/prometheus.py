"""A real Prometheus that scrapes what a test gives it."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.sim.operator_cluster import wait_http

from gpuready_sim.cluster.places import free_port

DEADLINE_S = 60
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus is not here (Debian package prometheus)"
)


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

    async def wait_for(self, query: str, timeout_s: float = DEADLINE_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not await self.rows(query):
            assert time.monotonic() < deadline, f"nothing in {timeout_s:g} s: {query}"
            await asyncio.sleep(0.2)


@asynccontextmanager
async def prometheus(
    target: str,
    directory: Path,
    *,
    rules: Sequence[Path],
    job: str = "gpuready",
    more: Mapping[str, Sequence[str]] | None = None,
    endpoint: Mapping[str, Any] | None = None,
) -> AsyncIterator[Prometheus]:
    """Scrapes `target` every second, and `more` by job, and evaluates the rules as often.

    endpoint  of a ServiceMonitor: `target` is then scraped as the Prometheus operator would have it scraped
    """
    found = {"honor_labels": True, "static_configs": [{"targets": [target]}]}
    others = {
        name: {**found, "static_configs": [{"targets": [*each]}]} for name, each in (more or {}).items()
    }
    jobs = {job: found if endpoint is None else _monitored(target, endpoint), **others}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [{"job_name": name, **scraped} for name, scraped in jobs.items()],
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


def _monitored(target: str, endpoint: Mapping[str, Any]) -> dict[str, Any]:
    """With the labels of the exporter's own pod, as the Prometheus operator finds them, then our relabelings.

    Source: prometheus-operator, pkg/prometheus/promcfg.go (generateServiceMonitorConfig).
    """
    pod = {"pod": "nvidia-dcgm-exporter-x7k2p", "container": "nvidia-dcgm-exporter"}
    labels = {
        "namespace": "gpu-operator",
        **pod,
        "service": "nvidia-dcgm-exporter",
        "endpoint": endpoint["port"],
    }
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    relabelings = [
        {names.get(name, name): value for name, value in each.items()}
        for each in endpoint.get("relabelings", ())
    ]
    return {
        "honor_labels": bool(endpoint.get("honorLabels")),
        "metrics_path": endpoint["path"],
        "static_configs": [{"targets": [target], "labels": labels}],
        "relabel_configs": relabelings,
    }
