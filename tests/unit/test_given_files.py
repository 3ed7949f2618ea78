"""Files that people name: whatever stands there, a command ends in words and in little memory."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gpuready.commands import run
from gpuready.given_files import MOST_BYTES, read_given

POLICY = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: p}\n"
ENDLESS = [
    pytest.param("/dev/zero", "it has more than 4 MiB", id="zeros"),
    pytest.param("/dev/full", "it has more than 4 MiB", id="a full device"),
    pytest.param("/proc/self/mem", "Input/output error", id="memory"),
    pytest.param("/", "Is a directory", id="a directory"),
]


@pytest.mark.parametrize(("file", "why"), ENDLESS)
def test_a_policy_that_cannot_be_read_is_refused_in_words(file: str, why: str, capsys) -> None:
    assert run(["render", "-f", file]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: cannot read {file}",
        f"  why   {why}",
        "  next  name a text file, or give its text on stdin and - as the name",
    ]


@pytest.mark.parametrize(("file", "why"), ENDLESS[:3])
def test_a_kubeconfig_that_cannot_be_read_is_refused_in_words(file: str, why: str, capsys) -> None:
    assert run(["status", "--kubeconfig", file]) == 2
    assert capsys.readouterr().err.splitlines()[:2] == [
        f"error: cannot read the kubeconfig {file}",
        f"  why   {why}",
    ]


@pytest.mark.parametrize("field", ["tokenFile", "client-key"])
def test_neither_has_a_file_that_a_kubeconfig_names_no_end(field: str, tmp_path: Path, capsys) -> None:
    user = {"tokenFile": "{tokenFile: /dev/zero}", "client-key": "{client-key: /dev/zero}"}[field]
    (tmp_path / "config").write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
        "clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        f"users: [{{name: u, user: {user}}}]\n"
    )

    assert run(["status", "--kubeconfig", str(tmp_path / "config")]) == 2
    assert "/dev/zero\n  why   it has more than 4 MiB\n" in capsys.readouterr().err


def test_standard_input_that_is_closed_is_told(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr("sys.stdin", None)

    assert run(["render", "-f", "-"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: cannot read standard input\n  why   standard input is closed\n"
    )


def test_a_pipe_is_read_to_its_end(tmp_path: Path, capsys) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(POLICY,))
    writer.start()

    assert run(["render", "-f", str(pipe)]) == 0
    writer.join()
    assert "kind: DaemonSet" in capsys.readouterr().out


def test_a_file_may_be_as_long_as_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "long"
    file.write_bytes(b" " * MOST_BYTES)
    assert len(read_given(file)) == MOST_BYTES

    file.write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(OSError, match="it has more than 4 MiB"):
        read_given(file)
