"""From a board to the JSON that Grafana reads: variables, places on the page, targets, options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from monitoring.boards.shapes import COLUMNS, Board, Panel

SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def page_of(board: Board) -> dict[str, Any]:
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
