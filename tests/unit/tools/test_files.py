"""The files that people give to the tools: what is no policy and no node is refused in words (status 2)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from gpuready.commands import run
from gpuready.errors import UsageError
from gpuready.tools.files import policy_in
from gpuready.tools.snapshot import Snapshot, save

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


@pytest.mark.parametrize(
    ("which", "content", "where"),
    [
        pytest.param("policy", b"spec:\n  driver: {a\n", " line 3, column 1: ", id="a policy"),
        pytest.param("nodes", b"- a\n-b: [\n", " line 2, column 1: ", id="nodes"),
        pytest.param("policy", b"a: 1\na: 2\n", ' line 2, column 1: the key "a"', id="a key twice"),
        pytest.param("policy", b"- 7\n", " holds a list, not", id="another thing"),
        pytest.param("nodes", b"a: 1\n", " given with --nodes holds no list of Nodes", id="no nodes"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name_and_the_place(
    tool, tmp_path: Path, which: str, content: bytes, where: str
) -> None:
    files = {"policy": POLICY, "nodes": [node()], which: content}

    status, said = tool(**files)

    assert status == 2
    assert said.startswith(f"error: {tmp_path / which}{where}")


def test_of_standard_input_the_place_is_said_too(capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: [\n")))

    assert run(["render", "-f", "-"]) == 2

    assert capsys.readouterr().err.startswith("error: standard input line 2, column 1: ")


@pytest.mark.parametrize("which", ["policy", "nodes"])
def test_a_file_that_is_no_text_is_refused(tool, which):
    files = {"policy": POLICY, "nodes": [node()], which: b"a: \xff\xfe"}

    status, said = tool(**files)

    assert status == 2
    assert "is not UTF-8 text: invalid start byte at byte 3" in said


# --- what stands beside a policy --------------------------------------------------------------------------

POLICY_TEXT = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: p}\n"
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sharing}\n"
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(POLICY_TEXT, id="alone"),
        pytest.param(f"{CONFIG_MAP}---\n{POLICY_TEXT}", id="after its ConfigMap"),
        pytest.param(f"---\n---\n{POLICY_TEXT}---\n", id="among empty documents"),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: nvidia.com/v1, kind: ClusterPolicy, "
            "metadata: {name: p}}\n",
            id="as kubectl get clusterpolicy -o yaml lists it",
        ),
    ],
)
def test_the_one_policy_of_a_file_is_found(text: str) -> None:
    assert policy_in(text)["metadata"]["name"] == "p"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it is empty"),
        ("driver: {enabled: true}\n", "nothing in it says apiVersion and kind"),
        ("7\n", "the file holds a bare value"),
        (CONFIG_MAP, "the file holds v1 ConfigMap, not nvidia.com/v1 ClusterPolicy"),
        (f"{POLICY_TEXT}---\n{POLICY_TEXT}", "the file holds 2 ClusterPolicies"),
    ],
)
def test_any_other_file_is_refused_in_words(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        policy_in(text)
    assert told in str(caught.value)
    assert caught.value.next_step


def test_the_example_that_brings_its_sharing_along_can_be_rendered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["render", "-f", str(EXAMPLES / "clusterpolicy-sharing.yaml")]) == 0
    assert "nvidia-device-plugin-daemonset" in capsys.readouterr().out


def test_looking_and_writing_at_once_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "--check", "--apply"]) == 2
    assert "give one of them" in capsys.readouterr().err


def test_a_bundle_that_cannot_be_written_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        save(Snapshot(), str(tmp_path / "nowhere" / "bundle.json"))
    assert "--save-bundle" in caught.value.next_step


def test_one_node_as_kubectl_prints_it_is_a_list_of_one(tool):
    status, said = tool(POLICY, {"apiVersion": "v1", **node()})

    assert status != 2, said


@pytest.mark.parametrize("command", COMMANDS)
def test_standard_input_is_not_read_for_two_files(command: str, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(POLICY).encode())))

    assert run([command, "-f", "-", "--nodes", "-"]) == 2

    assert "reads standard input already; give one of them as a file" in capsys.readouterr().err
