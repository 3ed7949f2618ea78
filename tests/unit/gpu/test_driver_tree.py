"""Foreign trees, the driver's files in them, and the CDI spec made of these."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpuready.gpu.cdi.model import DeviceNode, DriverScan, host_paths, minimal_version
from gpuready.gpu.cdi.plugin import spec_of
from gpuready.gpu.cdi.scan import missing_paths, node_at, scan_driver
from gpuready.gpu.driver_files import (
    find_module_version,
    find_nvml_library,
    parse_module_version,
    version_of_library,
)
from gpuready.gpu.inventory import GPU
from gpuready.gpu.tree import Tree

RECORDED = Path(__file__).parents[2] / "fixtures/originals/cdi"


def touch(root: Path, path: str, text: str = "") -> Path:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def link(root: Path, path: str, target: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to(target)


def build(root: Path, files: list[list[str]]) -> None:
    """The recorded tree; device nodes and sockets are plain files here."""
    for path, kind, *more in files:
        if kind == "symlink":
            link(root, path, more[0])
        elif kind == "dir":
            (root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        else:
            touch(root, path)


def gpus_of(inputs: dict[str, Any]) -> list[GPU]:
    return [
        GPU(
            row["uuid"],
            row["index"],
            row["minor"],
            (address := row["busId"][4:].lower()),
            "NVIDIA A100",
            40960,
            (8, 0),
            drm_nodes=tuple(inputs["pciDrmNodes"][address]),
        )
        for row in inputs["gpus"]
    ]


def scanned(tmp_path: Path, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what was recorded, our spec) for a recorded driver tree."""
    data = json.loads((RECORDED / f"{name}.json").read_text())
    build(tmp_path, data["inputs"]["files"])
    host, root = Tree(tmp_path), data["inputs"]["driverRoot"]
    scan = scan_driver(Tree(tmp_path / root.lstrip("/")), host, root, gpus_of(data["inputs"]), ())
    assert scan is not None
    return data, spec_of(scan, gpus_of(data["inputs"]))


# --- the tree ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("target", "leads_to"),
    [
        pytest.param("real.txt", "/a/real.txt", id="relative"),
        pytest.param("/a/real.txt", "/a/real.txt", id="absolute means this tree"),
        pytest.param("../../../../a/real.txt", "/a/real.txt", id=".. stops at the top"),
        pytest.param("/nowhere/x", "/nowhere/x", id="dangling"),
    ],
)
def test_links_stay_inside(tmp_path: Path, target: str, leads_to: str) -> None:
    touch(tmp_path, "/a/real.txt", "x")
    link(tmp_path, "/a/link", target)
    tree = Tree(tmp_path)

    assert tree.inside(tree.resolve("/a/link")) == leads_to


def test_a_linked_folder_is_followed_inside(tmp_path: Path) -> None:
    touch(tmp_path, "/usr/lib64/x", "x")
    link(tmp_path, "/lib64", "/usr/lib64")

    assert Tree(tmp_path).read_text("/lib64/x") == "x"


def test_links_in_a_circle_are_an_error_not_a_hang(tmp_path: Path) -> None:
    link(tmp_path, "/a", "/b")
    link(tmp_path, "/b", "/a")

    with pytest.raises(OSError, match="symbolic links"):
        Tree(tmp_path).resolve("/a")
    assert Tree(tmp_path).read_text("/a") is None


# --- the driver -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("550.163.01", "550.163.01"),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr 8\nGCC version: 12.2.0",
            "550.163.01",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build", "570.86.10"),
        ("", ""),
    ],
)
def test_the_module_tells_its_version(text: str, version: str) -> None:
    assert parse_module_version(text) == version


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("libnvidia-ml.so.550.163.01", "550.163.01"),
        ("libcuda.so.570.86", "570.86"),
        ("libnvidia-ml.so.1", ""),
    ],
)
def test_a_library_tells_its_version(name: str, version: str) -> None:
    assert version_of_library(name) == version


def test_the_library_is_found_behind_an_absolute_link(tmp_path: Path) -> None:
    touch(tmp_path, "/usr/lib64/libnvidia-ml.so.570.86.10")
    link(tmp_path, "/usr/lib64/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.570.86.10")

    library = find_nvml_library(Tree(tmp_path))
    assert library is not None
    assert (library.folder, library.version) == ("/usr/lib64", "570.86.10")


def test_no_driver_is_no_library_and_no_version(tmp_path: Path) -> None:
    assert find_nvml_library(Tree(tmp_path)) is None
    assert find_module_version(Tree(tmp_path)) == ""


