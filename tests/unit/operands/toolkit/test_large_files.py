"""A configuration of hostile size is refused, or dealt with in seconds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.unit.operands.toolkit.nodes import ROOT, V2, V3, planned, root_file

from gpuready.gpu.tree import Tree
from gpuready.operands.toolkit import host_files, journal, json_file, toml_file
from gpuready.operands.toolkit.host_files import MOST_BYTES, HostFileError
from gpuready.operands.toolkit.journal import Journal, Touched, touched_by
from gpuready.operands.toolkit.toml_file import ConfigFileError
from gpuready.operands.toolkit.undo import undone

TABLES = 1_100
A_FEW_S = 8.0  # of a machine that has other things to do, too: it takes a tenth


def mirrors(key: str, count: int = TABLES) -> str:
    tables = (
        f'[plugins."{key}".registry.mirrors."r{n}"]\n  endpoint = ["https://r"]\n' for n in range(count)
    )
    return "".join(tables)


def runtimes(key: str, count: int = TABLES) -> str:
    head = f'[plugins."{key}".containerd.runtimes'
    return "".join(f'{head}.r{n}]\n  runtime_type = "io.containerd.runc.v2"\n' for n in range(count))


@pytest.mark.parametrize(
    ("release", "key", "tables"), [("1.7.24", V2, mirrors), ("1.7.24", V2, runtimes), ("2.2.1", V3, mirrors)]
)
def test_many_tables_are_planned_and_undone_in_seconds(release, key, tables, monkeypatch):
    """Whole parses by tomlkit take ten times as long, and difflib the square of the lines."""
    monkeypatch.setattr(toml_file.tomlkit, "parse", lambda text: pytest.fail("parsed by tomlkit"))
    text = root_file(3 if key == V3 else 2, more=tables(key))
    began = time.process_time()

    plan = planned(release, {ROOT: text})
    for change in plan.files:
        touched = touched_by(change, toml_file.parse(change.before or "", change.path))
        assert undone(touched, change.after) == change.before
        if change.path == ROOT:
            theirs = "[theirs]\n  a = 1\n"
            assert undone(touched, f"{change.after}{theirs}") == f"{change.before}{theirs}"

    assert time.process_time() - began < A_FEW_S


def test_a_file_of_hostile_size_is_refused_and_named(tmp_path: Path):
    file = tmp_path / "config.toml"
    file.write_text("#" * (MOST_BYTES + 1))

    with pytest.raises(HostFileError) as refused:
        host_files.read(Tree(tmp_path), "/config.toml")

    assert refused.value.what == "/config.toml has more than 512 KiB"
    assert "it was left as it is" in refused.value.next_step


def test_a_journal_that_could_not_be_read_again_is_not_begun(tmp_path: Path):
    """Without it nothing could be undone: whoever cannot write it changes no file."""
    book = tmp_path / "journal.json"
    whole = Journal(pending=(Touched("/etc/x", "a", "b"),))
    journal.write(book, whole)

    with pytest.raises(OSError, match="File too large"):
        journal.write(book, Journal(pending=(Touched("/etc/x", "a" * 5_000_000, "b"),)))

    assert journal.find(book) == whole


def test_a_name_that_stands_twice_among_very_many_is_found_at_once():
    pairs = ", ".join(f'"k{n}": 1' for n in range(50_000))
    began = time.process_time()

    with pytest.raises(ConfigFileError, match="k49999 stands in it twice"):
        json_file.parse(f'{{{pairs}, "k49999": 2}}', "/etc/docker/daemon.json")

    assert time.process_time() - began < A_FEW_S
