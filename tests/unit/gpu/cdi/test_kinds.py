"""Which names there are, and what stands behind each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuready.gpu.cdi.build import Built, Place, build
from gpuready.gpu.cdi.kinds import gpu_spec
from gpuready.gpu.cdi.model import DeviceNode, DriverScan
from gpuready.gpu.cdi.qualified import Style
from gpuready.gpu.cdi.schema import problems_in
from gpuready.gpu.inventory import GPU
from gpuready.gpu.tree import Tree

from .trees import LIBS, driver_tree, gpu, link, node, partition, touch, with_mig

CONTROL = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}


def built(root: Path, gpus: list[GPU] | None, **more: Any) -> dict[str, Built]:
    tree = driver_tree(root, gpus=len(gpus or ()), **more)
    return {each.kind: each for each in build(Place(tree, tree), gpus)}


def c11(root: Path) -> dict[str, Built]:
    """Two GPUs, the second with MIG on and two partitions."""
    gpus = [gpu(0), gpu(1, mig_enabled=True, partitions=(partition(0), partition(1)))]
    with_mig(root, 1, [1, 2])
    return built(root, gpus)


def nodes_of(each: Built, device: str) -> set[str]:
    """What a container gets with one device: its nodes and those of the whole spec."""
    assert each.spec is not None
    devices = {row["name"]: row["containerEdits"] for row in each.spec["devices"]}
    common = each.spec.get("containerEdits", {})
    return {row["path"] for edits in (common, devices[device]) for row in edits.get("deviceNodes", ())}


@pytest.mark.parametrize(
    ("device", "own"),
    [
        pytest.param("0", {"/dev/nvidia0"}, id="index"),
        pytest.param("GPU-c0", {"/dev/nvidia0"}, id="UUID"),
        pytest.param(
            "1:0",
            {"/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4"},
            id="gpu:mig index",
        ),
        pytest.param(
            "MIG-m1",
            {"/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap5", "/dev/nvidia-caps/nvidia-cap6"},
            id="MIG UUID",
        ),
        pytest.param(
            "all",
            {"/dev/nvidia0", "/dev/nvidia1", *(f"/dev/nvidia-caps/nvidia-cap{n}" for n in (3, 4, 5, 6))},
            id="all",
        ),
    ],
)
def test_every_name_that_people_use_gives_control_nodes_and_its_own(
    tmp_path: Path, device: str, own: set[str]
) -> None:
    assert nodes_of(c11(tmp_path)["nvidia.com/gpu"], device) == CONTROL | own


def test_a_gpu_with_mig_on_is_not_offered_whole(tmp_path: Path) -> None:
    spec = c11(tmp_path)["nvidia.com/gpu"].spec
    assert spec is not None
    names = [device["name"] for device in spec["devices"]]

    assert names == ["0", "1:0", "1:1", "GPU-c0", "MIG-m0", "MIG-m1", "all"]


def test_management_has_all_nodes_and_each_gpu_with_its_capabilities(tmp_path: Path) -> None:
    management = c11(tmp_path)["management.nvidia.com/gpu"]
    caps = {f"/dev/nvidia-caps/nvidia-cap{number}" for number in range(1, 7)}

    assert nodes_of(management, "all") == CONTROL | {"/dev/nvidia0", "/dev/nvidia1"} | caps
    assert nodes_of(management, "GPU-c1") == CONTROL | {"/dev/nvidia1"} | caps
    assert nodes_of(management, "GPU-c0") >= CONTROL | {"/dev/nvidia0"}


def test_a_partition_without_its_nodes_is_left_out_and_the_others_stay(tmp_path: Path) -> None:
    gpus = [gpu(0, mig_enabled=True, partitions=(partition(0), partition(1)))]
    with_mig(tmp_path, 0, [1])
    found = built(tmp_path, gpus)["nvidia.com/gpu"]

    assert found.spec is not None
    assert [device["name"] for device in found.spec["devices"]] == ["0:0", "MIG-m0", "all"]
    assert found.left_out == (("MIG-m1", "the kernel names no capability of it"),)


def test_capabilities_that_the_host_has_no_nodes_of_are_made_by_the_runtime(tmp_path: Path) -> None:
    gpus = [gpu(0, mig_enabled=True, partitions=(partition(0),))]
    touch(tmp_path, "/proc/driver/nvidia-caps/mig-minors", "gpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n")
    touch(tmp_path, "/proc/devices", "Character devices:\n195 nvidia\n235 nvidia-caps\n")
    spec = built(tmp_path, gpus)["nvidia.com/gpu"].spec

    assert spec is not None
    rows = {row["name"]: row["containerEdits"]["deviceNodes"] for row in spec["devices"]}
    assert rows["MIG-m0"][1:] == [
        {
            "path": f"/dev/nvidia-caps/nvidia-cap{minor}",
            "type": "c",
            "major": 235,
            "minor": minor,
            "fileMode": 0o444,
            "permissions": "rwm",
        }
        for minor in (12, 13)
    ]


def test_older_kernel_modules_tell_each_capability_in_a_file_of_its_own(tmp_path: Path) -> None:
    gpus = [gpu(0, mig_enabled=True, partitions=(partition(0),))]
    base = "/proc/driver/nvidia/capabilities/gpu0/mig/gi1"
    touch(tmp_path, f"{base}/access", "DeviceFileMinor: 12\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    touch(tmp_path, f"{base}/ci0/access", "DeviceFileMinor: 13\nDeviceFileMode: 292\n")
    for cap in (12, 13):
        node(tmp_path, f"/dev/nvidia-caps/nvidia-cap{cap}", 235, cap, 0o444)

    found = built(tmp_path, gpus)["nvidia.com/gpu"]
    assert nodes_of(found, "MIG-m0") >= {"/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"}


def test_a_gpu_without_its_node_does_not_spoil_the_others(tmp_path: Path) -> None:
    tree = driver_tree(tmp_path, gpus=1)
    [found, *_] = build(Place(tree, tree), [gpu(0), gpu(1)])

    assert found.spec is not None
    assert [device["name"] for device in found.spec["devices"]] == ["0", "GPU-c0", "all"]
    assert found.left_out == (("GPU-c1", "/dev/nvidia1 does not exist"),)


@pytest.mark.parametrize(
    ("styles", "names"),
    [
        ((Style.INDEX,), ["0", "1:0", "all"]),
        ((Style.UUID,), ["GPU-c0", "MIG-m0", "all"]),
        ((Style.TYPE_INDEX,), ["all", "gpu0", "mig1:0"]),
    ],
)
def test_the_styles_of_names(styles: tuple[Style, ...], names: list[str]) -> None:
    caps = (DeviceNode("/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap3"),) * 2
    nodes = {path: DeviceNode(path, path) for path in ("/dev/nvidia0", "/dev/nvidia1")}
    gpus = [gpu(0), gpu(1, mig_enabled=True, partitions=(partition(0),))]

    spec = gpu_spec(DriverScan(nodes=nodes), gpus, {"MIG-m0": caps}, styles=styles).spec
    assert spec is not None
    assert [device["name"] for device in spec["devices"]] == names
    without = gpu_spec(DriverScan(nodes=nodes), gpus, {"MIG-m0": caps}, styles=styles, with_all=False).spec
    assert without is not None
    assert "all" not in [device["name"] for device in without["devices"]]


@pytest.mark.parametrize(("mode", "gids"), [(0o660, [44]), (0o666, None)])
def test_who_is_not_root_gets_the_group_of_a_node_that_is_not_everybodys(
    mode: int, gids: list[int] | None
) -> None:
    path = "/dev/nvidia0"
    scan = DriverScan(nodes={path: DeviceNode(path, path, (195, 0), mode, gid=44)})

    spec = gpu_spec(scan, [gpu(0)], {}).spec
    without = gpu_spec(scan, [gpu(0)], {}, with_gids=False).spec
    assert spec is not None
    assert without is not None
    assert spec["devices"][0]["containerEdits"].get("additionalGids") == gids
    assert spec["cdiVersion"] == ("0.7.0" if gids else "0.5.0")
    assert without["cdiVersion"] == "0.5.0"  # old readers refuse 0.7


def test_gds_gdrcopy_mofed_and_imex_have_kinds_of_their_own(tmp_path: Path) -> None:
    for path, minor in (
        ("/dev/nvidia-fs0", 0),
        ("/dev/nvidia-fs1", 1),
        ("/dev/gdrdrv", 0),
        ("/dev/infiniband/uverbs0", 0),
        ("/dev/infiniband/rdma_cm", 1),
        ("/dev/nvidia-caps-imex-channels/channel0", 0),
        ("/dev/nvidia-caps-imex-channels/channel7", 7),
    ):
        node(tmp_path, path, 240, minor)
    touch(tmp_path, "/etc/cufile.json", "{}")
    found = built(tmp_path, [gpu(0)])

    assert nodes_of(found["nvidia.com/gds"], "all") == {"/dev/nvidia-fs0", "/dev/nvidia-fs1"}
    assert nodes_of(found["nvidia.com/gdrcopy"], "all") == {"/dev/gdrdrv"}
    assert nodes_of(found["nvidia.com/mofed"], "all") == {
        "/dev/infiniband/uverbs0",
        "/dev/infiniband/rdma_cm",
    }
    assert nodes_of(found["nvidia.com/imex-channel"], "7") == {"/dev/nvidia-caps-imex-channels/channel7"}
    assert nodes_of(found["management.nvidia.com/gpu"], "all") >= {
        "/dev/nvidia-caps-imex-channels/channel0",
        "/dev/nvidia-caps-imex-channels/channel7",
    }
    assert not any(
        path.startswith("/dev/nvidia-fs") for path in nodes_of(found["management.nvidia.com/gpu"], "all")
    )
    gds = found["nvidia.com/gds"].spec
    assert gds is not None
    [device] = gds["devices"]
    assert [mount["hostPath"] for mount in device["containerEdits"]["mounts"]] == ["/etc/cufile.json"]
    assert [problems_in(each.spec) for each in found.values()] == [[]] * 6


# --- when no spec can be made -----------------------------------------------------------------------------
def reasons(found: Mapping[str, Built]) -> dict[str, str]:
    return {kind.partition(".")[0]: each.reason for kind, each in found.items() if each.spec is None}


def test_a_library_that_is_not_the_modules_makes_no_spec(tmp_path: Path) -> None:
    found = built(tmp_path, [gpu(0)], module="550.90.07")

    reason = "the driver's library is 550.163.01 and its module 550.90.07"
    assert reasons(found) == {"nvidia": reason, "management": reason}


def test_without_nvml_management_still_has_all_nodes(tmp_path: Path) -> None:
    tree = driver_tree(tmp_path, gpus=1)
    gpus, management = build(Place(tree, tree), None, why="the driver is not loaded")

    assert gpus.reason == "NVML does not answer: the driver is not loaded"
    assert nodes_of(management, "all") == CONTROL | {"/dev/nvidia0"}


def test_a_node_without_driver_says_where_it_looked_in_vain(tmp_path: Path) -> None:
    link(tmp_path, f"{LIBS}/libnvidia-ml.so.1", "libnvidia-ml.so.535.1")
    [gpus, _] = build(Place(Tree(tmp_path), Tree(tmp_path)), None)
    assert gpus.reason == (
        "no driver library below / (/usr/lib/x86_64-linux-gnu: libnvidia-ml.so.1 leads to "
        "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.1, which is not there)"
    )