# --- the spec ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["a100-driver-host", "a100-driver-container", "t4-driver-host"])
def test_the_spec_has_every_driver_library_of_the_original(tmp_path: Path, name: str) -> None:
    data, spec = scanned(tmp_path, name)
    version = data["inputs"]["driverVersion"]
    ours = {mount["containerPath"]: mount["hostPath"] for mount in spec["containerEdits"]["mounts"]}

    for mount in data["cases"]["gpu"]["spec"]["containerEdits"]["mounts"]:
        path = mount["containerPath"]
        if path.endswith(version) and "/xorg/" not in path:
            assert ours[path] == mount["hostPath"]


def test_programs_load_their_libraries_by_soname(tmp_path: Path) -> None:
    _, spec = scanned(tmp_path, "a100-driver-container")
    mounts = {mount["containerPath"]: mount["hostPath"] for mount in spec["containerEdits"]["mounts"]}

    library = "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01"
    assert mounts["/usr/lib/x86_64-linux-gnu/libcuda.so.1"] == library
    assert mounts["/usr/lib/x86_64-linux-gnu/libcuda.so"] == library
    assert "/usr/bin/nvidia-smi" in mounts


@pytest.mark.parametrize("name", ["a100-driver-host", "a100-driver-container"])
def test_every_path_of_the_spec_exists_on_the_host(tmp_path: Path, name: str) -> None:
    _, spec = scanned(tmp_path, name)

    assert missing_paths(Tree(tmp_path), host_paths(spec)) == []
    assert str(tmp_path) not in json.dumps(spec)


def test_devices_are_named_by_uuid_and_have_their_own_nodes(tmp_path: Path) -> None:
    data, spec = scanned(tmp_path, "a100-driver-host")

    assert spec["kind"] == "k8s.device-plugin.nvidia.com/gpu"
    assert [device["name"] for device in spec["devices"]] == [gpu["uuid"] for gpu in data["inputs"]["gpus"]]
    paths = [node["path"] for node in spec["devices"][3]["containerEdits"]["deviceNodes"]]
    assert paths == ["/dev/nvidia3", "/dev/dri/card4", "/dev/dri/renderD131"]
    assert "NVIDIA_VISIBLE_DEVICES=void" in spec["containerEdits"]["env"]


def test_the_version_is_the_oldest_that_will_do(tmp_path: Path) -> None:
    _, host_spec = scanned(tmp_path / "h", "a100-driver-host")
    _, container_spec = scanned(tmp_path / "c", "a100-driver-container")

    assert host_spec["cdiVersion"] == "0.3.0"
    assert container_spec["cdiVersion"] == "0.5.0"  # nodes lie elsewhere on the host
    gpu = GPU("GPU-a", 0, 0, "0000:01:00.0", "L4", 1, (8, 9))
    assert minimal_version(spec_of(DriverScan(), [gpu], by_index=True)) == "0.5.0"


def test_a_hook_is_used_only_where_its_program_is(tmp_path: Path) -> None:
    touch(tmp_path, "/usr/lib64/libnvidia-ml.so.570.86.10")
    link(tmp_path, "/usr/lib64/libnvidia-ml.so.1", "libnvidia-ml.so.570.86.10")
    tree = Tree(tmp_path)
    without = scan_driver(tree, tree, "/", [], ("/usr/bin/nvidia-ctk",))
    touch(tmp_path, "/usr/bin/nvidia-ctk")
    with_hook = scan_driver(tree, tree, "/", [], ("/opt/nvidia-cdi-hook", "/usr/bin/nvidia-ctk"))

    assert without is not None
    assert with_hook is not None
    assert "hooks" not in spec_of(without, [])["containerEdits"]
    [hook] = spec_of(with_hook, [])["containerEdits"]["hooks"]
    assert hook["args"] == ["nvidia-ctk", "hook", "update-ldcache", "--folder", "/usr/lib64"]


def test_character_devices_carry_their_numbers() -> None:
    node = DeviceNode("/dev/nvidia0", "/dev/nvidia0", (195, 0), 0o666)
    scan = DriverScan(nodes={"/dev/nvidia0": node})
    spec = spec_of(scan, [GPU("GPU-a", 0, 0, "0000:01:00.0", "L4", 1, (8, 9))])

    assert spec["devices"][0]["containerEdits"]["deviceNodes"] == [
        {"path": "/dev/nvidia0", "major": 195, "minor": 0, "fileMode": 438, "permissions": "rwm"}
    ]


def test_a_real_character_device_is_recognised() -> None:
    node = node_at(Tree(Path("/")), "/", "/dev/null")
    assert node is not None
    assert node.numbers == (os.major(os.stat("/dev/null").st_rdev), os.minor(os.stat("/dev/null").st_rdev))
