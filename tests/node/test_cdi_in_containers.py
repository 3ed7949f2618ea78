"""Real engines resolve our specs and real runtimes do what they say: devices, libraries, links, hooks."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from tests.node.cdi_node import CdiNode, Containerd, Podman

from gpuready.gpu import ld_cache
from gpuready.node.cdi.hook import PROGRAM

ENGINES = {
    "podman with runc": (Podman, "runc"),
    "podman with crun": (Podman, "crun"),
    "containerd with runc": (Containerd, "runc"),
    "containerd with crun": (Containerd, "crun"),
}
HOOK = "/usr/local/nvidia/toolkit/nvidia-cdi-hook"
Engine = Podman | Containerd


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdiNode]:
    built = CdiNode(tmp_path_factory.mktemp("cdi"))
    built.run("install", "-D", "-m", "755", str(PROGRAM), HOOK)
    written = built.cdi("generate", "--write")
    assert written.returncode == 0, written.stderr
    yield built
    built.close()


# The device plugin's own classes, by its own code, on the node.
_BESIDE = """
from pathlib import Path
from gpuready.gpu.tree import Tree
from gpuready.operands.device_plugin.beside import refresh_beside
from gpuready.operands.device_plugin.config import Effective
asked = Effective(gds=True, mofed=True, gdrcopy=True, imex_channels=(0,))
print(" ".join(refresh_beside(Tree(Path("/")), Path("/var/run/cdi"), asked, "/", cdi=True).cdi))
"""
BESIDE = {
    "/dev/nvidia-fs0": "240, 0",
    "/dev/gdrdrv": "241, 0",
    "/dev/infiniband/uverbs0": "231, 192",
    "/dev/infiniband/rdma_cm": "10, 122",
    "/dev/nvidia-caps-imex-channels/channel0": "242, 0",
}


@pytest.fixture
def beside(node: CdiNode) -> Iterator[tuple[str, ...]]:
    """Their names; the nodes go with them, for the other tests' `all` has every node."""
    for path, numbers in BESIDE.items():
        node.run("sh", "-c", f"mkdir -p $(dirname {path}) && mknod {path} c {numbers.replace(',', '')}")
    named = node.run(sys.executable, "-c", _BESIDE)
    assert named.returncode == 0, named.stderr
    yield tuple(named.stdout.split())
    node.run("sh", "-c", f"rm -f {' '.join(BESIDE)} /var/run/cdi/k8s.device-plugin.nvidia.com-*")


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, node: CdiNode) -> Iterator[Engine]:
    kind, runtime = ENGINES[request.param]
    started: Engine = kind(node, runtime)
    yield started
    started.stop()


def nodes_in(engine: Engine, *devices: str) -> dict[str, str]:
    """path -> "major, minor" of the driver's nodes in a container with these devices."""
    script = "ls -ld /dev/nvidia* /dev/nvidia-caps/* /dev/dri/card* 2>/dev/null; true"
    done = engine.start("/bin/sh", "-c", script, devices=devices)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("c")]
    return {row[-1]: f"{row[4]} {row[5]}" for row in rows}


CONTROL = {
    "/dev/nvidia-modeset": "195, 254",
    "/dev/nvidia-uvm": "510, 0",
    "/dev/nvidia-uvm-tools": "510, 1",
    "/dev/nvidiactl": "195, 255",
}
FIRST = {"/dev/nvidia0": "195, 0", "/dev/dri/card1": "226, 1"}
SECOND = {"/dev/nvidia1": "195, 1"}


def test_a_gpu_by_index_and_by_uuid_is_the_same_gpu(node: CdiNode, engine: Engine) -> None:
    assert nodes_in(engine, "nvidia.com/gpu=0") == CONTROL | FIRST
    assert nodes_in(engine, f"nvidia.com/gpu={node.uuid}") == CONTROL | FIRST


def test_a_partition_brings_its_capabilities_whose_nodes_the_host_has_not_made(
    node: CdiNode, engine: Engine
) -> None:
    by_index = nodes_in(engine, "nvidia.com/gpu=1:0")
    caps = {path: number for path, number in by_index.items() if path.startswith("/dev/nvidia-caps/")}

    assert by_index == CONTROL | SECOND | caps
    assert len(caps) == 2
    assert all(number.startswith("235, ") for number in caps.values())
    other = nodes_in(engine, "nvidia.com/gpu=1:1")
    assert other.keys() & caps.keys() == set()
    by_uuid = [nodes_in(engine, f"nvidia.com/gpu={uuid}") for uuid in node.partitions]
    assert by_uuid in ([by_index, other], [other, by_index])


def test_all_and_management_have_every_gpu(engine: Engine) -> None:
    found = nodes_in(engine, "nvidia.com/gpu=all")
    assert found.items() >= (CONTROL | FIRST | SECOND).items()
    assert nodes_in(engine, "management.nvidia.com/gpu=all") == CONTROL | SECOND | {"/dev/nvidia0": "195, 0"}


def test_programs_find_libraries_links_and_the_loaders_cache(node: CdiNode, engine: Engine) -> None:
    by_path = f"/dev/dri/by-path/pci-{node.pci_address}-card"
    script = f"loads libcuda.so.1 libnvidia-ml.so.1 libnvidia-ml.so && readlink {by_path} && env"
    (node.rootfs / "etc/ld.so.cache").unlink(missing_ok=True)
    done = engine.start("/bin/sh", "-c", f"PATH=/bin; {script}", devices=("nvidia.com/gpu=0",))

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == [
        "loaded libcuda.so.1",
        "loaded libnvidia-ml.so.1",
        "loaded libnvidia-ml.so",
        "../card1",
    ]
    assert "NVIDIA_VISIBLE_DEVICES=void" in lines
    cache = {entry.soname for entry in ld_cache.parse((node.rootfs / "etc/ld.so.cache").read_bytes())}
    assert {"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ml.so.550.163.01"} <= cache


def test_a_name_that_a_runtime_only_calls_unresolvable_is_explained(node: CdiNode, engine: Engine) -> None:
    done = engine.start("/bin/true", devices=("nvidia.com/gpu=7",))
    why = node.cdi("resolve", "nvidia.com/gpu=7")

    assert done.returncode != 0
    assert "unresolvable CDI devices" in done.stderr
    assert "nvidia.com/gpu=7" in done.stderr
    assert "index 7 does not exist, 2 GPUs present" in why.stdout


def test_storage_rdma_gdrcopy_and_imex_channels_come_by_the_device_plugins_names(
    beside: tuple[str, ...], engine: Engine
) -> None:
    vendor = "k8s.device-plugin.nvidia.com"
    assert set(beside) == {f"{vendor}/{x}" for x in ("gds=all", "mofed=all", "gdrcopy=all", "imex-channel=0")}
    script = f"ls -l {' '.join(BESIDE)}"
    done = engine.start("/bin/sh", "-c", script, devices=beside)

    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("c")]
    assert {row[-1]: f"{row[4]} {row[5]}" for row in rows} == BESIDE, done.stdout + done.stderr


def test_every_installed_spec_is_whole(node: CdiNode) -> None:
    done = node.cdi("check")

    assert done.returncode == 0, done.stdout
    assert done.stdout.count("ok  ") == 2
