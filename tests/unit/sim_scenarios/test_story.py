"""How a story looks: on a narrow terminal nothing is cut, and without colour nothing is coloured."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gpuready_sim.scenarios.story import Story, counted, folded


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        pytest.param("short", ["short"], id="fits"),
        pytest.param("", [""], id="empty"),
        pytest.param(
            "      why   library a, module b",
            ["      why   library a,", "            module b"],
            id="columns",
        ),
        pytest.param("one two three four five six", ["one two three four five", "six"], id="text"),
        pytest.param("x" * 30, ["x" * 24, "x" * 6], id="a word that is too long"),
    ],
)
def test_a_long_line_goes_on_below_its_last_column(line: str, pieces: list[str]):
    assert folded(line, 24) == pieces


def test_a_quoted_command_is_whole_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    sink = io.StringIO()
    Story(Console(file=sink, width=40, force_terminal=True)).quote(
        "gpuready doctor", "FAIL  driver  the library is 570.124.06 and the module 570.86.10 [x]"
    )

    assert sink.getvalue().splitlines() == [
        "  $ gpuready doctor",
        "  FAIL  driver  the library is",
        "                570.124.06 and the",
        "                module 570.86.10 [x]",
    ]


def test_one_is_not_many():
    assert [counted(n, "GPU") for n in (0, 1, 8)] == ["0 GPUs", "1 GPU", "8 GPUs"]
