"""What cannot be printed is an error (status 2), never a traceback and never a silent success."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import pytest

from gpuready.commands import run

COMMANDS = (["crds"], ["rbac"], ["--version"], ["status", "--help"])
REFUSED = """\
error: cannot write to standard output
  why   {}
  next  send it to a terminal, a pipe or a file that has room
"""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_disk_is_told(command, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(command) == 2
        assert full.closed  # else the interpreter would try again at its end

    assert capsys.readouterr().err == REFUSED.format("No space left on device")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_closed_output_is_told(command, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdout", None)

    assert run(command) == 2
    assert capsys.readouterr().err == REFUSED.format("it is closed")


def test_a_reader_that_has_gone_needs_no_words(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr(sys, "stdout", open(writing, "w"))  # noqa: SIM115

    with pytest.raises(SystemExit) as ended:
        run(["crds"])

    assert ended.value.code == 1
    assert capsys.readouterr().err == ""


def test_an_error_that_cannot_be_told_keeps_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    with suppress(OSError), open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        ended = [run(["no-such-command"]), run(["render", "-f", "/dev/null"])]

    assert ended == [2, 2]


def test_the_process_ends_with_that_status() -> None:
    command = f'exec "{sys.executable}" -m gpuready.cli --version'
    ended = [
        subprocess.run(["sh", "-c", f"{command} {to}"], capture_output=True, text=True, timeout=60)
        for to in (">/dev/full", ">&-")
    ]

    assert [each.returncode for each in ended] == [2, 2]
    assert [each.stderr for each in ended] == [
        REFUSED.format("No space left on device"),
        REFUSED.format("it is closed"),
    ]
