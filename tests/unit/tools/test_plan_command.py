"""`gpuready plan`: what is typed, what is printed, and the nodes that a file gives it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.tools.planned import (
    PLUGIN,
    Object,
    gpu_machine,
    policy,
)

from gpuready import names
from gpuready.cli import main

NODES = """\
kind: NodeList
items:
- kind: Node
  metadata:
    name: gpu-1
    labels:
      feature.node.kubernetes.io/pci-10de.present: "true"
      feature.node.kubernetes.io/system-os_release.ID: ubuntu
      feature.node.kubernetes.io/system-os_release.VERSION_ID: "22.04"
      kubernetes.io/os: linux
- kind: Node
  metadata: {name: cpu-1, labels: {kubernetes.io/os: linux}}
"""


def files(tmp_path: Path, raw: Object, nodes: str = NODES) -> list[str]:
    (tmp_path / "policy.yaml").write_text(json.dumps(raw))
    (tmp_path / "nodes.yaml").write_text(nodes)
    return ["plan", "-f", str(tmp_path / "policy.yaml"), "--nodes", str(tmp_path / "nodes.yaml")]


def test_without_a_cluster_it_tells_what_an_empty_one_would_get(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = files(tmp_path, policy(gfd={"enabled": False}, psp={"enabled": True}))

    code = main([*typed, "--own-image", "registry.example/gpuready:1"])

    assert code == 1
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if line in EXPECTED] == EXPECTED
    assert told[-1].endswith("9 labels on 1 node, 1 GPUNode created, no workload is touched")


EXPECTED = [
    "start   gpuready-node-agent  on gpu-1, cpu-1",
    "start   nvidia-device-plugin-daemonset  on gpu-1",
    "create  device-plugin  ServiceAccount nvidia-device-plugin, DaemonSet nvidia-device-plugin-daemonset",
    "label   gpu-1  by the operator",
    "          nvidia.com/gpu.deploy.device-plugin=true",
    "          nvidia.com/gpu.present=true",
    "create  GPUNode gpu-1",
    "run     device-plugin  gpuready's: registry.example/gpuready:1",
    "ignore  spec.psp  deprecated, ignored as in the original",
    "note    1 node: nobody may have looked for GPUs there; what the node agent finds decides about more "
    "labels, GPUNodes and pods",
    "note    no cluster was looked at: hosts are taken to have no driver, and nothing to be there",
]


def test_a_node_that_the_agent_has_left_alone_is_no_unseen_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled = NODES.replace(
        "    name: gpu-1", '    name: gpu-1\n    annotations: {gpuready.dev/agent-labels: "{}"}'
    )
    ready = "{type: Ready, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z', lastHeartbeatTime: '"
    heard = f"  status: {{conditions: [{ready}2026-01-02T00:00:00Z'}}]}}\n"

    main(files(tmp_path, policy(), labelled + heard))

    assert "nobody may have looked" not in capsys.readouterr().out


def test_json_has_the_same_facts_under_the_names_of_the_api(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([*files(tmp_path, policy()), "-o", "json"])

    found = json.loads(capsys.readouterr().out)
    assert code == 1
    assert {"kind": "DaemonSet", "name": PLUGIN}.items() <= found["objects"]["created"][-1].items()
    assert {"daemonSet": PLUGIN, "operand": "device-plugin", "node": "gpu-1"} in found["pods"]["starts"]
    (labels,) = found["nodeLabels"]
    assert (labels["node"], labels["by"], labels["labels"][names.GPU_PRESENT]) == (
        "gpu-1",
        "operator",
        "true",
    )
    assert [row["node"] for row in found["gpuNodes"]] == ["gpu-1"]
    assert found["workloads"] == found["problems"] == []


@pytest.mark.parametrize(
    ("raw", "nodes", "said"),
    [
        pytest.param({"apiVersion": "v1", "kind": "Pod"}, NODES, "v1 Pod", id="no policy"),
        pytest.param(policy(), "kind: Pod", "no list of Nodes", id="no nodes"),
        pytest.param(
            policy(), "- metadata: {name: [x]}", "is not as the API has it", id="a node that cannot be"
        ),
    ],
)
def test_it_exits_2_when_it_could_not_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], raw: Object, nodes: str, said: str
) -> None:
    assert main(files(tmp_path, raw, nodes)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err


def test_a_server_that_does_not_answer_exits_2_in_three_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    server = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    config = {"current-context": "c", "contexts": [context], "clusters": [server]}
    (tmp_path / "kubeconfig").write_text(json.dumps({**config, "users": [{"name": "u", "user": {}}]}))
    typed = files(tmp_path, policy())[:3]

    assert main([*typed, "--kubeconfig", str(tmp_path / "kubeconfig")]) == 2

    told = capfd.readouterr().err.splitlines()
    assert len(told) == 3
    assert "did not answer" in told[0]


def test_a_host_that_is_labelled_as_having_a_driver_gets_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = gpu_machine(**{names.DEPLOY_DRIVER: names.DRIVER_PRE_INSTALLED, names.GPU_PRESENT: "true"})
    note = json.dumps({names.DEPLOY_DRIVER: names.DRIVER_PRE_INSTALLED, names.GPU_PRESENT: "true"})
    machine["metadata"]["annotations"] = {names.CONTROLLER_LABELS_ANNOTATION: note}
    listed = json.dumps({"kind": "NodeList", "items": [{"kind": "Node", **machine}]})
    typed = files(tmp_path, policy(driver={"enabled": True}), listed)

    main([*typed, "-o", "json"])
    planned = json.loads(capsys.readouterr().out)

    driver = next(row for row in planned["operands"] if row["name"] == "driver")
    assert driver["images"] == []
    assert all(names.DEPLOY_DRIVER not in row["labels"] for row in planned["nodeLabels"])


@pytest.mark.parametrize("label", [None, "true", "false", names.DRIVER_PRE_INSTALLED, "paused-for-upgrade"])
def test_plan_and_images_speak_of_the_same_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], label: str | None
) -> None:
    labels = {names.DEPLOY_DRIVER: label} if label else {}
    machines = [gpu_machine("a", **labels), gpu_machine("b", **{names.OS_VERSION_LABEL: "24.04"})]
    listed = json.dumps({"kind": "NodeList", "items": [{"kind": "Node", **each} for each in machines]})
    asked = policy(driver={"enabled": True, "repoConfig": {"configMapName": "mine"}})
    typed = files(tmp_path, asked, listed)

    main([*typed, "-o", "json"])
    planned = {image for row in json.loads(capsys.readouterr().out)["operands"] for image in row["images"]}
    main(["images", *typed[1:], "-o", "names"])
    pulled = set(capsys.readouterr().out.split())

    assert planned == pulled
