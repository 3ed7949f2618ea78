"""The specs of nvidia-ctk v1.19.1 for recorded trees, and each place where ours differ, with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuready.gpu.cdi.build import Place, build
from gpuready.gpu.cdi.model import host_paths
from gpuready.gpu.cdi.scan import missing_paths
from gpuready.gpu.cdi.schema import problems_in
from gpuready.gpu.tree import Tree

from . import trees

PROFILES = ("a100-driver-host", "a100-driver-container", "t4-driver-host", "h100-driver-host")

# What is different in ours, on purpose. Everything else is equal, and the tests below hold it.
#
# 1. Libraries are mounted under the names that programs load (sonames, .so, gbm, GLX), so no create-symlinks
#    hook makes them: one process less for each container, and nothing to fail where hooks cannot run.
# 2. /etc/OpenCL/vendors/nvidia.icd is mounted (the original does from v1.20 on).
# 3. In a driver container's placement links below /dev/dri/by-path lose the driver root: the original makes
#    /run/nvidia/driver/dev/dri/by-path/... inside the container, where nobody looks.
# 4. The device `all` has one create-symlinks hook with all links, not one for each GPU.
# 5. management.nvidia.com/gpu also names each GPU by its UUID.
MOUNTED_BESIDES = {"/etc/OpenCL/vendors/nvidia.icd"}


@pytest.fixture(params=PROFILES)
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def both(tmp_path: Path, profile: str, case: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the original's spec, ours) of a recorded tree."""
    data = trees.recorded(profile)
    if case not in data["cases"]:
        pytest.skip(f"{case} was not recorded for {profile}")
    inputs, recorded = data["inputs"], data["cases"][case]
    trees.build_tree(tmp_path, inputs["files"])
    hook = next(
        (a.partition("=")[2] for a in recorded["args"] if "hook-path" in a), "/usr/bin/nvidia-cdi-hook"
    )
    trees.touch(tmp_path, hook)
    host, root = Tree(tmp_path), inputs["driverRoot"]
    driver = Tree(tmp_path / root.lstrip("/"))
    built = build(Place(host, driver, root, hooks=(hook,)), trees.gpus_of(inputs))
    found = {each.kind: each.spec for each in built}
    ours = found[recorded["spec"]["kind"]]
    assert ours is not None
    return recorded["spec"], ours


def node_facts(edits: dict[str, Any]) -> list[dict[str, Any]]:
    """Nodes with what the original leaves out when it is 0; without numbers where we may not make nodes."""
    rows = [{"minor": 0, "hostPath": row["path"], **row} for row in edits.get("deviceNodes", [])]
    if not trees.make_nodes():
        rows = [{key: row[key] for key in ("path", "hostPath", "permissions")} for row in rows]
    return sorted(rows, key=lambda row: row["path"])


def links_of(edits: dict[str, Any]) -> list[str]:
    return [
        arg
        for hook in edits.get("hooks", [])
        if hook["args"][1] == "create-symlinks"
        for arg in hook["args"][3::2]
    ]


@pytest.mark.parametrize("case", ["gpu", "management"])
def test_kind_version_and_environment_are_the_originals(tmp_path: Path, profile: str, case: str) -> None:
    theirs, ours = both(tmp_path, profile, case)

    assert (ours["kind"], ours["cdiVersion"]) == (theirs["kind"], theirs["cdiVersion"])
    assert ours["containerEdits"]["env"] == theirs["containerEdits"]["env"]


def test_gpus_have_the_originals_names_and_nodes(tmp_path: Path, profile: str) -> None:
    theirs, ours = both(tmp_path, profile, "gpu")

    assert [device["name"] for device in ours["devices"]] == [device["name"] for device in theirs["devices"]]
    for mine, other in zip(ours["devices"], theirs["devices"], strict=True):
        assert node_facts(mine["containerEdits"]) == node_facts(other["containerEdits"])
    assert node_facts(ours["containerEdits"]) == node_facts(theirs["containerEdits"])


def test_management_has_the_originals_nodes_and_each_gpu_besides(tmp_path: Path, profile: str) -> None:
    theirs, ours = both(tmp_path, profile, "management")
    devices = {device["name"]: device["containerEdits"] for device in ours["devices"]}

    assert node_facts(devices["all"]) == node_facts(theirs["devices"][0]["containerEdits"])
    uuids = [row["uuid"] for row in trees.recorded(profile)["inputs"]["gpus"]]
    assert sorted(devices) == sorted([*uuids, "all"])
    assert "deviceNodes" not in ours["containerEdits"]


@pytest.mark.parametrize("case", ["gpu", "management"])
def test_every_mount_of_the_original_is_there_and_ours_besides_replace_its_links(
    tmp_path: Path, profile: str, case: str
) -> None:
    theirs, ours = both(tmp_path, profile, case)
    wanted = {mount["containerPath"]: mount for mount in theirs["containerEdits"]["mounts"]}
    found = {mount["containerPath"]: mount for mount in ours["containerEdits"]["mounts"]}
    linked = {text.partition("::")[2] for text in links_of(theirs["containerEdits"])}

    assert {path: found.get(path) for path in wanted} == wanted
    besides = {path for path in found if path not in wanted}
    # Of the libraries with a version of their own the original's ldconfig makes the links.
    sonames = {path for path in besides if "libnvidia-egl-" in path}
    assert besides - sonames - MOUNTED_BESIDES == linked
    assert linked <= found.keys()


@pytest.mark.parametrize("case", ["gpu", "management"])
def test_the_hooks_are_the_originals_without_the_links_that_are_mounted(
    tmp_path: Path, profile: str, case: str
) -> None:
    theirs, ours = both(tmp_path, profile, case)
    wanted = [h for h in theirs["containerEdits"]["hooks"] if h["args"][1] != "create-symlinks"]

    assert ours["containerEdits"]["hooks"] == wanted


def test_cards_are_found_by_their_pci_address(tmp_path: Path, profile: str) -> None:
    theirs, ours = both(tmp_path, profile, "gpu")
    root = trees.recorded(profile)["inputs"]["driverRoot"].rstrip("/")

    for mine, other in zip(ours["devices"], theirs["devices"], strict=True):
        wanted = [text.replace(f"::{root}/dev", "::/dev") for text in links_of(other["containerEdits"])]
        assert links_of(mine["containerEdits"]) == wanted
        assert len(mine["containerEdits"]["hooks"]) == 1


@pytest.mark.parametrize("case", ["gpu", "management"])
def test_a_runtime_takes_ours_and_every_path_in_it_is_on_the_host(
    tmp_path: Path, profile: str, case: str
) -> None:
    _, ours = both(tmp_path, profile, case)

    assert problems_in(ours) == []
    assert missing_paths(Tree(tmp_path), host_paths(ours)) == []
    assert str(tmp_path) not in str(ours)
