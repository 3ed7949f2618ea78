"""What a line of the log says."""

from __future__ import annotations

import pytest

from gpuready.log import get_logger


def test_a_sentence_that_an_error_does_not_have_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("test").error("cannot start", what="it is broken", why="", next_step="", node="")

    [record] = caplog.records
    assert record.fields == {"what": "it is broken", "node": ""}  # type: ignore[attr-defined]
