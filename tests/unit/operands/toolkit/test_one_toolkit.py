"""Two toolkits never hold a node at the same time, and none leaves its pid file behind."""

from __future__ import annotations

import os
from pathlib import Path

from gpuready.operands.toolkit.one_toolkit import OneToolkit


def test_the_second_is_told_who_the_first_is(tmp_path: Path) -> None:
    first, second = (OneToolkit(tmp_path / "toolkit/toolkit.pid") for _ in range(2))

    assert (first.take(), second.take()) == ("", str(os.getpid()))
    first.release()
    assert second.take() == ""


def test_the_file_goes_with_its_toolkit(tmp_path: Path) -> None:
    lock = OneToolkit(tmp_path / "toolkit.pid")
    lock.take()
    lock.release()

    assert list(tmp_path.iterdir()) == []


def test_nobody_locks_a_file_that_its_last_holder_takes_away(tmp_path: Path, monkeypatch) -> None:
    """Opened while it was there, locked when it no longer is: a third would make a new one and lock that."""
    path = tmp_path / "toolkit.pid"
    first, second = OneToolkit(path), OneToolkit(path)
    first.take()
    opened = os.open

    def open_then_the_first_ends(*arguments, **words) -> int:
        monkeypatch.undo()
        descriptor = opened(*arguments, **words)
        first.release()
        return descriptor

    monkeypatch.setattr(os, "open", open_then_the_first_ends)
    assert second.take() == ""
    assert OneToolkit(path).take() == str(os.getpid())


def test_a_file_that_another_has_made_since_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "toolkit.pid"
    first, second = OneToolkit(path), OneToolkit(path)
    first.take()
    path.unlink()
    second.take()
    first.release()

    assert path.read_text() == f"{os.getpid()}\n"
