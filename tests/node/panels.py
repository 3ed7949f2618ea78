"""A dashboard as Grafana asks for it: each panel's queries, with the variables filled in, and what came back.

`python -m tests.node.panels FOLDER` draws all dashboards over a simulated fleet (fleet_scene.py), to be
looked at after a change to one of them; with rsvg-convert (Debian package librsvg2-bin) as PNG too.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.node.prometheus import Prometheus
from tests.unit.monitoring.promql import DASHBOARDS, EXPORTER_DASHBOARDS

RANGE_S, POINTS = 240, 120


@dataclass(frozen=True)
class Row:
    """labels, what the legend says of them, and (seconds, value) pairs; a single one of an instant query."""

    labels: Mapping[str, str]
    legend: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Shown:
    """`panel` as the dashboard's JSON has it; `rows` of each of its queries."""

    panel: Mapping[str, Any]
    rows: Sequence[Sequence[Row]]

    @property
    def title(self) -> str:
        return str(self.panel["title"])


async def evaluate(server: Prometheus, dashboard: Path, range_s: float = RANGE_S) -> list[Shown]:
    board = json.loads(dashboard.read_text())
    chosen = {each["name"]: ".*" for each in board["templating"]["list"] if each["type"] == "query"}
    shown = []
    for panel in board["panels"]:
        rows = [await _rows(server, target, chosen, range_s) for target in panel.get("targets", ())]
        shown.append(Shown(panel, rows))
    return shown


async def _rows(
    server: Prometheus, target: Mapping[str, Any], chosen: Mapping[str, str], range_s: float
) -> list[Row]:
    query = re.sub(r"\$(\w+)", lambda match: chosen.get(match[1], match[0]), target["expr"])
    query = query.replace("$__rate_interval", "20s")
    if target.get("instant"):
        found = await server.rows(query)
        return [_row(each["metric"], target, [each["value"]]) for each in found]
    now = float((await server.get("/api/v1/query", query="time()"))["result"][1])
    asked = {"start": f"{now - range_s}", "end": f"{now}", "step": f"{range_s / POINTS}"}
    series = (await server.get("/api/v1/query_range", query=query, **asked))["result"]
    return [_row(each["metric"], target, each["values"]) for each in series]


def _row(labels: Mapping[str, str], target: Mapping[str, Any], points: Sequence[Any]) -> Row:
    legend = target.get("legendFormat", "__auto")
    if legend == "__auto":
        text = labels.get("__name__", "") or ", ".join(f"{key}={value}" for key, value in labels.items())
    else:
        text = re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match[1], ""), legend)
    return Row(labels, text, [(float(at), float(value)) for at, value in points])


async def _draw_all(folder: Path, seconds: float) -> None:
    from tests.node.fleet_scene import fleet
    from tests.node.panel_drawing import drawn

    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        async with fleet(Path(state)) as server:
            await asyncio.sleep(seconds)  # so that lines have a length
            for dashboard in [*DASHBOARDS, *EXPORTER_DASHBOARDS]:
                picture = folder / f"{dashboard.stem}.svg"
                picture.write_text(drawn(await evaluate(server, dashboard, seconds), dashboard.stem))
                if shutil.which("rsvg-convert"):
                    subprocess.run(
                        ["rsvg-convert", "-o", str(picture.with_suffix(".png")), str(picture)], check=True
                    )
                sys.stdout.write(f"{picture}\n")


if __name__ == "__main__":
    asyncio.run(_draw_all(Path(sys.argv[1]), float(sys.argv[2]) if sys.argv[2:] else RANGE_S))
