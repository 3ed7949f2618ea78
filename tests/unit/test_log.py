"""What a line of the log says."""

from __future__ import annotations

import io
import logging

import pytest

from gpuready.log import get_logger, set_up


def test_a_sentence_that_an_error_does_not_have_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("test").error("cannot start", what="it is broken", why="", next_step="", node="")

    [record] = caplog.records
    assert record.fields == {"what": "it is broken", "node": ""}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("\x1b[31mred", r'"\u001b[31mred"', id="a colour"),
        pytest.param("ding\x07", r'"ding\u0007"', id="a bell"),
        pytest.param("ok\rFAIL", r'"ok\rFAIL"', id="back to the start of the line"),
        pytest.param("gpu\u202e71-upg", r'"gpu\u202e71-upg"', id="from right to left"),
        pytest.param("a\x85b", r'"a\u0085b"', id="a new line of another kind"),
        pytest.param("gpu-17", "gpu-17", id="a plain word"),
        pytest.param("zwölf", "zwölf", id="a word with an umlaut"),
    ],
)
def test_a_value_cannot_steer_the_terminal_that_shows_the_log(log_lines, value: str, shown: str) -> None:
    get_logger("test").info("node seen", node=value)

    assert log_lines()[0].endswith(f"node seen  node={shown}")


def test_neither_can_the_message_or_the_traceback_of_a_library(log_lines) -> None:
    try:
        raise ValueError("\x1b[2J\u202e")
    except ValueError:
        logging.getLogger("library").exception("lost \x1b[31m%s", "a\nb")

    lines = log_lines()
    assert lines[0].endswith(r"lost \x1b[31ma\nb")
    assert lines[-1] == r"ValueError: \x1b[2J\u202e"


@pytest.mark.usefixtures("log_lines")
def test_an_unknown_level_is_told_and_stops_no_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUREADY_LOG_LEVEL", "trace")
    set_up(form="text")
    get_logger("test").debug("unseen")
    get_logger("test").info("seen")

    told, seen = capsys.readouterr().err.splitlines()
    assert "unknown log level, info is used  level=trace" in told
    assert "debug, info, warning, error" in told
    assert seen.endswith("seen")


@pytest.fixture
def log_lines(monkeypatch: pytest.MonkeyPatch):
    """log_lines() is what was logged so far, as the text that people read."""
    root, said = logging.getLogger(), io.StringIO()
    before = (root.handlers[:], root.level)
    monkeypatch.setattr("sys.stderr", said)
    set_up(level="info", form="text")
    yield lambda: said.getvalue().split("\n")[:-1]
    root.handlers[:], level = before
    root.setLevel(level)
