"""The exporter's alerts, dashboards and reference speak only of metrics that it really shows."""

from __future__ import annotations

import re

import pytest
from monitoring.boards.written import files
from tests.unit.monitoring.exporter_metrics import DEVICE, documented, of_devices, of_ourselves
from tests.unit.monitoring.promql import (
    EXPORTER_ALERTS,
    EXPORTER_DASHBOARDS,
    alerts,
    everywhere,
    parse,
    queries,
)

from gpuready.gpu.xid import RULES, Class

TARGET = {"instance", "job"}
COMPUTED = {"up"}  # by Prometheus
EXPRESSIONS = [
    *(pytest.param(rule["expr"], id=rule["alert"]) for rule in alerts(EXPORTER_ALERTS)),
    *(
        pytest.param(everywhere(expr), id=f"{path.stem}: {title}")
        for path in EXPORTER_DASHBOARDS
        for title, expr in queries(path)
    ),
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_query_names_only_metrics_and_labels_that_exist(text: str) -> None:
    query = parse(text)

    assert query.metrics, "it looks at nothing"
    for name, asked in query.metrics.items():
        assert name in {*of_devices(), *of_ourselves(), *COMPUTED}
        assert asked <= labels_of(name) | TARGET, name
    assert query.grouping <= TARGET.union(*(labels_of(name) for name in query.metrics))


def labels_of(name: str) -> set[str]:
    return documented().get(name, DEVICE if name in of_devices() else set())


def test_the_reference_lists_every_metric_of_ours_and_no_other() -> None:
    ours = {name for name, is_ours in of_devices().items() if is_ours}

    assert set(documented()) == ours | of_ourselves()


def test_the_dashboards_are_what_their_definition_writes() -> None:
    written = files()

    assert set(written) == set(EXPORTER_DASHBOARDS)
    for path, text in written.items():
        assert path.read_text() == text, f"run `python -m monitoring.boards`: {path.name} differs"


def test_the_xid_alert_has_the_codes_after_which_a_gpu_must_be_reset_or_its_node_rebooted() -> None:
    rule = next(rule for rule in alerts(EXPORTER_ALERTS) if rule["alert"] == "GPUReadyXid")
    asked = re.findall(r"\d+", re.findall(r'xid=~"([^"]*)"', rule["expr"])[0])
    serious = (Class.RESET, Class.REMAP, Class.REBOOT)

    assert [int(code) for code in asked] == sorted(code for code, of in RULES.items() if of.kind in serious)
