"""Which metrics and labels a PromQL expression speaks of: as much grammar as our own rules need."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "monitoring/alerts/gpuready.yaml"
EXPORTER_ALERTS = ROOT / "monitoring/alerts/gpuready-exporter.yaml"
# The fleet's is of the operator's metrics, the others are of the exporter's.
DASHBOARDS = [ROOT / "monitoring/dashboards/gpuready-fleet.json"]
EXPORTER_DASHBOARDS = sorted(set((ROOT / "monitoring/dashboards").glob("*.json")) - set(DASHBOARDS))
RUNBOOKS = ROOT / "docs/guides/runbooks"

_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*(\{[^}]*\})?\s*(\()?")
_MATCHER = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*\"")
_WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}


@dataclass(frozen=True)
class Expression:
    """metrics: name -> labels that its selectors match on; grouping: labels that results are grouped by."""

    text: str
    metrics: dict[str, frozenset[str]]
    grouping: frozenset[str]


def parse(text: str) -> Expression:
    grouping = {label.strip() for found in _GROUPING.findall(text) for label in found.split(",")}
    bare = _RANGE.sub("", _GROUPING.sub(" ", text))
    metrics: dict[str, frozenset[str]] = {}
    for name, matchers, call in _SELECTOR.findall(bare):
        if not call and name.lower() not in _WORDS:
            metrics[name] = metrics.get(name, frozenset()) | frozenset(_MATCHER.findall(matchers))
    return Expression(text, metrics, frozenset(grouping - {""}))


def alerts(path: Path = ALERTS) -> list[dict[str, Any]]:
    groups = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels(dashboard: Path) -> list[dict[str, Any]]:
    return list(json.loads(dashboard.read_text())["panels"])


def queries(dashboard: Path) -> Iterator[tuple[str, str]]:
    """(title of the panel, expression)."""
    for panel in panels(dashboard):
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def everywhere(expression: str) -> str:
    """A query as Grafana sends it with all nodes chosen."""
    return re.sub(r"\$(node|gpu|namespace)\b", ".*", expression).replace("$__rate_interval", "5m")
