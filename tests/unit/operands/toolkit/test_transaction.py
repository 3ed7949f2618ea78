"""The transaction under attack: others write, links appear, the daemon comes back too late."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.operands.toolkit.nodes import CONF_D, OURS, ROOT, planned, root_file

from gpuready.errors import GPUReadyError
from gpuready.gpu.tree import Tree
from gpuready.node.cri import RuntimeSilent
from gpuready.operands.toolkit import command, journal, toml_file
from gpuready.operands.toolkit.host_files import HostFileError
from gpuready.operands.toolkit.transaction import RolledBack, Transaction, recover

BEFORE = root_file(3, imports=False)
MINE = "\n# a colleague's\n[proxy_plugins.theirs]\n  type = 'snapshot'\n"


class Daemon:
    """Reads its files when it starts; then answers at once, late (after we have given up), or never.

    takes  False: it never knows a handler, whatever its files say
    """

    def __init__(self, tree: Tree, *, answers: str = "at once", takes: bool = True) -> None:
        self._tree, self._answers, self._takes = tree, answers, takes
        self.restarts = 0
        self.in_force = self._files()
        self._silent = False

    def _files(self) -> str:
        return "".join(self._tree.read_text(path) or "" for path in (ROOT, OURS))

    def parse(self, text: str, path: str) -> dict[str, Any]:
        return toml_file.parse(text, path)

    async def prepare(self) -> None: ...

    async def objections(self) -> list[str]:
        return []

    async def knows(self) -> list[str]:
        if self._silent:
            raise RuntimeSilent("nobody listens")
        knows = self._takes and "runtimes.nvidia" in self.in_force
        return [] if knows else ['no runtime handler "nvidia"']

    async def restart(self) -> bool:
        if self._silent:
            raise RuntimeSilent("nobody listens")
        self.restarts += 1
        self.in_force = self._files()
        self._silent = self._answers != "at once"
        return True

    async def wait_until_it_knows(self) -> list[str]:
        return ["nobody listens", "waited 1 s"] if self._silent else await self.knows()

    async def wait_until_it_answers(self) -> bool:
        if self._answers == "late":
            self._answers, self._silent = "at once", False
        return not self._silent


class Node:
    def __init__(self, root: Path) -> None:
        self.root, self.tree = root, Tree(root)
        self.book = root / "journal.json"
        (root / CONF_D.lstrip("/")).mkdir(parents=True)
        self.config, self.ours = root / ROOT.lstrip("/"), root / OURS.lstrip("/")
        self.config.write_text(BEFORE)
        self.plan = planned("2.2.1", {ROOT: BEFORE})
        assert [change.path for change in self.plan.files] == [OURS, ROOT]

    async def change(self, daemon: Daemon, **at: Callable[[], None]) -> None:
        """at  step, or name of the file that was written -> what somebody else does right after it."""

        def step(name: str) -> None:
            at.get(name.rpartition("/")[2], lambda: None)()

        await Transaction(self.tree, self.book, daemon, step=step).run(self.plan)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_one_that_returns_after_the_deadline_runs_with_its_old_files_in_the_end(node: Node) -> None:
    """It had read the new files before they went back: else it would know what no file says."""
    daemon = Daemon(node.tree, answers="late")

    with pytest.raises(RolledBack) as rolled:
        await node.change(daemon)

    assert rolled.value.what == "the container runtime did not come back with its new configuration"
    assert node.config.read_text() == BEFORE
    assert not node.ours.exists()
    assert daemon.in_force == BEFORE.strip()
    assert daemon.restarts == 2


async def test_one_that_never_returns_has_its_old_files_and_both_is_told(node: Node) -> None:
    daemon = Daemon(node.tree, answers="never")

    with pytest.raises(RolledBack) as rolled:
        await node.change(daemon)

    assert "does not with its old configuration either" in rolled.value.what
    assert "nobody listens" in rolled.value.why
    assert node.config.read_text() == BEFORE
    assert not node.ours.exists()


async def test_a_writer_between_two_of_our_files_takes_both_back(node: Node) -> None:
    daemon = Daemon(node.tree)

    with pytest.raises(HostFileError, match="changed while it was being looked at"):
        await node.change(daemon, **{"99-nvidia.toml": lambda: node.config.write_text(BEFORE + MINE)})

    assert node.config.read_text() == BEFORE + MINE
    assert not node.ours.exists()
    assert daemon.restarts == 0
    assert journal.find(node.book).pending == ()


async def test_a_roll_back_leaves_what_a_colleague_has_written_meanwhile(node: Node) -> None:
    daemon = Daemon(node.tree, takes=False)

    def colleague() -> None:
        node.config.write_text(node.config.read_text() + MINE)

    with pytest.raises(RolledBack):
        await node.change(daemon, checked=colleague)

    assert node.config.read_text() == BEFORE + MINE
    assert not node.ours.exists()


async def test_the_next_start_takes_out_ours_alone_where_a_colleague_has_written(node: Node) -> None:
    class Killed(Exception):
        pass

    def killed() -> None:
        node.config.write_text(node.config.read_text() + MINE)
        raise Killed

    with pytest.raises(Killed):
        await node.change(Daemon(node.tree), checked=killed)

    assert recover(node.tree, node.book)
    assert node.config.read_text() == BEFORE + MINE
    assert not node.ours.exists()


async def test_what_a_colleague_has_broken_meanwhile_is_left_to_him(node: Node) -> None:
    daemon = Daemon(node.tree, takes=False)

    with pytest.raises(RolledBack):
        await node.change(daemon, checked=lambda: node.config.write_text("[broken\n"))

    assert node.config.read_text() == "[broken\n"
    assert journal.find(node.book).pending == ()


async def test_the_journal_is_on_the_disk_before_the_first_file_is_touched(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut nobody could undo what no journal tells of."""
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    at_first: list[list[str]] = []
    await node.change(Daemon(node.tree), journalled=lambda: at_first.append(list(synced)))

    file, folder = at_first[0]
    assert "journal.json" in file
    assert folder == str(node.book.parent)


