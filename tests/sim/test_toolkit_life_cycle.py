"""The toolkit on configurations that somebody else has a hand in; its life on a node: tests/node."""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
from pathlib import Path

import pytest
from tests.sim.toolkit_node import ROOT, toolkit_node

from gpuready.errors import GPUReadyError
from gpuready.node.root import Root
from gpuready.operands.toolkit import daemon, host_files
from gpuready.operands.toolkit.decision import Action, decide
from gpuready.operands.toolkit.host_exec import Host
from gpuready.operands.toolkit.settings import Settings
from gpuready.operands.toolkit.transaction import RolledBack
from gpuready_sim.containerd import merge

V3 = "io.containerd.cri.v1.runtime"
CRUN = f"""\
# the storage team asked for this order
version = 3
root = "/data/containerd"

[plugins."{V3}".containerd]
  default_runtime_name = "crun"   # not runc
[plugins."{V3}".containerd.runtimes.crun]
  runtime_type = "io.containerd.runc.v2"
[plugins."{V3}".containerd.runtimes.crun.options]
  BinaryName = "/usr/bin/crun"
[plugins."{V3}".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."{V3}".containerd.runtimes.runc.options]
  SystemdCgroup = true
"""


async def test_an_uninstall_keeps_what_others_have_changed_meanwhile(tmp_path: Path) -> None:
    async with toolkit_node(tmp_path, "1.7.24") as node:
        before = node.config.read_text()
        await node.install()
        theirs = '\n[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "/x"\n'
        node.config.write_text(node.config.read_text() + theirs)

        await node.engine().uninstall()

        assert node.config.read_text() == before + theirs


async def test_a_linked_file_is_changed_where_it_leads_and_keeps_mode_and_owner(tmp_path: Path) -> None:
    async with toolkit_node(tmp_path, "1.7.24") as node:
        real = tmp_path / "srv/conf/containerd.toml"
        real.parent.mkdir(parents=True)
        node.config.rename(real)
        real.chmod(0o640)
        owner = (4711, 4712) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
        os.chown(real, *owner)
        node.config.symlink_to("../../srv/conf/containerd.toml")

        await node.install()

        assert os.readlink(node.config) == "../../srv/conf/containerd.toml"
        assert "runtimes.nvidia" in real.read_text()
        assert real.stat().st_mode & 0o777 == 0o640
        assert (real.stat().st_uid, real.stat().st_gid) == owner


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version = 2\n[plugins\n", "/etc/containerd/config.toml is no valid TOML"),
        ('version = 2\nroot = "\udc80"\n', "is not UTF-8 text (at line 2, column 9)"),
    ],
)
async def test_a_file_that_cannot_be_read_is_left_byte_for_byte(tmp_path: Path, text: str, said: str) -> None:
    async with toolkit_node(tmp_path, "1.7.24") as node:
        content = text.encode("utf-8", "surrogateescape")
        node.config.write_bytes(content)

        with pytest.raises(GPUReadyError) as refused:
            await node.install()

        assert said in refused.value.what
        assert "line 2" in refused.value.what
        assert node.config.read_bytes() == content
        assert node.restarts == 0


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("version = 2\nplugins = 3\n", "plugins"),
        ("version = 2\n[[plugins]]\n", "plugins"),
        ('version = 2\n[plugins]\n"io.containerd.grpc.v1.cri" = "x"\n', "io.containerd.grpc.v1.cri"),
        ('version = 2\n[plugins."io.containerd.grpc.v1.cri"]\ncontainerd = 5\n', "containerd"),
        ('version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd]\nruntimes = 5\n', "runtimes"),
        (f"version = {'2' * 6000}\n", "config.toml"),
        ('version = 2\nimports = ["/etc/a\\u0000b.toml"]\n', "/etc/a"),
    ],
)
async def test_a_key_that_is_not_what_it_must_be_is_named_and_the_file_left(
    tmp_path: Path, text: str, key: str
) -> None:
    async with toolkit_node(tmp_path, "1.7.24") as node:
        node.config.write_text(text)

        with pytest.raises(GPUReadyError) as refused:
            await node.install()

        assert key in refused.value.what
        assert refused.value.next_step
        assert node.config.read_text() == text
        assert node.restarts == 0


@pytest.mark.parametrize(
    "journal",
    [
        '{"pending": [{"path": "/a\\u0000b", "before": "", "after": "x"}]}',
        '{"installed": [{"path": "/etc/containerd/config.toml", "after": "x", "values": [{"keys": []}]}]}',
        '{"installed": [{"path": "relative"}]}',
    ],
)
async def test_a_journal_that_nobody_of_us_wrote_stands_in_nobodys_way(tmp_path: Path, journal: str) -> None:
    async with toolkit_node(tmp_path, "2.2.1") as node:
        book = tmp_path / Settings().journal.lstrip("/")
        book.parent.mkdir(parents=True)
        book.write_text(journal)

        await node.install()

        assert (await node.engine().look()).is_whole


