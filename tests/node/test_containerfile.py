"""images/Containerfile, built for real without any network, and run by podman and by containerd."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node.cdi_node import CdiNode, Containerd
from tests.node.fetch_base_images import PACKAGES, folder

from gpuready.self_check import ROLES

ROOT = Path(__file__).parents[2]
IMAGE = "gpuready.sim/gpuready:containerfile-test"
ALL_MIB = 60  # of the product and what it requires, beside Python's own image
_BASES = {"PYTHON": "gpuready.sim/python", "COMPILER": "gpuready.sim/compiler"}


class Podman:
    """With images and containers of its own."""

    def __init__(self, place: Path) -> None:
        # Without CAP_SYS_RESOURCE limits cannot be raised.
        config = place / "containers.conf"
        config.write_text('[containers]\ndefault_ulimits=["nofile=1024:1024","nproc=1024:1024"]\n')
        self._env = {**os.environ, "CONTAINERS_CONF": str(config)}
        self._words = ["podman", "--root", f"{place}/root", "--runroot", f"{place}/run"]
        self._words += ["--cgroup-manager", "cgroupfs", "--runtime", "runc"]

    def __call__(self, *words: str, deadline_s: int = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._words, *words],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
            cwd=ROOT,
        )

    def run(self, *words: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return self("run", "--rm", "--network", "none", *options, IMAGE, *words)

    def shell(self, script: str) -> str:
        done = self.run("-c", script, options=("--entrypoint", "sh"))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """The image is built from `make wheels` and local base images, and nothing else."""
    bases = {each.stem: each for each in folder().glob("*.tar")}
    if not bases.keys() >= PACKAGES.keys():
        pytest.skip("no base images: run `make image-bases` (Debian's packages, two minutes once)")
    if shutil.which("podman") is None or shutil.which("runc") is None or os.geteuid() != 0:
        pytest.skip("building an image here needs root, podman and runc")
    place = tmp_path_factory.mktemp("image")
    made = Podman(place)
    try:
        for name in PACKAGES:
            imported = made("import", "--quiet", str(bases[name]), f"gpuready.sim/{name}", deadline_s=120)
            assert imported.returncode == 0, imported.stderr
        wheels = ROOT / "build/wheels"
        if not wheels.exists():
            subprocess.run(["make", "wheels"], cwd=ROOT, check=True, timeout=120, env=_with_python_on_path())
        arguments = [word for pair in _BASES.items() for word in ("--build-arg", "=".join(pair))]
        built = made(
            *("build", "--network", "none", "--pull=never", "--ulimit", "nproc=1024:1024"),
            *(
                "--ulimit",
                "nofile=1024:1024",
                *arguments,
                "--file",
                "images/Containerfile",
                "--tag",
                IMAGE,
                ".",
            ),
            deadline_s=300,
        )
        assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
        yield made
    finally:
        made("system", "reset", "--force")
        shutil.rmtree(place, ignore_errors=True)


def _with_python_on_path() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize("role", ROLES)
def test_every_role_finds_what_it_needs(podman: Podman, role: str) -> None:
    done = podman.run(role, "--self-check")

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ok    {role}: " in done.stdout


def test_what_needs_no_privilege_runs_without_any(podman: Podman) -> None:
    bare = (
        "--user",
        "65532:65532",
        "--read-only",
        "--cap-drop",
        "all",
        "--security-opt",
        "no-new-privileges",
    )

    assert podman.run("operator", "--self-check", options=bare).returncode == 0
    assert "kind: CustomResourceDefinition" in podman.run("crds", options=bare).stdout


def test_every_module_is_compiled_and_nobody_may_change_it(podman: Podman) -> None:
    sources, compiled = podman.shell(
        "find /app -name '*.py' | wc -l; find /app -name '*.pyc' -path '*__pycache__*' | wc -l"
    ).split()
    assert sources == compiled
    assert int(sources) > 500
    assert podman.shell("find /app /usr/bin/gpuready ! -type l -perm /022 | head") == ""
    program = "import gpuready.cli as a, aiohttp as b; print(a.__spec__.cached, b.__spec__.cached)"
    assert podman.shell(f"python3 -c '{program}' | xargs ls | wc -l") == "2"


def test_nothing_that_built_it_is_left(podman: Podman) -> None:
    left = podman.shell("for each in cc gcc cpp ld as make pip pip3; do command -v $each; done; true")
    assert left == ""
    assert podman.shell("ls / /app | grep -xE 'build|context|wheels' || true") == ""
    assert int(podman.shell("du -sm /app | cut -f1")) <= ALL_MIB


def test_the_hook_that_hosts_get_is_static_and_runs(podman: Podman, tmp_path: Path) -> None:
    hook = "/app/gpuready/_native/nvidia-cdi-hook"
    done = podman.run("--help", options=("--entrypoint", hook))
    assert "update-ldcache --folder" in done.stdout

    taken = podman.run(
        "-c", f"cat {hook} > /out/hook", options=("--entrypoint", "sh", "-v", f"{tmp_path}:/out")
    )
    assert taken.returncode == 0, taken.stderr
    assert not asks_for_a_loader((tmp_path / "hook").read_bytes())


def asks_for_a_loader(elf: bytes) -> bool:
    """One of its program headers is PT_INTERP (3). Source: elf(5), 64 bit."""
    (start,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    return 3 in {struct.unpack_from("<I", elf, start + size * number)[0] for number in range(count)}


def test_containerd_takes_it_and_runs_a_role(podman: Podman, tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    saved = podman(
        "save", "--quiet", "--format", "oci-archive", "--output", str(archive), IMAGE, deadline_s=120
    )
    assert saved.returncode == 0, saved.stderr
    node = CdiNode(tmp_path / "node")
    try:
        engine = Containerd(node, "runc")
        imported = engine.ctr("images", "import", "--local", str(archive))
        assert imported.returncode == 0, imported.stderr

        done = engine.ctr(
            "run", "--rm", IMAGE, "from-the-containerfile", "gpuready", "toolkit", "--self-check"
        )

        assert "ok    toolkit: " in done.stdout, done.stderr
        engine.stop()
    finally:
        node.close()