def link_to(node: Node, text: str) -> Path:
    """The root file becomes a link to a file of somebody else."""
    target = node.root / "srv/other.toml"
    target.parent.mkdir()
    target.write_text(text)
    node.config.unlink()
    node.config.symlink_to("/srv/other.toml")
    return target


@pytest.mark.parametrize("after", ["journalled", "99-nvidia.toml"])
async def test_a_link_to_another_file_in_its_place_is_not_written_through(node: Node, after: str) -> None:
    other: list[Path] = []

    with pytest.raises(HostFileError, match="changed while it was being looked at"):
        await node.change(Daemon(node.tree), **{after: lambda: other.append(link_to(node, "secret = 1\n"))})

    assert other[0].read_text() == "secret = 1\n"
    assert node.config.is_symlink()
    assert not node.ours.exists()


async def test_a_link_to_the_same_content_is_kept_and_followed(node: Node) -> None:
    other: list[Path] = []

    await node.change(Daemon(node.tree), journalled=lambda: other.append(link_to(node, BEFORE)))

    assert node.config.is_symlink()
    assert CONF_D in other[0].read_text()


async def test_a_roll_back_does_not_touch_what_a_new_link_leads_to(node: Node) -> None:
    other: list[Path] = []

    with pytest.raises(RolledBack):
        await node.change(
            Daemon(node.tree, takes=False), checked=lambda: other.append(link_to(node, "secret = 1\n"))
        )

    assert other[0].read_text() == "secret = 1\n"
    assert not node.ours.exists()


@pytest.mark.parametrize(
    "name", ["-rf.toml", "a b\tc.toml", "$(touch x);'\".toml", "é\u202e.toml", "[x]*.toml"]
)
async def test_an_import_of_any_name_is_read_and_left(node: Node, name: str) -> None:
    """The name of a file beside ours is somebody else's."""
    theirs = node.ours.with_name(name)
    theirs.write_text("version = 3\n[debug]\n  level = 'debug'\n")

    await node.change(Daemon(node.tree))

    assert theirs.read_text().endswith("level = 'debug'\n")
    assert sorted(path.name for path in theirs.parent.iterdir()) == sorted([name, "99-nvidia.toml"])


def test_nobody_undoes_by_hand_while_the_daemon_runs(tmp_path: Path) -> None:
    lock = tmp_path / "run/nvidia/toolkit/toolkit.pid"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        held.write("4711\n")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)

        with pytest.raises(GPUReadyError) as refused:
            command.undo({"GPUREADY_ROOT": str(tmp_path)})

    assert refused.value.what == "a toolkit runs on this node (process 4711)"
    assert "spec.toolkit.enabled: false" in refused.value.next_step
