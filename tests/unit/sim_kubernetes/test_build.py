"""The build, with a Go that only pretends."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuready_sim.kubernetes import build as building
from gpuready_sim.kubernetes.build import RECORD, BuildError, build, programs

GO = """#!/bin/sh
if [ "$1" = env ]; then echo {version}; exit; fi
echo "$@" >> {log}
while [ $# -gt 0 ]; do [ "$1" = -o ] && out="$2"; shift; done
{action}
"""


class Go:
    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self._program = folder / "go"
        self.is_there()

    def is_there(
        self, version: str = "go1.26.8", action: str = 'echo built > "$out"; chmod +x "$out"'
    ) -> None:
        self._program.write_text(GO.format(version=version, log=self.log, action=action))
        self._program.chmod(0o755)

    def is_no_program(self) -> None:
        self._program.write_text("not a program")

    def is_gone(self) -> None:
        self._program.unlink()

    @property
    def builds(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Go:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return Go(folder)


def ends_at(last: Path) -> Callable[[Path, Path], None]:
    """For Path.replace: the build ends as soon as this file is in its place."""

    def replace(file: Path, place: Path) -> None:
        os.replace(file, place)
        if place == last:
            raise KeyboardInterrupt

    return replace


NAMES = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
]


def test_everything_is_built_once_with_its_version(go: Go, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert build(target) == NAMES
    assert all((target / name).read_text() == "built\n" for name in NAMES)
    assert any("version.gitVersion=v1.36.3" in line and "cmd/kubelet" in line for line in go.builds)
    assert build(target) == []
    assert len(go.builds) == len(NAMES)


def test_only_what_changed_or_vanished_is_built_again(go: Go, tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "kubelet").unlink()
    record = json.loads((tmp_path / RECORD).read_text())
    (tmp_path / RECORD).write_text(json.dumps({**record, "etcd": "of older modules"}))
    assert build(tmp_path) == ["etcd", "kubelet"]


def test_what_somebody_else_put_there_is_left_alone(go: Go, tmp_path: Path) -> None:
    (tmp_path / "etcd").write_text("theirs")
    (tmp_path / "etcd").chmod(0o755)
    assert build(tmp_path) == NAMES[1:]
    assert (tmp_path / "etcd").read_text() == "theirs"


def test_a_failed_build_leaves_the_old_program_and_shows_what_go_said(go: Go, tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / RECORD).write_text(json.dumps({"etcd": "of older modules"}))
    go.is_there(action="echo 'main.go:9: no such package' >&2; exit 1")
    with pytest.raises(BuildError) as caught:
        build(tmp_path)
    assert caught.value.what == "etcd did not build"
    assert "no such package" in caught.value.why
    assert (tmp_path / "etcd").read_text() == "built\n"
    assert [path.name for path in tmp_path.glob(".build-*")] == []


def test_without_go_it_says_what_is_needed(go: Go, tmp_path: Path) -> None:
    go.is_gone()
    with pytest.raises(BuildError) as caught:
        build(tmp_path)
    assert caught.value.what == "Go was not found"
    assert "install Go 1.26 or newer" in caught.value.next_step


def test_an_old_go_is_refused_before_it_tries(go: Go, tmp_path: Path) -> None:
    go.is_there(version="go1.19.8")
    with pytest.raises(BuildError) as caught:
        build(tmp_path)
    assert "is too old: it says go1.19.8" in caught.value.what
    assert go.builds == []


def test_a_go_that_cannot_be_run_is_not_called_old(go: Go, tmp_path: Path) -> None:
    go.is_there(version="; echo 'go: cannot find GOROOT directory' >&2")
    with pytest.raises(BuildError) as caught:
        build(tmp_path)
    assert "does not say its version" in caught.value.what
    assert caught.value.why == "`go env GOVERSION` answered go: cannot find GOROOT directory"
    go.is_no_program()
    with pytest.raises(BuildError) as caught:
        build(tmp_path)
    assert caught.value.why == "`go env GOVERSION` answered Exec format error"


def test_a_folder_is_named_from_where_one_stands(
    go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert build(Path("out")) == NAMES
    assert (tmp_path / "out/etcd").read_text() == "built\n"


def test_what_a_killed_build_left_is_removed_and_built(go: Go, tmp_path: Path) -> None:
    left = tmp_path / ".build-abc"
    left.mkdir()
    (left / "kubelet").write_text("half of it")
    assert build(tmp_path) == NAMES
    assert not left.exists()


def test_a_build_that_is_killed_between_the_program_and_its_record_builds_that_program_again(
    go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", ends_at(tmp_path / "etcd"))
        with pytest.raises(KeyboardInterrupt):
            build(tmp_path)
    assert (tmp_path / "etcd").exists()
    assert build(tmp_path) == NAMES


def test_a_folder_that_takes_nothing_is_said_with_its_reason_and_a_way_out(
    go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "file/folder"))
    assert building.main([]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"error: cannot write to {tmp_path}/file/folder",
        f"  why   [Errno 20] Not a directory: '{tmp_path}/file/folder'",
        "  next  make room there, or let KUBEBUILDER_ASSETS name another folder",
    ]


def test_an_interrupted_build_says_that_the_next_one_goes_on(
    go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setattr(Path, "replace", ends_at(tmp_path / "etcd"))
    assert building.main([]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == (
        "interrupted; what is built stays, and the next run goes on from there"
    )


def test_check_builds_nothing_and_counts_what_is_missing(
    go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "out"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert building.main(["--check"]) == 1
    assert "missing  kubelet" in capsys.readouterr().out
    assert go.builds == []
    assert building.main([]) == 0
    assert building.main(["--check"]) == 0
    assert "missing" not in capsys.readouterr().out


def test_the_modules_pin_the_versions_that_are_stamped() -> None:
    pins = {
        "kubernetes": "k8s.io/kubernetes v1.36.3",
        "containerd": "github.com/containerd/containerd/v2 v2.2.1",
    }
    for module, pin in pins.items():
        assert pin in (building.MODULES / module / "go.mod").read_text()
        assert any(pin.split()[1] in program.flags for program in programs() if program.module == module)
