"""Reading a node's CDI directories for the toolkit's link."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpuready.chain.cdi_specs import problems_of
from gpuready.gpu.cdi import installed
from gpuready.node.links.cdi_specs import SpecLook
from gpuready.node.root import Root

GPU = "nvidia.com/gpu"
FILE = "nvidia.com-gpu.json"


class Node:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "run/cdi"
        self.folder.mkdir(parents=True)
        (root / "var").mkdir()
        (root / "var/run").symlink_to("/run")
        (root / "dev").mkdir()
        (root / "dev/nvidia0").touch()
        self.spec(FILE, GPU)
        self.record({GPU: {"file": f"/var/run/cdi/{FILE}", "digest": "d"}})
        self.looking = SpecLook(Root(root), root / "run/gpuready/records")

    def spec(self, name: str, kind: str, device: str = "0", path: str = "/dev/nvidia0") -> None:
        rows = [{"name": device, "containerEdits": {"deviceNodes": [{"path": path}]}}]
        self.write(name, json.dumps({"cdiVersion": "0.5.0", "kind": kind, "devices": rows}))

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def record(self, kinds: dict[str, Any]) -> None:
        file = self.root / "run/gpuready/records/cdi.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"bootId": "b", "kinds": kinds}))

    def problems(self) -> list[tuple[str, str]]:
        return [(each.problem.reason, each.problem.message) for each in problems_of(self.looking.look())]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_node_whose_specs_are_whole(node: Node) -> None:
    assert node.problems() == []


def test_a_spec_that_somebody_removed(node: Node) -> None:
    (node.folder / FILE).unlink()

    assert [reason for reason, _ in node.problems()] == ["CdiSpecMissing"]


def test_a_host_path_that_went_away_without_the_file_changing(node: Node) -> None:
    assert node.problems() == []
    (node.root / "dev/nvidia0").unlink()

    ((reason, said),) = node.problems()
    assert reason == "CdiHostPathMissing"
    assert said == f"/var/run/cdi/{FILE} names 1 path not on the host: /dev/nvidia0"


def test_a_link_to_nowhere_is_not_on_the_host_and_an_absolute_one_is_the_hosts_own(node: Node) -> None:
    (node.root / "dev/nvidia0").unlink()
    (node.root / "dev/nvidia0").symlink_to("/dev/real")
    assert [reason for reason, _ in node.problems()] == ["CdiHostPathMissing"]

    (node.root / "dev/real").touch()
    assert node.problems() == []


def test_a_file_of_another_program_that_defines_the_same_name(node: Node) -> None:
    node.spec("nvidia.yaml", GPU)

    ((reason, said),) = node.problems()
    assert reason == "CdiNameConflict"
    assert "/var/run/cdi/nvidia.yaml both define nvidia.com/gpu=0" in said


def test_a_file_that_is_neither_json_nor_yaml_names_its_line(node: Node) -> None:
    node.write("nvidia.yaml", "kind: nvidia.com/gpu\n  devices: [\n")

    ((reason, said),) = node.problems()
    assert reason == "CdiSpecRefused"
    assert said.startswith("/var/run/cdi/nvidia.yaml is refused by every runtime: ")
    assert "line 2" in said


def test_a_stale_mark_of_the_keeper(node: Node) -> None:
    row = {"file": f"/var/run/cdi/{FILE}", "digest": "d", "stale": True, "reason": "NVML does not answer"}
    node.record({GPU: row})

    assert [reason for reason, _ in node.problems()] == ["CdiSpecStale"]


def test_a_directory_that_is_none(node: Node) -> None:
    for file in node.folder.iterdir():
        file.unlink()
    node.folder.rmdir()
    node.folder.write_text("")

    assert node.problems()[0] == ("CdiDirectoryUnreadable", "/var/run/cdi cannot be read: Not a directory")


def test_files_of_other_vendors_are_not_ours_to_judge(node: Node) -> None:
    node.write("intel.json", "{")
    node.spec("fpga.json", "xilinx.com/fpga", path="/dev/gone")
    node.spec("claim.json", "k8s.gpu.nvidia.com/claim", path="/dev/gone")

    assert node.problems() == []


def test_what_has_not_changed_is_not_parsed_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    real = installed.parse_spec

    def counted(text: str) -> Any:
        parsed.append(text)
        return real(text)

    monkeypatch.setattr(installed, "parse_spec", counted)
    monkeypatch.setattr(installed, "_SETTLED_NS", 0)
    for _ in range(3):
        node.looking.look()
    assert len(parsed) == 1

    node.spec("claim.json", "k8s.gpu.nvidia.com/claim")
    node.looking.look()
    assert len(parsed) == 2


def test_one_that_was_written_just_now_may_be_written_again_in_the_same_moment(node: Node) -> None:
    """A file system tells times in steps: the same stamp may be of another content."""
    file = node.folder / FILE
    node.looking.look()
    stamp = file.stat()
    file.write_text(file.read_text().replace("/dev/nvidia0", "/dev/nvidia9"))
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    assert [reason for reason, _ in node.problems()] == ["CdiHostPathMissing"]
