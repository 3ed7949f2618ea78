"""Alerts, dashboards and metrics as Prometheus itself reads them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.controller.exposed import everything, scraped
from tests.unit.monitoring.promql import (
    ALERTS,
    DASHBOARDS,
    EXPORTER_ALERTS,
    EXPORTER_DASHBOARDS,
    alerts,
    everywhere,
    queries,
)
from tests.unit.operands.exporter.test_exposition import built, families

from gpuready.operands.exporter.exposition import render

RULES = [
    pytest.param(ALERTS, Path(__file__).with_name("alert_cases.yaml"), id="operator"),
    pytest.param(EXPORTER_ALERTS, Path(__file__).with_name("exporter_alert_cases.yaml"), id="exporter"),
]
# Of the original: gauges whose name ends as a counter's should.
_NOT_OURS = ("gpu_operator_gpu_nodes_total",)

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not here (Debian package prometheus)"
)


def promtool(*arguments: str, stdin: bytes = b"") -> tuple[int, str]:
    done = subprocess.run(
        ["promtool", *arguments], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60
    )
    return done.returncode, done.stdout.decode()


@pytest.mark.parametrize(("rules", "cases"), RULES)
def test_the_rules_are_ones_that_prometheus_loads(rules: Path, cases: Path) -> None:
    code, said = promtool("check", "rules", "--lint-fatal", str(rules))

    assert code == 0, said
    assert f"{len(alerts(rules))} rules found" in said


@pytest.mark.parametrize(("rules", "cases"), RULES)
def test_each_alert_fires_when_it_should_and_not_in_a_healthy_cluster(
    rules: Path, cases: Path, tmp_path: Path
) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(cases.read_text().replace("RULES", str(rules)))

    code, said = promtool("test", "rules", str(path))

    assert code == 0, said


@pytest.mark.parametrize(("rules", "cases"), RULES)
def test_no_alert_is_without_its_cases(rules: Path, cases: Path) -> None:
    tests = yaml.safe_load(cases.read_text())["tests"]
    rows = [row for case in tests for row in case["alert_rule_test"]]
    names = {rule["alert"] for rule in alerts(rules)}

    assert {row["alertname"] for row in rows if row.get("exp_alerts")} == names
    assert {row["alertname"] for row in rows if not row.get("exp_alerts")} == names


@pytest.mark.parametrize("dashboard", [*DASHBOARDS, *EXPORTER_DASHBOARDS], ids=lambda path: path.stem)
def test_prometheus_understands_every_query_of_a_dashboard(dashboard: Path, tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": everywhere(expr)}
        for number, (_, expr) in enumerate(queries(dashboard))
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    code, said = promtool("check", "rules", "--lint=none", str(path))

    assert code == 0, said
    assert f"{len(rules)} rules found" in said


@settings(max_examples=25, deadline=None)
@given(pages=st.lists(families, min_size=20, max_size=20))
def test_whatever_a_pod_or_a_gpu_is_called_prometheus_reads_the_exporters_page(pages: Any) -> None:
    rows = [
        (f"{name}_{number}", text, pod, value)
        for number, page in enumerate(pages)
        for name, text, pod, value in page
    ]

    code, said = promtool("check", "metrics", stdin=render(built(rows)))

    assert code in (0, 3), said  # 3: it has something to say about a name
    assert "error while linting" not in said


async def test_the_metrics_are_well_formed_and_well_named() -> None:
    async with scraped(**everything()) as rig:
        rig.api.observer("get", "nodes", "200")  # type: ignore[attr-defined]
        text = rig.metrics.exposition()

    code, said = promtool("check", "metrics", stdin=text)

    complaints = [line for line in said.splitlines() if line and not line.startswith(_NOT_OURS)]
    assert complaints == []
    assert code in (0, 3)  # 3: it has something to say about a name
