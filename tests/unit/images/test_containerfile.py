"""The recipe of the image, and its stand-in that is put together without a registry."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import gpuready
from gpuready.native.build import build
from gpuready_sim.kubernetes.node.own_image import own_image

ROOT = Path(__file__).parents[3]
RECIPE = (ROOT / "images/Containerfile").read_text()


@cache
def stand_in() -> frozenset[str]:
    build(Path(gpuready.__file__).parent)
    image = own_image("gpuready:test", {})
    return frozenset((*image.files, *image.texts))


def test_it_takes_only_what_is_there_and_what_the_ignore_file_lets_through() -> None:
    copied = re.findall(r"^COPY (?!--from)(\S+) ", RECIPE, re.MULTILINE)
    read = re.findall(r"/context/([\w./]+)", RECIPE)
    let_through = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)

    assert sorted({*copied, *read}) == sorted(let_through)
    assert all((ROOT / path).exists() for path in {*copied, *read} - {"build/wheels"})


def test_the_wheels_that_it_may_take_are_those_that_make_fetches() -> None:
    """For the Python that its images bring, by their tag."""
    recipe = (ROOT / "Makefile").read_text()
    assert "--dest build/wheels" in recipe
    assert "--require-hashes" in recipe.partition("wheels: setup")[2].partition("\n\n")[0]
    (python,) = re.findall(r"^IMAGE_PYTHON \?= (\S+)$", recipe, re.MULTILINE)
    assert re.findall(r"^ARG \w+=python:([\d.]+)-", RECIPE, re.MULTILINE) == [python, python]


def test_it_names_no_registry_and_checks_every_library_by_its_hash() -> None:
    assert not re.search(r"\b[\w-]+\.(io|com|dev|org)/", RECIPE)
    assert "--require-hashes" in RECIPE
    locked = (ROOT / "requirements/runtime.txt").read_text()
    versions = re.findall(r"^\S+==\S+ \\$", locked, re.MULTILINE)
    assert len(versions) > 20
    assert locked.count("--hash=sha256:") >= len(versions)


def test_the_locked_libraries_are_those_that_the_product_requires() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "images/requirements.py"), "--check"], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "path",
    [
        "app/gpuready/cli.py",
        "app/gpuready/_native/nvidia-cdi-hook",
        "app/gpuready/api/crds/clusterpolicies.nvidia.com.yaml",
        "app/aiohttp/__init__.py",
        "app/google/protobuf/__init__.py",
        "usr/bin/gpuready",
    ],
)
def test_the_stand_in_has_the_same_places(path: str) -> None:
    assert path in stand_in()
    folder = path.split("/")[0]
    assert ("/app" if folder == "app" else "/usr/bin/gpuready") in RECIPE


def test_the_stand_in_holds_nothing_of_the_simulator_or_the_tests() -> None:
    assert not any("gpuready_sim" in path or path.startswith("app/pytest") for path in stand_in())
