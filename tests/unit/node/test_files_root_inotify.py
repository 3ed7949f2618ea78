"""Files replaced whole, roots, and waking on changes."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpuready.node.files import sweep, write_atomic, write_if_changed
from gpuready.node.inotify import Changes, Inotify
from gpuready.node.root import Root, boot_id

DEADLINE_S = 30.0


def test_a_file_keeps_its_mode_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "sub/file"
    write_atomic(path, b"one", mode=0o600)
    write_atomic(path, b"two")

    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == ["file"]


def test_a_new_file_is_readable_by_all(tmp_path: Path) -> None:
    write_atomic(tmp_path / "file", b"x")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def test_the_same_content_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert write_if_changed(path, b"x")
    before = path.stat().st_ino
    assert not write_if_changed(path, b"x")
    assert path.stat().st_ino == before


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    (path / "inside").mkdir(parents=True)
    with pytest.raises(OSError):
        write_atomic(path, b"x")
    assert os.listdir(tmp_path) == ["folder"]


KILLED = """
import os, signal, sys
from pathlib import Path
from gpuready.node import files

files.os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
files.write_atomic(Path(sys.argv[1]), b"new")
"""


def killed_in_the_middle(path: Path) -> str:
    """The name of the file that a writer of `path` leaves who is killed."""
    writer = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=DEADLINE_S)
    assert writer.returncode == -signal.SIGKILL
    (left,) = [each for each in os.listdir(path.parent) if each.startswith(f".{path.name}.")]
    return left


def test_what_a_killed_writer_left_goes_with_the_next_write_of_that_file(tmp_path: Path) -> None:
    path = tmp_path / "driver-ready"
    write_atomic(path, b"old")
    left = killed_in_the_middle(path)
    assert left in os.listdir(tmp_path)
    assert path.read_bytes() == b"old"
    others = {".other-ready.77.tmp", ".driver-ready.tmp", ".driver-ready.77.tmp.bak", ".driver-ready.x.tmp"}
    for name in others:
        (tmp_path / name).write_text("somebody else's")

    write_atomic(path, b"next")

    assert set(os.listdir(tmp_path)) == {"driver-ready", *others}
    assert path.read_bytes() == b"next"


def test_the_file_of_a_writer_that_lives_is_left_to_him(tmp_path: Path) -> None:
    """He may be in another container, under the same number."""
    under_way = tmp_path / ".driver-ready.1.tmp"
    with under_way.open("wb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        write_atomic(tmp_path / "driver-ready", b"x")
        sweep(tmp_path)
        assert under_way.exists()

    sweep(tmp_path)
    assert os.listdir(tmp_path) == ["driver-ready"]


def test_only_ordinary_files_are_swept(tmp_path: Path) -> None:
    (tmp_path / ".a.1.tmp").mkdir()
    os.mkfifo(tmp_path / ".b.2.tmp")
    (tmp_path / ".c.3.tmp").symlink_to(tmp_path / "target")
    (tmp_path / "target").write_text("x")
    sweep(tmp_path)
    sweep(tmp_path / "absent")
    assert len(os.listdir(tmp_path)) == 4


def test_the_root_comes_from_the_environment(tmp_path: Path) -> None:
    root = Root.from_env({"GPUREADY_ROOT": str(tmp_path)})
    assert root.join("/run/x") == tmp_path / "run/x"
    assert Root.from_env({}).join("/run/x") == Path("/run/x")


def test_the_host_is_what_is_mounted_at_host(tmp_path: Path) -> None:
    host = tmp_path / "node"
    (host / "proc/sys/kernel/random").mkdir(parents=True)
    (host / "proc/sys/kernel/random/boot_id").write_text("boot-1\n")
    (host / "real").write_text("of the host")
    (host / "link").symlink_to("/real")
    container = tmp_path / "container"
    container.mkdir()
    (container / "host").symlink_to(host)

    root = Root(container)
    assert root.host().read_text("/link") == "of the host"
    assert boot_id(root) == "boot-1"
    assert Root(host).host() == Root(host)


async def test_events_name_directory_and_file(tmp_path: Path) -> None:
    inotify = Inotify()
    assert inotify.watch(tmp_path)
    assert not inotify.watch(tmp_path / "missing")
    (tmp_path / "file").write_text("x")

    async with asyncio.timeout(DEADLINE_S):
        event = await anext(inotify)
    assert (event.path, event.appeared, event.vanished) == (tmp_path / "file", True, False)
    inotify.close()


async def test_a_path_is_waited_for_while_its_folders_do_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "a/b/file"
    changes = Changes([path])
    path.parent.mkdir(parents=True)
    assert await changes.wait(DEADLINE_S)
    path.write_text("x")
    while not path.exists():
        assert await changes.wait(DEADLINE_S)
    path.unlink()
    assert await changes.wait(DEADLINE_S)
    changes.close()


async def test_other_files_do_not_wake(tmp_path: Path) -> None:
    changes = Changes([tmp_path / "mine"])
    (tmp_path / "other").write_text("x")
    assert not await changes.wait(0.05)
    changes.close()


async def test_a_folder_is_watched_by_each_of_its_names(tmp_path: Path) -> None:
    """As /run/nvidia and /host/run/nvidia, which are one directory."""
    (tmp_path / "one").mkdir()
    (tmp_path / "other").symlink_to("one")
    changes = Changes([tmp_path / "one" / "a", tmp_path / "other" / "b"])

    for name in ("a", "b"):
        (tmp_path / "one" / name).write_text("x")
        assert await changes.wait(DEADLINE_S)
    changes.set_paths([tmp_path / "one" / "c"])
    (tmp_path / "one" / "c").write_text("x")
    assert await changes.wait(DEADLINE_S)
    changes.close()


async def test_a_file_is_not_missed_when_its_folder_is_found_at_the_event_of_another(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    changes = Changes([tmp_path / "here" / "mine", tmp_path / "there" / "mine"])
    (tmp_path / "here" / "of others").write_text("x")
    await asyncio.sleep(0)
    while not changes._inotify._events.qsize():  # read before the folder is made
        await asyncio.sleep(0.001)

    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").write_text("x")

    assert await changes.wait(DEADLINE_S)
    changes.close()


async def test_it_tells_when_another_folder_is_watched(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    changes = Changes([tmp_path / "file"])

    assert not changes.set_paths([tmp_path / "file", tmp_path / "another"])
    assert changes.set_paths([tmp_path / "folder" / "file"])
    assert not changes.set_paths([tmp_path / "folder" / "file"])
    changes.close()


async def test_a_folder_that_is_replaced_is_watched_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    changes = Changes([folder / "file"])
    folder.rmdir()
    assert await changes.wait(DEADLINE_S)
    folder.mkdir()
    assert await changes.wait(DEADLINE_S)
    (folder / "file").write_text("x")
    assert await changes.wait(DEADLINE_S)
    changes.close()
