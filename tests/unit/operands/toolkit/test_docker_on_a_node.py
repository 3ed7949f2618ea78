"""C09 on the disk: daemon.json with its link, mode and quirks, beside a dockerd that answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gpuready.commands import run
from gpuready.errors import GPUReadyError
from gpuready.gpu.tree import Tree
from gpuready.operands.toolkit.engine import Engine
from gpuready.operands.toolkit.host_exec import Host
from gpuready.operands.toolkit.settings import Settings
from gpuready.operands.toolkit.transaction import Outcome

V1 = {
    "hosts": ["unix:///run/docker.sock"],
    "runtimes": {"runsc": {"path": "/opt/runsc"}},
    "features": {"buildkit": True},
    "log-opts": {"max-size": "10m"},
}
V2 = '{\n  "insecure-registries": ["a"]}\n  }, "debug": true\n}\n'


class Node:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.real, self.link = root / "srv/conf/daemon.json", root / "etc/docker/daemon.json"
        for folder in ("srv/conf", "etc/docker", "usr/bin", "run"):
            (root / folder).mkdir(parents=True)
        (root / "var").mkdir()
        (root / "var/run").symlink_to("/run")
        (root / "usr/bin/runc").touch(0o755)

    def says(self, text: str) -> None:
        self.real.write_text(text)
        self.real.chmod(0o600)
        self.link.symlink_to("/srv/conf/daemon.json")

    async def install(self) -> Outcome:
        """Nobody signals: the process behind the socket would be this one."""
        settings = Settings(runtime="docker", restart_mode="none")
        engine = Engine(settings, Host(Tree(self.root), enters=False), self.root / "journal.json")
        return await engine.change(await engine.look())

    @asynccontextmanager
    async def dockerd(self) -> AsyncIterator[None]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            row = json.dumps({"ServerVersion": "28.1", "Runtimes": {"runc": {"path": "runc"}}})
            writer.write(f"HTTP/1.0 200 OK\r\n\r\n{row}".encode())
            writer.close()

        server = await asyncio.start_unix_server(answer, self.root / "run/docker.sock")
        async with server:
            yield


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_link_mode_and_foreign_keys_stay_and_a_second_run_writes_nothing(node: Node) -> None:
    node.says(json.dumps(V1))
    async with node.dockerd():
        first = await node.install()
        after, stamp = json.loads(node.real.read_text()), node.real.stat().st_mtime_ns
        second = await node.install()

    assert first.lacks, "until somebody restarts it"
    assert after["runtimes"]["runsc"] == V1["runtimes"]["runsc"]
    assert after["runtimes"]["nvidia"] == {"path": "/usr/bin/runc"}
    assert after["features"] == {"buildkit": True, "cdi": True}
    assert {key: after[key] for key in ("hosts", "log-opts")} == {k: V1[k] for k in ("hosts", "log-opts")}
    assert node.link.readlink() == Path("/srv/conf/daemon.json")
    assert node.real.stat().st_mode & 0o777 == 0o600
    assert second.changed == ()
    assert node.real.stat().st_mtime_ns == stamp


async def test_what_is_no_json_is_left_byte_for_byte(node: Node) -> None:
    node.says(V2)
    async with node.dockerd():
        with pytest.raises(GPUReadyError, match=r"daemon\.json is no valid JSON: .*\(at line 3, column 3\)"):
            await node.install()

    assert node.real.read_text() == V2


def test_the_command_ends_with_2_and_says_the_line(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node.says(V2)
    monkeypatch.setenv("GPUREADY_ROOT", str(node.root))
    monkeypatch.setenv("RUNTIME", "docker")

    assert run(["toolkit", "--dry-run"]) == 2
    assert "line 3, column 3" in capsys.readouterr().err


def test_a_socket_that_is_not_there_is_told_in_words(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUREADY_ROOT", str(node.root))
    monkeypatch.setenv("RUNTIME", "docker")

    run(["toolkit", "--dry-run"])

    said = capsys.readouterr().out
    assert "note  dockerd does not answer on /run/docker.sock: No such file or directory\n" in said
    assert said.endswith("no restart: the runtime does not answer, and until it does nothing is changed\n")
