"""The product's image in real containerd: every role finds in it what it runs on."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node.cdi_node import CdiNode, Containerd

import gpuready
from gpuready.native.build import build
from gpuready.self_check import ROLES
from gpuready_sim.kubernetes.node.images import write_archive
from gpuready_sim.kubernetes.node.own_image import own_image

IMAGE = "gpuready.sim/gpuready:image-test"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    node = CdiNode(tmp_path_factory.mktemp("image"))
    try:
        started = Containerd(node, "runc")
        build(Path(gpuready.__file__).parent)
        archive = node.folder / "image.tar"
        write_archive(archive, own_image(IMAGE, {}))
        imported = started.ctr("images", "import", "--local", str(archive))
        assert imported.returncode == 0, imported.stderr
        archive.unlink()
        yield started
        started.stop()
    finally:
        node.close()


_NUMBERS = itertools.count()


def run(engine: Containerd, *words: str, user: str = "0") -> subprocess.CompletedProcess[str]:
    return engine.ctr("run", "--rm", "--user", user, IMAGE, f"image-{next(_NUMBERS)}", *words)


@pytest.mark.parametrize("role", ROLES)
def test_every_role_finds_what_it_needs_in_the_image(engine: Containerd, role: str) -> None:
    done = run(engine, "gpuready", role, "--self-check")

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ok    {role}: " in done.stdout


def test_the_operator_and_the_tools_need_no_root(engine: Containerd) -> None:
    assert run(engine, "gpuready", "operator", "--self-check", user="65532").returncode == 0
    crds = run(engine, "gpuready", "crds", user="65532")
    assert "kind: CustomResourceDefinition" in crds.stdout


def test_the_hook_in_the_image_runs_by_itself(engine: Containerd) -> None:
    done = run(engine, "/app/gpuready/_native/nvidia-cdi-hook", "--help")

    assert done.returncode == 0, done.stderr
    assert "update-ldcache --folder" in done.stdout


def test_modules_come_from_bytecode(engine: Containerd) -> None:
    program = (
        "import json, sys, gpuready.cli as a, json as b, aiohttp as c;"
        "print(json.dumps([m.__cached__ for m in (a, b, c)]))"
    )
    done = run(engine, "/usr/bin/python3", "-c", f"import os\n{program}\n")
    cached = json.loads(done.stdout)
    listed = run(engine, "/usr/bin/python3", "-c", f"import os; print(all(map(os.path.exists, {cached!r})))")

    assert listed.stdout.strip() == "True"
