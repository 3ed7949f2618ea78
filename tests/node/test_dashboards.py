"""Every panel of every dashboard shows something where what it is about has happened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.node.fleet_scene import fleet
from tests.node.panel_drawing import drawn
from tests.node.panels import Shown, evaluate
from tests.node.prometheus import Prometheus, needs_prometheus
from tests.unit.monitoring.promql import DASHBOARDS, EXPORTER_DASHBOARDS

pytestmark = [needs_prometheus, pytest.mark.asyncio(loop_scope="module")]

IDLE = "max by (namespace, pod) (gpuready_allocation_idle_seconds)"
# Ten minutes without work, and an API server that refuses something all the time, are too long to wait for.
NOT_SEEN_HERE = {"Held but idle", "Requests refused or unanswered"}
HELD_UP = "max by (node, link, reason) (gpuready_node_held_up) == 1"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(state_home: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Prometheus]:
    async with fleet(tmp_path_factory.mktemp("fleet")) as running:
        for happened in (
            HELD_UP,
            "max by (node) (gpuready_node_gpus_unhealthy) > 0",
            'gpuready_xid_errors_total{xid="48"}',
            "gpuready_exporter_gpu_silent > 0",
            'rate(gpuready_clock_event_seconds_total{reason="thermal"}[20s]) > 0.1',
            "DCGM_FI_DEV_ROW_REMAP_FAILURE > 0",
            f"{IDLE} > 5",
            "count_over_time(gpuready_leader[1m]) > 5",
        ):
            await running.wait_for(happened)
        yield running


@pytest.mark.parametrize("dashboard", [*DASHBOARDS, *EXPORTER_DASHBOARDS], ids=lambda path: path.stem)
async def test_every_panel_has_its_data_and_every_line_a_name_of_its_own(
    server: Prometheus, dashboard: Path
) -> None:
    shown = await evaluate(server, dashboard, 60)

    panels = [each for each in shown if each.panel["type"] != "row" and each.title not in NOT_SEEN_HERE]
    assert len(panels) >= 4
    assert [f"{each.title}: {query}" for each in panels for query in _without_rows(each)] == []
    for each in panels:
        if each.panel["type"] == "timeseries":
            legends = [row.legend for rows in each.rows for row in rows]
            assert sorted(set(legends)) == sorted(legends), f"{each.title}: lines that nobody can tell apart"
    assert drawn(shown, dashboard.stem).count("No data") == 0


async def test_who_holds_a_gpu_for_nothing_is_shown_by_pod(server: Prometheus) -> None:
    idle = {row["metric"]["pod"]: float(row["value"][1]) for row in await server.rows(IDLE)}

    assert idle["forgotten"] > 5
    assert idle["train-0"] < 5


def _without_rows(shown: Shown) -> list[str]:
    pairs = zip(shown.panel["targets"], shown.rows, strict=True)
    return [target["expr"] for target, rows in pairs if not rows]
