"""The page in Prometheus' text format 0.0.4 and in OpenMetrics 1.0.0. Pure.

Names are the same in both: OpenMetrics wants `_total` behind every counter, and DCGM's counters have none, so
there such a family is `unknown`; a scraper that asks for the newer format must not see other names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

TEXT, OPEN_METRICS = "text", "openmetrics"
CONTENT_TYPES = {
    TEXT: "text/plain; version=0.0.4; charset=utf-8",
    OPEN_METRICS: "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
GAUGE, COUNTER = "gauge", "counter"
_NEWER, _OLDER = "application/openmetrics-text", "text/plain"
_VERSIONS = {_NEWER: ("1.0.0", "0.0.1"), _OLDER: ("0.0.4",)}  # Prometheus names the draft 0.0.1 beside 1.0.0

Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its lines.

    kind    gauge or counter; the CSV's histogram and summary are neither here: they count as untyped
    lines   (labels as `labels_text` makes them, value); two with the same labels are one, the first
    """

    name: str
    kind: str
    help: str
    lines: Sequence[tuple[str, int | float]]


def render(families: Iterable[Family], form: str = TEXT) -> bytes:
    """Each family once, in the order of its first appearance; families without lines are left out."""
    rows: list[str] = []
    for family in _merged(families):
        rows += _head(family, form)
        name = family.name
        rows += [f"{name}{labels} {_number(value)}" for labels, value in family.lines]
    if form == OPEN_METRICS:
        rows.append("# EOF")
    return "".join(f"{row}\n" for row in rows).encode("utf-8", "replace")


def labels_text(pairs: Pairs) -> str:
    """`{gpu="0",UUID="GPU-…"}` in the order given, "" for none; of a name given twice the first counts."""
    given: dict[str, str] = {}
    for name, value in pairs:
        given.setdefault(name, value)
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in given.items())
    return f"{{{inner}}}" if inner else ""


def label_name(text: str) -> str:
    """Any text as a label name: other characters become `_`, as the original does with pod labels."""
    name = re.sub(r"[^a-zA-Z0-9_]", "_", text)
    return f"_{name}" if not name or name[0].isdigit() else name


def form_for(accept: str) -> str:
    """Which of the two a scraper prefers by its Accept header; the older one when it does not say.

    Whoever likes both alike gets the newer one only where he names it: `*/*` is what a browser sends, too.
    """
    weights = _weights(accept)
    newer, older = _weight_of(_NEWER, weights), _weight_of(_OLDER, weights)
    is_better = newer >= older if _NEWER in weights else newer > older
    return OPEN_METRICS if newer > 0 and is_better else TEXT


def takes_gzip(accept_encoding: str) -> bool:
    weights = _weights(accept_encoding)
    zipped = next((weights[name] for name in ("gzip", "x-gzip", "*") if name in weights), 0.0)
    return zipped > 0 and zipped >= weights.get("identity", 0.0)


def _weight_of(media_type: str, weights: Mapping[str, float]) -> float:
    """That of the most particular range which covers it. Source: RFC 9110, 12.5.1"""
    ranges = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
    return next((weights[each] for each in ranges if each in weights), 0.0)


def _weights(header: str) -> Mapping[str, float]:
    """Highest q of each media type or coding in an Accept header; versions that are not ours do not count."""
    found: dict[str, float] = {}
    for part in header.split(","):
        name, *rows = (word.strip().lower() for word in part.split(";"))
        pairs = (row.partition("=") for row in rows)
        parameters = {key.strip(): value.strip(' "') for key, _, value in pairs}
        version = parameters.get("version", "")
        if name and (not version or version in _VERSIONS.get(name, (version,))):
            found[name] = max(found.get(name, 0.0), _quality(parameters.get("q", "1")))
    return found


def _quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return quality if 0 <= quality <= 1 else 0.0


def _merged(families: Iterable[Family]) -> list[Family]:
    """One family for each name with every line once: a repeated HELP, TYPE or series spoils a whole page."""
    kinds: dict[str, Family] = {}
    lines: dict[str, dict[str, int | float]] = {}
    for family in families:
        kinds.setdefault(family.name, family)
        rows = lines.setdefault(family.name, {})
        for labels, value in family.lines:
            rows.setdefault(labels, value)
    return [
        Family(name, first.kind, first.help, tuple(lines[name].items()))
        for name, first in kinds.items()
        if lines[name]
    ]


def _head(family: Family, form: str) -> list[str]:
    name, kind = family.name, family.kind if family.kind in (GAUGE, COUNTER) else ""
    text = family.help.replace("\\", r"\\").replace("\n", r"\n")
    if form == OPEN_METRICS:
        text = text.replace('"', r"\"")
        if kind == COUNTER and name.endswith("_total"):
            name = name.removesuffix("_total")
        elif kind != GAUGE:
            kind = "unknown"
        return [f"# TYPE {name} {kind}", f"# HELP {name} {text}"]
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind or 'untyped'}"]


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return value


def _number(value: int | float) -> str:
    if isinstance(value, int):
        return str(int(value))  # True and False are 1 and 0
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
