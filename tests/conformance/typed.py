"""Sessions: what is typed at a shell, and what is printed, in a form that two servers can agree on.

    $ kubectl get pods            one command; the lines that follow belong to it, up to the next `$` or `&`
    &3 kubectl get pods --watch   begun in the background, ended when it has printed three lines; what it
                                  printed stands at the end

Ages become <age>, times <time>, uids <uid>, versions <rv>, addresses <ip>, the test's namespace $NS; columns
are two blanks apart, since their width depends on ages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpuready_sim.kubernetes.clients import Client

EXPECTED = Path(__file__).parent / "expected"
LONGEST_S = 60

_PASSING = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( \+0000 UTC|Z)"), "<time>"),
    (re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r"\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uid>"),
    (re.compile(r'(resourceVersion\\?"?: ?\\?)"\d+|(Resource Version: +)\d+'), r'\1\2"<rv>'),
    (re.compile(r"(kubectl-edit-)\d+"), r"\1<x>"),
    (re.compile(r"https://127\.0\.0\.1:\d+"), "<server>"),
    (re.compile(r"\b10\.96\.\d+\.\d+\b"), "<ip>"),
    (re.compile(r"(kube-api-access|node-debugger-\S+)-[a-z0-9]{5}"), r"\1-<x>"),
    (re.compile(r"/tmp/(LIVE|MERGED)-\d+/"), r"\1/"),
    (re.compile(r"<invalid>|\b(\d+[ydhms]){1,2}\b"), "<age>"),
    (re.compile(r"(?<=\S)[ \t]{2,}(?=\S)"), "  "),
]
# What a client writes to its own log, as its timing has it.
_OF_THE_CLIENT = re.compile(r"[IWE]\d{4} \d\d:\d\d:\d\d")


@dataclass(frozen=True)
class Session:
    """`title` is a sentence; it names the file of what is expected, too. `files` are there when it begins."""

    title: str
    text: str
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    def expected(self, client: Client) -> Path:
        """What a real API server made this client print; a client's words change with its minor version."""
        return EXPECTED / f"{client.name}-{client.minor}" / f"{self.id}.txt"


@dataclass
class Shell:
    """A directory with the clients on its PATH and a kubeconfig whose namespace is the test's."""

    directory: Path
    namespace: str

    @classmethod
    def made(cls, directory: Path, kubeconfig: Path, namespace: str, clients: Mapping[str, Client]) -> Shell:
        programs = directory / "bin"
        programs.mkdir()
        for name, client in clients.items():
            (programs / name).symlink_to(client.path)
        (directory / "work").mkdir()
        config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
        config["contexts"][0]["context"]["namespace"] = namespace
        (directory / "kubeconfig").write_text(yaml.safe_dump(config))
        return cls(directory, namespace)

    def played(self, session: Session) -> str:
        """The transcript."""
        for name, text in session.files.items():
            file = self.directory / "work" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("$NS", self.namespace))
        self._forget_kinds()
        said, behind = [], []
        try:
            for count, command in _commands(session.text):
                if count:
                    behind.append(_Behind(command, count, self._popen(f"exec {command}")))
                    continue
                said.append(f"$ {command}\n{self._said(command)}")
            said += [f"& {one.command}\n{self._plain(one.rest())}" for one in behind]
        finally:
            for one in behind:
                one.end()
        return "\n".join(said)

    def _forget_kinds(self) -> None:
        """Of an earlier session, which has deleted its definitions.

        Asked to explain widgets.GROUP, kubectl takes the first widgets that it has heard of, gone or not.
        """
        shutil.rmtree(self.directory.parent / ".kube/cache/discovery", ignore_errors=True)

    def _said(self, command: str) -> str:
        process = self._popen(command)
        out, err = process.communicate(timeout=LONGEST_S)
        text = self._plain(out) + "".join(f"! {line}\n" for line in self._plain(err).splitlines())
        return text + (f"[{process.returncode}]\n" if process.returncode else "")

    def _popen(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=self.directory / "work",
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _environment(self) -> dict[str, str]:
        home = str(self.directory.parent)  # what was learnt about a server is kept there by its address
        return {
            "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}",
            "HOME": home,
            "KUBECONFIG": str(self.directory / "kubeconfig"),
            "NS": self.namespace,
            "TMPDIR": "/tmp",
            "HELM_NO_COLOR": "1",
        }

    def _plain(self, text: str) -> str:
        text = text.replace(str(self.directory), "<dir>").replace(self.namespace, "$NS")
        for pattern, name in _PASSING:
            text = pattern.sub(name, text)
        lines = [line.rstrip() for line in text.splitlines() if not _OF_THE_CLIENT.match(line)]
        return "".join(line + "\n" for line in lines)


class _Behind:
    """A command in the background, which has said its first line."""

    def __init__(self, command: str, count: int, process: subprocess.Popen[str]) -> None:
        self.command = command
        self._count = count
        self._process = process
        assert process.stdout is not None
        self._stdout = process.stdout
        self._lines = [self._stdout.readline()]

    def rest(self) -> str:
        while len(self._lines) < self._count and self._lines[-1]:
            self._lines.append(self._stdout.readline())
        return "".join(self._lines)

    def end(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=LONGEST_S)


def _commands(text: str) -> Iterator[tuple[int, str]]:
    """(lines to wait for in the background or 0, command)"""
    for part in re.split(r"\n(?=\$ |&\d+ )", "\n" + text.strip()):
        mark, _, command = part.strip().partition(" ")
        if command:
            yield (0 if mark == "$" else int(mark[1:])), command
