"""`gpuready ROLE --self-check`: what an image lacks is said before a pod finds out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gpuready
from gpuready import cli, self_check
from gpuready.native.build import build
from gpuready.self_check import ROLES, Role


@pytest.fixture(autouse=True, scope="module")
def hook() -> None:
    build(Path(gpuready.__file__).parent)


def test_every_role_that_runs_in_pods_can_check_itself() -> None:
    assert {"operator", *cli._DAEMONS} <= ROLES.keys()


def test_a_role_checks_everything_in_a_process_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpuready.cli", "toolkit", "--self-check"], capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ok    toolkit: ")
    assert "needs the host's root at /host" in done.stdout


@pytest.mark.parametrize(
    ("role", "says"),
    [
        (
            Role(("gpuready.nothing",), ()),
            "gpuready.nothing         cannot be imported: ModuleNotFoundError: No module named",
        ),
        (Role((), ("no_such_library",)), "no_such_library          cannot be imported: ModuleNotFoundError"),
        (Role((), (), (("_native/nothing", True),)), "_native/nothing          "),
        (Role((), (), (("names.py", True),)), "names.py is not executable"),
    ],
)
def test_what_is_missing_is_named(
    role: Role, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROLES, "toolkit", role)

    assert self_check.run("toolkit") == 1
    said = capsys.readouterr().out
    assert said.startswith("FAIL  ")
    assert says in said


def test_a_module_that_breaks_when_it_is_imported_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_self_check").mkdir()
    (tmp_path / "broken_self_check/__init__.py").write_text("")
    (tmp_path / "broken_self_check/first.py").write_text("1 / 0\n")
    (tmp_path / "broken_self_check/second.py").write_text("import not_there_either\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(ROLES, "toolkit", Role(("broken_self_check",), ()))

    assert self_check.run("toolkit") == 1
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]) == 2
