"""`gpuready images`: what a mirror must hold, for one policy and its nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuready import names
from gpuready.commands import run
from gpuready.tools.images import images_of
from gpuready.tools.render import rendered
from gpuready.tools.unlabelled import without_gpus

POLICY = """
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec:
  driver: {version: 570.86.10}
  toolkit: {enabled: false}
  dcgm: {enabled: false}
  dcgmExporter: {enabled: false}
  migManager: {enabled: false}
"""
MIRROR = POLICY + "  gpuready: {registry: mirror.example.com/gpu}\n"
ORIGINAL = (Path(__file__).parents[2] / "data/chart-policy.yaml").read_text()
DRIVER = "nvcr.io/nvidia/driver:570.86.10"


def nodes(*systems: tuple[str, str]) -> str:
    prefix = "feature.node.kubernetes.io"
    items = [
        {
            "kind": "Node",
            "metadata": {
                "name": f"gpu-{name}",
                "labels": {
                    f"{prefix}/pci-10de.present": "true",
                    f"{prefix}/system-os_release.ID": name,
                    f"{prefix}/system-os_release.VERSION_ID": version,
                },
            },
        }
        for name, version in systems
    ]
    return yaml.safe_dump({"items": items})


UBUNTU = nodes(("ubuntu", "22.04"))


def test_drivers_are_listed_one_for_each_operating_system() -> None:
    pulled, _ = images_of(POLICY, nodes(("ubuntu", "22.04"), ("rhel", "9.4")))
    drivers = {each.image for each in pulled if "/driver:" in each.image}
    assert drivers == {f"{DRIVER}-ubuntu22.04", f"{DRIVER}-rhel9.4"}


def unlabelled(os_image: str, kernel: str = "5.15.0-130-generic") -> str:
    info = {"osImage": os_image, "kernelVersion": kernel}
    return yaml.safe_dump(
        {"items": [{"kind": "Node", "metadata": {"name": "new"}, "status": {"nodeInfo": info}}]}
    )


@pytest.mark.parametrize(
    ("os_image", "tag"),
    [
        ("Ubuntu 22.04.5 LTS", "ubuntu22.04"),
        ("Red Hat Enterprise Linux 9.4 (Plow)", "rhel9.4"),
        ("Red Hat Enterprise Linux 10.0 (Coughlan)", "rhel10"),
        ("Rocky Linux 9.5 (Blue Onyx)", "rocky9"),
        ("SUSE Linux Enterprise Server 15 SP6", "sles15.6"),
        ("Debian GNU/Linux 12 (bookworm)", "debian12"),
    ],
)
def test_before_the_first_label_the_kubelet_says_which_driver_image_will_be_pulled(
    os_image: str, tag: str
) -> None:
    pulled, remarks = images_of(POLICY, unlabelled(os_image))
    assert [each.image for each in pulled if "/driver:" in each.image] == [f"{DRIVER}-{tag}"]
    assert any(remark.startswith("1 node without any label") and "(new)" in remark for remark in remarks)


def test_before_the_first_label_a_precompiled_driver_is_that_of_the_kernel() -> None:
    precompiled = POLICY.replace("{version: 570.86.10}", '{version: "570", usePrecompiled: true}')
    pulled, _ = images_of(precompiled, unlabelled("Ubuntu 22.04.5 LTS"))
    assert "nvcr.io/nvidia/driver:570-5.15.0-130-generic-ubuntu22.04" in {each.image for each in pulled}


def test_an_operating_system_that_nobody_knows_leads_to_no_driver_image() -> None:
    pulled, remarks = images_of(POLICY, unlabelled("Garden Linux 1592"))
    assert [each.image for each in pulled if "/driver:" in each.image] == []
    assert any("driver is left out" in remark for remark in remarks)


NOTED = {names.AGENT_LABELS_ANNOTATION: "{}"}
HEARD, BEFORE, JUST = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T23:58:00Z"


def machine(
    name: str,
    *,
    ready: str = "True",
    since: str = BEFORE,
    os: str = "linux",
    labels: Any = (),
    notes: Any = (),
) -> dict[str, Any]:
    row = {"type": "Ready", "status": ready, "lastTransitionTime": since, "lastHeartbeatTime": HEARD}
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/os": os, **dict(labels)},
            "annotations": dict(notes),
        },
        "status": {"conditions": [row], "nodeInfo": {"osImage": "Debian GNU/Linux 12 (bookworm)"}},
    }


GPU_NODE = machine("gpu", labels={"feature.node.kubernetes.io/pci-10de.present": "true"}, notes=NOTED)


@pytest.mark.parametrize(
    ("nodes", "bare"),
    [
        pytest.param([GPU_NODE, machine("cpu")], {"cpu"}, id="the agent runs, and has labelled others only"),
        pytest.param([GPU_NODE, machine("new", since=JUST)], set(), id="a node that has just come"),
        pytest.param([GPU_NODE, machine("down", ready="Unknown")], set(), id="a node that is not heard"),
        pytest.param([machine("cpu")], set(), id="nobody of ours was there yet"),
        pytest.param([machine("win", os="windows")], {"win"}, id="no Linux"),
        pytest.param([GPU_NODE], set(), id="one with GPUs"),
    ],
)
def test_a_node_that_the_agent_left_without_a_label_has_no_gpu(nodes: Any, bare: set[str]) -> None:
    assert without_gpus(nodes) == bare
    pulled, remarks = images_of(POLICY, yaml.safe_dump({"items": nodes}))
    drivers = {each.image for each in pulled if "/driver:" in each.image}
    assert (f"{DRIVER}-debian12" in drivers) == bool(len(nodes) - len(bare) - (GPU_NODE in nodes))
    assert any(f"1 node without GPUs ({', '.join(bare)})" in remark for remark in remarks) == bool(bare)


def test_our_own_image_is_listed_once_with_all_who_run_it() -> None:
    pulled, _ = images_of(POLICY, UBUNTU, own_image="registry.example.com/team/gpuready:0.1.0")
    own = [each for each in pulled if each.flavour == "gpuready"]
    assert [each.image for each in own] == ["registry.example.com/team/gpuready:0.1.0"]
    operands = {use.partition(":")[0] for use in own[0].used_by}
    assert operands >= {"operator", "node-agent", "device-plugin"}


def test_with_a_mirror_each_image_has_its_source() -> None:
    pulled, _ = images_of(MIRROR, UBUNTU)
    pairs = {each.source: each.image for each in pulled}
    assert pairs[f"{DRIVER}-ubuntu22.04"] == "mirror.example.com/gpu/nvidia/driver:570.86.10-ubuntu22.04"
    assert pairs["gpuready:0.1.0"] == "mirror.example.com/gpu/gpuready:0.1.0"
    assert all(image.startswith("mirror.example.com/gpu/") for image in pairs.values())


@pytest.mark.parametrize("policy", [POLICY, MIRROR, ORIGINAL], ids=["ours", "mirror", "the original's"])
def test_no_image_of_the_rendered_objects_is_missing(policy: str) -> None:
    pulled, _ = images_of(policy, UBUNTU)
    listed = {each.image for each in pulled} | {each.source for each in pulled}
    objects = rendered(policy, UBUNTU, "gpu-operator").objects
    pods = [o["spec"]["template"]["spec"] for o in objects if o["kind"] == "DaemonSet"]
    used = {c["image"] for pod in pods for c in (*pod.get("initContainers", ()), *pod["containers"])}
    assert used
    assert used - listed == set()


def test_names_and_pairs_are_made_for_loops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, machines = tmp_path / "policy.yaml", tmp_path / "nodes.yaml"
    policy.write_text(MIRROR)
    machines.write_text(UBUNTU)
    asked = ["images", "-f", str(policy), "--nodes", str(machines), "-o"]
    assert run([*asked, "names"]) == 0
    listed = capsys.readouterr().out.split()
    assert "mirror.example.com/gpu/nvidia/driver:570.86.10-ubuntu22.04" in listed
    assert run([*asked, "pairs"]) == 0
    assert all(len(line.split()) == 2 for line in capsys.readouterr().out.splitlines())
    assert run([*asked, "json"]) == 0
    assert {each["image"] for each in json.loads(capsys.readouterr().out)["images"]} == set(listed)


def test_without_nodes_it_says_that_drivers_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    assert run(["images", "-f", str(policy)]) == 0
    seen = capsys.readouterr()
    assert "driver is left out" in seen.err
    assert "/driver:" not in seen.out
