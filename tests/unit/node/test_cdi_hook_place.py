"""The hook program on the host."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuready
from gpuready.native.build import build
from gpuready.node.cdi.hook import install_hook, remove_hook


@pytest.fixture
def target(tmp_path: Path) -> Path:
    build(Path(gpuready.__file__).parent)
    return tmp_path / "usr/local/nvidia/toolkit/nvidia-cdi-hook"


def test_it_is_put_there_once_and_can_be_run(target: Path) -> None:
    assert install_hook(target) == ""
    first = target.stat()
    assert install_hook(target) == ""

    assert target.stat().st_mtime_ns == first.st_mtime_ns
    assert first.st_mode & 0o777 == 0o755
    assert remove_hook(target)
    assert not target.exists()


def test_an_older_one_of_ours_is_replaced(target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_bytes(b"\x7fELF an older one: .%s.gpuready")

    assert install_hook(target) == ""
    assert len(target.read_bytes()) > 10_000


def test_another_toolkits_program_stays(target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_bytes(b"\x7fELF NVIDIA's own")

    assert install_hook(target) == ""
    assert not remove_hook(target)
    assert target.read_bytes() == b"\x7fELF NVIDIA's own"


def test_what_stands_in_the_way_is_told(target: Path, tmp_path: Path) -> None:
    (tmp_path / "usr").write_text("a file")
    assert install_hook(target) == "cannot write nvidia-cdi-hook: Not a directory"
    missing = tmp_path / "nothing"
    assert install_hook(target, missing) == f"this image lacks {missing}: No such file or directory"
