"""The files that people give to the tools: what is no policy and no node is refused in words (status 2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuready.commands import run

POLICY = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}}
COMMANDS = ("render", "images", "plan")


@pytest.fixture(params=COMMANDS)
def tool(request, tmp_path: Path, capsys):
    """tool(policy, nodes) runs one command with these files: (exit status, what it says on stderr)."""

    def of(policy: Any, nodes: Any) -> tuple[int, str]:
        for name, value in (("policy", policy), ("nodes", nodes)):
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            (tmp_path / name).write_bytes(content)
        status = run([request.param, "-f", str(tmp_path / "policy"), "--nodes", str(tmp_path / "nodes")])
        return status, capsys.readouterr().err

    return of


def node(**fields: Any) -> dict[str, Any]:
    """A GPU node that nobody has labelled yet, with some of its fields replaced."""
    labels = {
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04",
    }
    return {"kind": "Node", "metadata": {"name": "g1", "labels": labels}, **fields}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"metadata": {"name": "g1", "labels": ["a"]}},
            "[0].metadata.labels must be an object, and is a list",
        ),
        ({"metadata": {"name": "g1", "labels": {"a": 1}}}, "[0].metadata.labels.a must be a text"),
        ({"metadata": {"name": "g1", "annotations": 7}}, "[0].metadata.annotations must be an object"),
        ({"status": True}, "[0].status must be an object, and is true"),
        ({"status": {"nodeInfo": "x"}}, '[0].status.nodeInfo must be an object, and is "x"'),
        ({"status": {"nodeInfo": {"kernelVersion": []}}}, "[0].status.nodeInfo.kernelVersion must be a text"),
        ({"spec": {"taints": [7]}}, "[0].spec.taints[0] must be an object"),
    ],
)
def test_a_node_with_a_field_of_another_kind_is_refused_with_its_place(tool, fields, why):
    status, said = tool(POLICY, [node(**fields)])

    assert status == 2
    assert "--nodes is not as the API has it" in said
    assert why in said


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (7, "metadata must be an object, and is a number"),
        ({"name": ["p"]}, "metadata.name must be a text, and is a list"),
        ({"labels": {"a": True}}, "metadata.labels.a must be a text, and is true"),
    ],
)
def test_a_policy_whose_metadata_are_none_is_refused_with_the_place(tool, metadata, why):
    status, said = tool({**POLICY, "metadata": metadata}, [node()])

    assert status == 2
    assert why in said


@pytest.mark.parametrize("which", ["policy", "nodes"])
def test_a_file_that_is_no_text_is_refused(tool, which):
    files = {"policy": POLICY, "nodes": [node()], which: b"a: \xff\xfe"}

    status, said = tool(**files)

    assert status == 2
    assert "is not UTF-8 text: invalid start byte at byte 3" in said
