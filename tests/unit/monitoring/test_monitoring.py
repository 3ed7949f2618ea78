"""Alerts, runbooks and dashboards speak only of metrics that the operator really shows."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path

import pytest
from tests.unit.controller.exposed import everything, scraped
from tests.unit.monitoring.promql import (
    DASHBOARDS,
    EXPORTER_ALERTS,
    EXPORTER_DASHBOARDS,
    ROOT,
    RUNBOOKS,
    alerts,
    panels,
    parse,
    queries,
)

REFERENCE = ROOT / "docs/reference/metrics.md"
# Labels that Prometheus itself gives to every sample.
TARGET_LABELS = {"instance", "job"}
ALL_ALERTS = [*alerts(), *alerts(EXPORTER_ALERTS)]
EXPRESSIONS = [
    *(pytest.param(rule["expr"], id=rule["alert"]) for rule in alerts()),
    *(pytest.param(expr, id=f"{path.stem}: {title}") for path in DASHBOARDS for title, expr in queries(path)),
]


@pytest.fixture
async def labels_of() -> dict[str, set[str]]:
    """Every metric of a cluster in which everything occurs, with its labels."""
    async with scraped(**everything()) as rig:
        rig.api.observer("get", "nodes", "200")  # type: ignore[attr-defined]
        rows = rig.rows()
    return {name: {label for labels in by for label, _ in labels} for name, by in rows.items()}


@pytest.mark.parametrize("text", EXPRESSIONS)
async def test_a_query_names_only_metrics_and_labels_that_exist(
    text: str, labels_of: dict[str, set[str]]
) -> None:
    query = parse(text)

    assert query.metrics, "it looks at nothing"
    assert [name for name in query.metrics if name not in labels_of] == []
    for name, asked in query.metrics.items():
        assert asked <= labels_of[name] | TARGET_LABELS, name
    known = TARGET_LABELS.union(*(labels_of[name] for name in query.metrics))
    assert query.grouping <= known


def test_the_parser_of_this_test_sees_metrics_and_labels() -> None:
    text = 'sum by (loop, le) (rate(a_bucket{x=~"1|2"}[5m])) > 0.1 * scalar(max(b_total)) or vector(0)'
    query = parse(text)

    assert query.metrics == {"a_bucket": {"x"}, "b_total": frozenset()}
    assert query.grouping == {"loop", "le"}


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["alert"]) for rule in ALL_ALERTS])
def test_an_alert_says_what_is_wrong_how_bad_it_is_and_where_help_is(rule: dict[str, dict[str, str]]) -> None:
    name, told = str(rule["alert"]), rule["annotations"]
    page = ROOT / told["runbook"]

    assert page == RUNBOOKS / f"{name}.md"
    text = page.read_text()
    assert text.startswith(f"# {name}\n")
    for part in ("**Means.**", "**Look.**", "**Do.**"):
        assert part in text, f"{page.name} lacks {part}"
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["for"]
    assert told["summary"]
    assert told["description"]


def test_every_runbook_has_its_alert_and_its_links_lead_somewhere() -> None:
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == {rule["alert"] for rule in ALL_ALERTS}
    for page in RUNBOOKS.glob("*.md"):
        for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_runbooks_name_only_reasons_that_the_product_gives() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src/gpuready").rglob("*.py"))
    for page in RUNBOOKS.glob("*.md"):
        for reason in re.findall(r"`([A-Z][a-z]+(?:[A-Z][A-Za-z]*)+)`", page.read_text()):
            assert f'"{reason}"' in source, f"{page.name}: {reason}"


def test_the_reference_lists_every_metric_with_its_labels(labels_of: dict[str, set[str]]) -> None:
    lines = re.findall(r"^\| `(\w+)` \|(.*)\|$", REFERENCE.read_text(), re.M)
    told = {name: _labels_in(rest.split("|")) for name, rest in lines}
    shown = {name: labels - {"le"} for name, labels in labels_of.items() if not name.startswith("process_")}
    for name in [name for name in shown if name.endswith(("_bucket", "_sum", "_count", "_created"))]:
        labels = shown.pop(name)
        if not name.endswith("_created"):
            shown[name.rpartition("_")[0]] = labels

    assert told == shown


@pytest.mark.parametrize("path", [*DASHBOARDS, *EXPORTER_DASHBOARDS], ids=lambda path: path.stem)
def test_a_dashboard_is_one_that_grafana_can_load(path: Path) -> None:
    board = json.loads(path.read_text())

    assert board["uid"]
    assert board["title"]
    assert board["schemaVersion"] >= 30
    assert "id" not in board, "the id belongs to the Grafana that imports it"
    sources = [each["name"] for each in board["templating"]["list"] if each["type"] == "datasource"]
    assert sources == ["datasource"], "whoever imports it chooses the data source"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    for panel in panels(path):
        _check_panel(panel)
    for one, other in combinations(panels(path), 2):
        assert not _overlap(one["gridPos"], other["gridPos"]), f"{one['title']} covers {other['title']}"


def _labels_in(cells: list[str]) -> set[str]:
    """Of type, labels, meaning; the original's metrics have no column for labels."""
    return set(re.findall(r"\w+", cells[1])) if len(cells) == 3 else set()


def _check_panel(panel: dict[str, object]) -> None:
    title, where = panel["title"], panel["gridPos"]
    assert title
    assert isinstance(where, dict)
    assert 0 <= where["x"] < where["x"] + where["w"] <= 24, title
    if panel["type"] == "row":
        return
    assert panel["description"], f"{title}: what does a reader learn from it?"
    targets = panel["targets"]
    assert isinstance(targets, list)
    assert targets
    refs = [target["refId"] for target in targets]
    assert len(refs) == len(set(refs)), title
    for part in (panel, *targets):
        assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, title


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    return not (beside or above)
