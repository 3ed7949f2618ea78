"""Whatever a pod, a GPU or a CSV is called, the page is read by Prometheus' own parsers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gpuready.operands.exporter.exposition import (
    COUNTER,
    GAUGE,
    OPEN_METRICS,
    TEXT,
    Family,
    form_for,
    label_name,
    labels_text,
    render,
    takes_gzip,
)

# Anything but lone surrogates, which no encoder takes; those have a test of their own.
hostile = st.text(st.characters(exclude_categories=("Cs",)), max_size=12) | st.sampled_from(
    ['"', "\\", "\\n", "\n", 'a"} 1\nforged 1', "\r", "#", "# EOF", "\x00", "\u2028"]
)
values = st.integers(-(2**60), 2**60) | st.floats()
families = st.lists(
    st.tuples(st.sampled_from(["DCGM_FI_DEV_A", "gpuready_b", "gpuready_c_total"]), hostile, hostile, values),
    min_size=1,
    max_size=6,
)


def built(rows: list[tuple[str, str, str, int | float]]) -> list[Family]:
    return [
        Family(
            name, COUNTER if name.endswith("_total") else GAUGE, text, [(labels_text([("pod", pod)]), value)]
        )
        for name, text, pod, value in rows
    ]


@pytest.mark.parametrize(("form", "parse"), [(TEXT, parse_text), (OPEN_METRICS, parse_open_metrics)])
@settings(max_examples=60, deadline=None)
@given(rows=families)
def test_prometheus_reads_back_every_label_and_value(form, parse, rows):
    rows = [
        (name, text, pod, abs(value)) if name.endswith("_total") else (name, text, pod, value)
        for name, text, pod, value in rows
    ]
    rows = [row for row in rows if not (row[0].endswith("_total") and math.isnan(row[3]))]
    wanted: dict[tuple[str, str], int | float] = {}
    for name, _, pod, value in rows:
        wanted.setdefault((name, pod), value)

    read = list(parse(render(built(rows), form).decode()))

    found = {(s.name, s.labels["pod"]): s.value for family in read for s in family.samples}
    assert set(found) == set(wanted)
    for key, value in wanted.items():
        assert float(found[key]) == float(value) or (math.isnan(found[key]) and math.isnan(value))
    assert len({family.name for family in read}) == len(read), "a family stands once"


def test_a_family_stands_once_with_each_series_once():
    page = render(
        [
            Family("a", GAUGE, "A.", [('{gpu="0"}', 1)]),
            Family("b", GAUGE, "B.", [("", 2)]),
            Family("a", COUNTER, "other words", [('{gpu="1"}', 3), ('{gpu="0"}', 9)]),
        ]
    ).decode()

    assert page == (
        '# HELP a A.\n# TYPE a gauge\na{gpu="0"} 1\na{gpu="1"} 3\n# HELP b B.\n# TYPE b gauge\nb 2\n'
    )


def test_a_family_without_lines_is_left_out():
    assert render([Family("a", GAUGE, "A.", [])]) == b""


def test_a_counter_of_dcgm_keeps_its_name_in_both_formats():
    family = [Family("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", COUNTER, "energy", [("", 5)])]

    assert b"# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n" in render(family)
    newer = render(family, OPEN_METRICS)
    assert b"# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION unknown\n" in newer
    assert b"\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION 5\n# EOF\n" in newer


def test_bytes_that_are_no_text_do_not_spoil_the_page():
    page = render([Family("a", GAUGE, "A.", [(labels_text([("pod", "x\udcff")]), 1)])])

    [family] = parse_text(page.decode())
    assert family.samples[0].labels == {"pod": "x?"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("app.kubernetes.io/name", "app_kubernetes_io_name"), ("2nd", "_2nd"), ("", "_"), ("ü", "_")],
)
def test_any_text_becomes_a_label_name(text, wanted):
    assert label_name(text) == wanted


def test_of_a_label_given_twice_the_first_counts():
    assert labels_text([("gpu", "0"), ("pod", "a"), ("gpu", "forged")]) == '{gpu="0",pod="a"}'


PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        pytest.param("", TEXT, id="a scraper that does not say"),
        pytest.param("*/*", TEXT, id="curl"),
        pytest.param("text/html,application/xhtml+xml,*/*;q=0.8", TEXT, id="a browser"),
        pytest.param(PROMETHEUS, OPEN_METRICS, id="Prometheus"),
        pytest.param("application/openmetrics-text;q=0.2,text/plain;q=0.9", TEXT, id="the older one, rather"),
        pytest.param("application/openmetrics-text;q=0", TEXT, id="the newer one not at all"),
        pytest.param("application/openmetrics-text;q=lots", TEXT, id="a weight that is none"),
        pytest.param("application/openmetrics-text;q=7,text/plain", TEXT, id="a weight above one"),
        pytest.param("application/openmetrics-text;q=nan,text/plain", TEXT, id="a weight that is no number"),
        pytest.param(
            "text/*;q=1, text/plain;q=0.1, application/openmetrics-text;q=0.5",
            OPEN_METRICS,
            id="the most particular range counts",
        ),
        pytest.param("text/plain;q=0, application/*", OPEN_METRICS, id="the older one not at all"),
        pytest.param("application/*, text/*", TEXT, id="both alike and neither by name"),
        pytest.param(
            'Application/OpenMetrics-Text; version="1.0.0"; q="0.9", text/plain; q=0.5',
            OPEN_METRICS,
            id="odd spelling",
        ),
        pytest.param("application/openmetrics-text;version=2.0.0", TEXT, id="a version that is not ours"),
        pytest.param(",;,", TEXT, id="nonsense"),
    ],
)
def test_the_format_follows_what_the_scraper_prefers(accept, wanted):
    assert form_for(accept) == wanted


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("GZIP ; q=0.1", True),
        ("x-gzip", True),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("gzip;q=0.5, identity", False),
        ("identity;q=0.5, gzip;q=0.5", True),
        ("br", False),
        ("", False),
    ],
)
def test_gzip_is_used_for_those_who_take_it(header, wanted):
    assert takes_gzip(header) is wanted
