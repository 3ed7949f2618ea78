"""Programs on a simulated host: what `gpuready-sim exec` starts, and which files it sees.

There is no chroot without root privileges. A file tool (cat, ls, ...) gets every absolute path moved into
the node's root, and what it prints is moved back. Everything else runs as it is: on this machine, with
GPUREADY_ROOT pointing to the node's root and NVML showing the node's GPUs.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from gpuready_sim.errors import SimulatorError

_LOOKING = ("cat", "du", "file", "find", "grep", "head", "ls", "readlink", "sha256sum", "stat", "tail")
_WRITING = ("chmod", "cp", "mkdir", "mv", "rm", "rmdir", "touch")
FILE_TOOLS = (*_LOOKING, "test", "wc", *_WRITING)
_OF_THE_NODE = ("usr/bin", "run/nvidia/driver/usr/bin")
_PYTHON = ("python", "python3")
_SPEAK_FOR_THEMSELVES = ("env", "printenv", *_PYTHON)


class HostProgramError(SimulatorError):
    """A program that the node does not have."""


@dataclass(frozen=True)
class HostProgram:
    """What is really started. `root` is set when its output speaks of the node's files.

    note  what a reader may take it for and it is not; empty when there is nothing to say
    """

    program: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    root: str = ""
    note: str = ""

    def shown(self, output: bytes) -> bytes:
        """Paths as they are on the node."""
        if not self.root:
            return output
        for root in {self.root, os.path.realpath(self.root)}:
            output = output.replace(f"{root}/".encode(), b"/").replace(root.encode(), b"/")
        return output


def host_program(argv: Sequence[str], host: Mapping[str, Any]) -> HostProgram:
    """The local program for a command line on a simulated host.

    host    the supervisor's answer to `environment`
    raises  HostProgramError for a driver's program where no driver is
    """
    environment: Mapping[str, str] = host["environment"]
    root = environment["GPUREADY_ROOT"]
    folders = [f"{root}/{folder}" for folder in _OF_THE_NODE] + [str(Path(sys.executable).parent)]
    path = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])
    env = {**os.environ, **environment, "PATH": path}
    name = PurePosixPath(argv[0]).name
    if name in FILE_TOOLS:
        found = shutil.which(name) or name
        return HostProgram(found, (name, *_moved(name, argv[1:], root)), env, root=root)
    if own := _of_the_node(argv[0], root, folders):
        return HostProgram(own, (own, *argv[1:]), env)
    if name.startswith("nvidia-"):
        raise _no_driver(name, host)
    program = sys.executable if argv[0] in _PYTHON else argv[0]
    note = "" if name in _SPEAK_FOR_THEMSELVES else _note(name, environment)
    return HostProgram(program, (program, *argv[1:]), env, note=note)


def run(program: HostProgram) -> int:
    """Run it in the foreground; its exit status. Unless output is translated, in this process's place."""
    if not program.root:
        os.execvpe(program.program, list(program.argv), dict(program.env))
    with subprocess.Popen(
        program.argv,
        executable=program.program,
        env=program.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        errors = threading.Thread(target=_pass_on, args=(process.stderr, sys.stderr.buffer, program))
        errors.start()
        _pass_on(process.stdout, sys.stdout.buffer, program)
        errors.join()
        return process.wait()


def _pass_on(source: IO[bytes] | None, sink: IO[bytes], program: HostProgram) -> None:
    assert source is not None
    try:
        for line in source:
            sink.write(program.shown(line))
            sink.flush()
    except BrokenPipeError:
        source.close()  # who reads us has enough, and the program learns it at its next line


def _of_the_node(word: str, root: str, folders: Sequence[str]) -> str:
    """A program that the node has, or that came with gpuready; empty for others."""
    if word.startswith("/"):
        places = [_inside(root, word)]
    else:
        places = [f"{folder}/{word}" for folder in folders] if "/" not in word else []
    if word in _PYTHON:
        return ""
    return next((place for place in places if os.access(place, os.X_OK) and os.path.isfile(place)), "")


def _moved(name: str, words: Sequence[str], root: str) -> list[str]:
    """The arguments with every absolute path inside the node's root; grep's pattern is none."""
    moved: list[str] = []
    pattern_to_come = name == "grep" and not {"-e", "-f"} & set(words)
    for word in words:
        is_pattern = pattern_to_come and not word.startswith("-")
        pattern_to_come = pattern_to_come and not is_pattern
        moved.append(_inside(root, word) if word.startswith("/") and not is_pattern else word)
    return moved


def _inside(root: str, path: str) -> str:
    """`..` never leads out of the root; a closing slash stays."""
    inside = root + posixpath.normpath(f"/{path.lstrip('/')}").rstrip("/")
    return inside + ("/" if path.endswith("/") else "")


def _note(name: str, environment: Mapping[str, str]) -> str:
    node, root = environment["NODE_NAME"], environment["GPUREADY_ROOT"]
    return f"{name} is this machine's own and sees this machine; the files of {node} are in {root}"


def _no_driver(name: str, host: Mapping[str, Any]) -> HostProgramError:
    node = host["environment"]["NODE_NAME"]
    if not host["gpus"]:
        return HostProgramError(
            f"{name} is not on {node}",
            why="it comes with a driver, and a node without GPU gets none",
            next_step="choose a node that has GPUs",
        )
    return HostProgramError(
        f"{name} is not on {node}",
        why="it comes with a driver, and none is installed there now",
        next_step="apply a ClusterPolicy with driver.enabled: true, such as examples/clusterpolicy.yaml",
    )