async def test_a_writer_that_was_faster_is_not_overwritten(tmp_path: Path) -> None:
    async with toolkit_node(tmp_path, "1.7.24") as node:
        engine = node.engine()
        look = await engine.look()
        theirs = node.config.read_text() + "\n# a colleague was here\n"
        node.config.write_text(theirs)

        with pytest.raises(GPUReadyError, match="changed while it was being looked at"):
            await engine.change(look)

        assert node.config.read_text() == theirs
        await node.install()
        assert "# a colleague was here" in node.config.read_text()
        assert "runtimes.nvidia" in node.config.read_text()


async def test_where_nothing_can_be_written_nothing_is_begun(tmp_path: Path) -> None:
    """A full file system: the journal is written first, and what cannot be undone is not done."""
    async with toolkit_node(tmp_path, "2.2.1") as node:
        before = node.config.read_text()
        engine = node.engine()
        look = await engine.look()
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                await engine.change(look)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)

        assert node.config.read_text() == before
        assert [path.name for path in (tmp_path / "etc/containerd/conf.d").iterdir()] == []
        assert node.restarts == 0


async def test_a_daemon_that_does_not_come_back_gets_its_old_files_back(tmp_path: Path) -> None:
    async with toolkit_node(tmp_path, "1.7.24") as node:
        before = node.config.read_text()
        program = tmp_path / "usr/bin/containerd"
        real = program.rename(program.with_name("containerd-that-works"))
        program.write_text(
            "#!/bin/sh\n"
            f"[ \"$1\" = serve ] && grep -rq runtimes.nvidia '{tmp_path}/etc/containerd' && exit 1\n"
            f"exec '{real}' \"$@\"\n"
        )
        program.chmod(0o755)

        with pytest.raises(RolledBack) as rolled:
            await node.install(restart_s=6.0)

        assert rolled.value.what == "the container runtime did not come back with its new configuration"
        assert rolled.value.next_step.startswith("every file is as it was; read the runtime's log")
        assert node.config.read_text() == before
        look = await node.engine().look()
        assert look.silent is None, "it runs again"
        failed = node.engine().read_journal().failed
        assert decide(look, failed, None).action is Action.NOTHING, "the same change is not tried again"


async def test_names_that_could_mean_something_to_a_shell_are_only_names(tmp_path: Path) -> None:
    hostile = "/etc/containerd/conf.d/99-$(touch pwned);'\"nvidia.toml"
    async with toolkit_node(tmp_path, "2.2.1") as node:
        await node.install(drop_in=hostile)

        assert (tmp_path / hostile.lstrip("/")).exists()
        assert (await node.engine(drop_in=hostile).look()).is_whole
        assert not list(tmp_path.rglob("pwned"))


async def test_one_that_hides_behind_a_handler_name_of_ours_is_taken_over_and_given_back(
    tmp_path: Path,
) -> None:
    """C09 v6 for containerd: the handler is there with another program, and arguments of its own."""
    there = CRUN + (
        f'[plugins."{V3}".containerd.runtimes.nvidia]\n  runtime_type = "io.containerd.runc.v2"\n'
        f'  [plugins."{V3}".containerd.runtimes.nvidia.options]\n    BinaryName = "/opt/old"\n'
        '    Root = "/r"\n'
    )
    async with toolkit_node(tmp_path, "2.2.1", there) as node:
        await node.install()

        told = merge.cri_of(merge.configuration(tmp_path, f"/{ROOT}", "2.2.1"))["containerd"]["runtimes"]
        assert told["nvidia"]["options"]["BinaryName"] == "/usr/bin/runc"
        assert told["nvidia"]["options"]["Root"] == "/r"
        await node.engine().uninstall()
        assert node.config.read_text() == there


async def test_two_toolkits_do_not_undo_each_other(tmp_path: Path) -> None:
    """The original holds a lock on its pid file for as long as it lives."""
    async with toolkit_node(tmp_path, "1.7.24") as node:
        before = node.config.read_text()
        lock = tmp_path / "run/nvidia/toolkit/toolkit.pid"
        lock.parent.mkdir(parents=True)
        with lock.open("w") as held:
            held.write("4711\n")
            held.flush()
            fcntl.flock(held, fcntl.LOCK_EX)
            settings = Settings(records_dir="/run/gpuready/records", health_port=0)
            root = Root(tmp_path)
            running = daemon.Daemon(settings, root, Host(root, enters=False))
            task = asyncio.create_task(running.run())
            record = tmp_path / "run/gpuready/records/toolkit.json"
            async with asyncio.timeout(30):
                while not record.exists():
                    await asyncio.sleep(0.02)
            running.stop()
            await task

        assert "another toolkit (process 4711) holds" in record.read_text()
        assert node.config.read_text() == before


def test_what_a_cut_off_write_left_beside_a_file_is_cleaned(tmp_path: Path) -> None:
    tree = Root(tmp_path)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/x.toml").write_text("a = 1\n")
    left = tmp_path / "etc/.x.toml.gpuready-new"
    left.write_text("a = ")

    host_files.clean_up(tree, "/etc/x.toml")

    assert [path.name for path in (tmp_path / "etc").iterdir()] == ["x.toml"]
