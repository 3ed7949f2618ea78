"""Which program runs for a command on a simulated host, and which files it sees."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuready_sim.cluster.host_programs import HostProgramError, host_program


@pytest.fixture
def host(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "usr/bin").mkdir(parents=True)
    return {"environment": {"GPUREADY_ROOT": str(tmp_path), "NODE_NAME": "h100"}, "gpus": 8}


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        pytest.param(["cat", "/etc/os-release"], ["{root}/etc/os-release"], id="moved"),
        pytest.param(["ls", "-l", "/"], ["-l", "{root}/"], id="the root itself"),
        pytest.param(["ls", "/run/"], ["{root}/run/"], id="the slash stays"),
        pytest.param(["cat", "/../../etc/passwd"], ["{root}/etc/passwd"], id="no way out"),
        pytest.param(["cp", "here.txt", "/tmp/"], ["here.txt", "{root}/tmp/"], id="relative: this machine's"),
        pytest.param(["grep", "-c", "/dev", "/etc/f"], ["-c", "/dev", "{root}/etc/f"], id="a pattern"),
        pytest.param(["grep", "-e", "x", "/etc/f"], ["-e", "x", "{root}/etc/f"], id="pattern by option"),
    ],
)
def test_file_tools_see_the_nodes_files(host, command, arguments):
    program = host_program(command, host)

    root = host["environment"]["GPUREADY_ROOT"]
    assert program.argv == (command[0], *(word.format(root=root) for word in arguments))
    assert program.note == ""


def test_what_a_file_tool_prints_speaks_of_the_nodes_paths(host):
    root = host["environment"]["GPUREADY_ROOT"]
    program = host_program(["find", "/"], host)

    assert program.shown(f"{root}/\n{root}/etc\nfind: '{root}'\n".encode()) == b"/\n/etc\nfind: '/'\n"


@pytest.mark.parametrize("word", ["nvidia-smi", "/usr/bin/nvidia-smi"])
def test_the_nodes_own_program_comes_first(host, tmp_path: Path, word: str):
    own = tmp_path / "usr/bin/nvidia-smi"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)

    assert host_program([word, "-L"], host).argv == (str(own), "-L")


@pytest.mark.parametrize(
    ("gpus", "why"),
    [
        pytest.param(0, "a node without GPU gets none", id="never"),
        pytest.param(8, "none is installed there now", id="not yet"),
    ],
)
def test_this_machines_nvidia_smi_is_never_taken_for_the_nodes(host, gpus: int, why: str):
    with pytest.raises(HostProgramError) as caught:
        host_program(["nvidia-smi"], host | {"gpus": gpus})

    assert caught.value.what == "nvidia-smi is not on h100"
    assert why in caught.value.why


def test_another_program_is_this_machines_and_says_so(host):
    program = host_program(["uname", "-r"], host)

    assert program.argv == ("uname", "-r")
    assert program.note.startswith("uname is this machine's own and sees this machine; the files of h100")


def test_python_is_ours_and_is_told_where_the_node_is(host):
    program = host_program(["python", "script.py"], host)

    assert (program.argv, program.note) == ((sys.executable, "script.py"), "")
    assert program.env["GPUREADY_ROOT"] == host["environment"]["GPUREADY_ROOT"]
    assert program.env["PATH"].split(os.pathsep)[0].startswith(program.env["GPUREADY_ROOT"])
