"""A dashboard's panels as one SVG picture, where Grafana would put them and in the units it would write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from tests.node.panels import Row, Shown

COLUMN, LINE = 66, 38  # pixels of a unit of gridPos
COLOURS = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#fade2a", "#96d98d")
NAMED = {"green": "#3d9950", "red": "#e02f44", "orange": "#e87c21", "blue": "#3871dc"}
FACTORS = {  # unit -> (factor of the next larger one, their names)
    "bytes": (1024, ("B", "KiB", "MiB", "GiB", "TiB")),
    "mbytes": (1024, ("MiB", "GiB", "TiB")),
    "decmbytes": (1000, ("MB", "GB", "TB")),
    "hertz": (1000, ("Hz", "kHz", "MHz", "GHz")),
    "Bps": (1000, ("B/s", "kB/s", "MB/s", "GB/s")),
    "watt": (1000, ("W", "kW", "MW")),
}
PLAIN = {"celsius": " °C", "percent": "%", "ops": " ops/s", "reqps": " req/s"}


def drawn(shown: Sequence[Shown], name: str) -> str:
    bottom = max(each.panel["gridPos"]["y"] + each.panel["gridPos"]["h"] for each in shown)
    parts = [_panel(each) for each in shown]
    size = f'width="{24 * COLUMN}" height="{bottom * LINE + 10}"'
    style = "text{font:12px DejaVu Sans,sans-serif;fill:#ccccdc}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><title>{name}</title><style>{style}</style>'
        f'<rect width="100%" height="100%" fill="#111217"/>{"".join(parts)}</svg>'
    )


def text_of(value: float, unit: str) -> str:
    """A value as Grafana writes it."""
    if unit == "percentunit":
        return f"{value * 100:.3g}%"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if abs(value) < 1 else f"{value:.3g} s"
    if unit in FACTORS:
        factor, names = FACTORS[unit]
        place = 0
        while abs(value) >= factor and place < len(names) - 1:
            value, place = value / factor, place + 1
        return f"{value:.3g} {names[place]}"
    return f"{value:.4g}{PLAIN.get(unit, '')}"


def _panel(shown: Shown) -> str:
    where = shown.panel["gridPos"]
    x, y, w, h = where["x"] * COLUMN, where["y"] * LINE, where["w"] * COLUMN, where["h"] * LINE
    if shown.panel["type"] == "row":
        return _text(x + 8, y + 24, f"v {shown.title}", bold=True)
    box = f'<rect x="{x + 3}" y="{y + 3}" width="{w - 6}" height="{h - 6}" fill="#181b1f" stroke="#2c3235"/>'
    rows = [row for rows in shown.rows for row in rows]
    if not rows:
        nothing = shown.panel["fieldConfig"]["defaults"].get("noValue", "No data")
        inside = _text(x + w / 2 - 24, y + h / 2, nothing)
    else:
        draw = {"stat": _stat, "table": _table, "bargauge": _bars}.get(shown.panel["type"], _lines)
        inside = draw(shown.panel, rows, (x + 10, y + 30, w - 20, h - 42))
    return box + _text(x + 10, y + 20, shown.title, bold=True) + inside


Box = tuple[float, float, float, float]


def _stat(panel: Mapping[str, Any], rows: Sequence[Row], box: Box) -> str:
    x, y, w, h = box
    parts = []
    for place, row in enumerate(rows):
        left, width, value = x + w * place / len(rows), w / len(rows) - 4, row.points[-1][1]
        defaults = panel["fieldConfig"]["defaults"]
        mapped = next((m["options"].get(f"{value:g}") for m in defaults.get("mappings", ())), None)
        text = mapped["text"] if mapped else text_of(value, defaults.get("unit", "none"))
        parts.append(
            f'<rect x="{left}" y="{y}" width="{width}" height="{h}" fill="{_colour(panel, value)}"/>'
        )
        parts.append(_text(left + 8, y + h / 2 + 10, text, size=28))
        if len(rows) > 1:
            parts.append(_text(left + 8, y + 16, row.legend))
    return "".join(parts)


def _bars(panel: Mapping[str, Any], rows: Sequence[Row], box: Box) -> str:
    x, y, w, h = box
    height, parts = min(30.0, h / len(rows)), []
    for place, row in enumerate(rows):
        value, top = row.points[-1][1], y + place * height
        length, fill = (w - 200) * max(0.0, min(1.0, value)), _colour(panel, value)
        size = f'width="{length}" height="{height - 6}"'
        parts.append(_text(x, top + height / 2 + 4, row.legend))
        parts.append(f'<rect x="{x + 140}" y="{top + 3}" {size} fill="{fill}"/>')
        parts.append(
            _text(x + w - 55, top + height / 2 + 4, text_of(value, panel["fieldConfig"]["defaults"]["unit"]))
        )
    return "".join(parts)


def _table(panel: Mapping[str, Any], rows: Sequence[Row], box: Box) -> str:
    """With the columns that the panel's `organize` leaves, in its order and under its names."""
    x, y, w, h = box
    organized = next((t["options"] for t in panel.get("transformations", ()) if t["id"] == "organize"), {})
    hidden, renamed = organized.get("excludeByName", {}), organized.get("renameByName", {})
    order = organized.get("indexByName", {})
    names = list(dict.fromkeys(["Time", *sorted({name for row in rows for name in row.labels}), "Value"]))
    names = sorted([name for name in names if not hidden.get(name)], key=lambda name: order.get(name, 99))
    unit = panel["fieldConfig"]["defaults"].get("unit", "none")
    lines = [[renamed.get(name, name) for name in names]]
    for row in rows[: int(h // 22) - 1]:
        cells = {**row.labels, "Time": "12:00:00", "Value": text_of(row.points[-1][1], unit)}
        lines.append([cells.get(name, "") for name in names])
    widths = [max(len(line[place]) for line in lines) + 2 for place in range(len(names))]
    scale = min(7.3, w / sum(widths))
    parts = []
    for number, line in enumerate(lines):
        left = x
        for cell, width in zip(line, widths, strict=True):
            parts.append(
                _text(left, y + 14 + number * 22, cell[: int(width * scale / 6.2)], bold=number == 0)
            )
            left += width * scale
    return "".join(parts)


def _lines(panel: Mapping[str, Any], rows: Sequence[Row], box: Box) -> str:
    x, y, w, h = box
    legend_lines = min(3, -(-len(rows) // max(1, int(w // 230))))
    h, left = h - 20 * legend_lines, x + 62
    defaults = panel["fieldConfig"]["defaults"]
    values = [value for row in rows for _, value in row.points if value == value]  # no NaN
    low, high = (
        min([defaults.get("min", min(values)), *values]),
        max([defaults.get("max", max(values)), *values]),
    )
    high = high if high > low else low + 1
    times = [at for row in rows for at, _ in row.points]
    first, last = min(times), max(max(times), min(times) + 1)
    parts = []
    for step in range(5):
        level = y + h - h * step / 4
        parts.append(f'<line x1="{left}" x2="{x + w}" y1="{level}" y2="{level}" stroke="#2c3235"/>')
        parts.append(
            _text(x, level + 4, text_of(low + (high - low) * step / 4, defaults.get("unit", "none")), 10)
        )
    for place, row in enumerate(rows):
        across, up = (w - 62) / (last - first), h / (high - low)
        points = " ".join(
            f"{left + (at - first) * across:.1f},{y + h - (value - low) * up:.1f}" for at, value in row.points
        )
        colour = COLOURS[place % len(COLOURS)]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    each = max(1, int(w // 230))
    for place, row in enumerate(rows[: each * legend_lines]):
        at, under = x + 230 * (place % each), y + h + 22 + 18 * (place // each)
        parts.append(f'<rect x="{at}" y="{under - 8}" width="12" height="4" fill="{COLOURS[place % 9]}"/>')
        parts.append(_text(at + 16, under, row.legend[:34], 10))
    return "".join(parts)


def _colour(panel: Mapping[str, Any], value: float) -> str:
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    return NAMED[reached[-1]]


def _text(x: float, y: float, text: str, size: int = 12, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" style="font-size:{size}px"{weight}>{escape(text)}</text>'
