"""Loads over time: what they are between their points, and what adds up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuready_sim.errors import HardwareStateError
from gpuready_sim.hardware.course import Course

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("words", "after_s", "area"),
    [
        pytest.param("idle", 10, 0, id="an idle GPU does nothing"),
        pytest.param("constant 80", 10, 800, id="80 percent for ten seconds"),
        pytest.param("80", 10, 800, id="a bare number is constant"),
        pytest.param("ramp 0 100 10", 10, 500, id="one ramp is half of all"),
        pytest.param("ramp 0 100 10", 25, 1125, id="two ramps and a half"),
        pytest.param("steps 0:10,5:90", 7, 230, id="a step holds until the next, the last for ever"),
        pytest.param("steps 0:100,2:0 every 10", 24, 600, id="steps that repeat"),
        pytest.param("sine 0 100 12", 12, 600, id="a sine is in the middle on average"),
    ],
)
def test_what_a_load_adds_up_to(words, after_s, area):
    assert Course.parse(words.split()).area(after_s * SECOND) / SECOND == pytest.approx(area, rel=0.01)


@pytest.mark.parametrize(
    "words",
    ["", "zigzag 1 2", "ramp 0 100", "ramp 0 100 x", "steps 0-5", "constant many", "steps 0:1 each 5"],
)
def test_words_that_are_no_load_name_those_that_are(words):
    with pytest.raises(HardwareStateError, match=r"is no load; next: give one of: idle \| constant P"):
        Course.parse(words.split())


@pytest.mark.parametrize("words", ["constant 101", "ramp -1 10 5", "steps 0:5,9:200"])
def test_a_load_stays_within_a_hundred_percent(words):
    with pytest.raises(HardwareStateError, match="outside 0-100 %"):
        Course.parse(words.split())


def test_a_load_that_repeats_needs_a_time():
    with pytest.raises(HardwareStateError, match="repeats every 0 s"):
        Course.parse(["ramp", "0", "100", "0"])


points = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 100)), min_size=1, max_size=8).map(
    lambda drawn: tuple(sorted(drawn, key=lambda point: point[0]))
)


@settings(max_examples=60)
@given(points, st.sampled_from([0, 5000, 7500]), st.integers(0, 30 * SECOND), st.integers(0, 30 * SECOND))
def test_what_adds_up_never_shrinks_and_never_exceeds_a_hundred_percent(points, period_ms, first, second):
    course, (earlier, later) = Course(points, period_ms), sorted((first, second))

    added = course.area(later) - course.area(earlier)

    assert -1 <= added <= 100 * (later - earlier) + 1
