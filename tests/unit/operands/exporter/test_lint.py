"""`gpuready exporter lint FILE` as a transcript."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.operands.exporter.test_counters import C24

from gpuready.errors import UsageError
from gpuready.operands.exporter.lint import lint


def run(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(lint, [*arguments], input=stdin, standalone_mode=False)


def test_lint_prints_each_bad_line_with_its_fix_and_how_many_are_used(tmp_path: Path) -> None:
    file = tmp_path / "counters.csv"
    file.write_bytes(C24.encode())
    outcome = run(str(file))
    assert outcome.return_value == 1
    lines = outcome.output.splitlines()
    assert lines[0] == "FAIL  line 4    DCGM_FI_DEV_POWER_USAGE: it has 4 parts, not name, type and help"
    assert lines[1] == (
        '      next      put the help in quotes: DCGM_FI_DEV_POWER_USAGE, gauge, "Power draw, in watts"'
    )
    assert lines[-1] == f"{file}: 4 lines used, 4 skipped"


def test_lint_is_content_with_a_good_file() -> None:
    outcome = run("-", stdin=b"DCGM_FI_DEV_GPU_TEMP, gauge, x\n")
    assert (outcome.return_value, outcome.output) == (0, "<stdin>: 1 line used, 0 skipped\n")


def test_lint_says_what_it_cannot_read(tmp_path: Path) -> None:
    for path, why in (("/dev/zero", "it has more than 4 MiB"), (tmp_path, "Is a directory"),
                      (tmp_path / "none", "No such file or directory")):  # fmt: skip
        with pytest.raises(UsageError) as refused:
            lint.main([str(path)], standalone_mode=False)
        assert (refused.value.what, refused.value.why) == (f"cannot read {path}", why)


def test_lint_reads_what_a_shell_gives_it_as_a_file(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"DCGM_FI_DEV_GPU_TEMP, gauge, x\n")
    os.close(writing)
    outcome = run(f"/dev/fd/{reading}")
    assert outcome.output == f"/dev/fd/{reading}: 1 line used, 0 skipped\n"
    os.close(reading)


def test_strict_counts_remarks_as_well() -> None:
    text = b"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, counter, x\n"
    assert run("-", stdin=text).return_value == 0
    outcome = run("-", "--strict", stdin=text)
    assert outcome.return_value == 1
    assert outcome.output.startswith("note  line 1    DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL: its value goes up")


def test_json_carries_the_same_facts() -> None:
    answer = json.loads(run("-o", "json", "-", stdin=b"DCGM_FI_DEV_GPU_TEMP, gauge, x\nBAD\n").output)
    assert answer["rows"] == [{"line": 1, "name": "DCGM_FI_DEV_GPU_TEMP", "type": "gauge", "help": "x"}]
    assert [(problem["line"], problem["rejected"]) for problem in answer["problems"]] == [(2, True)]
