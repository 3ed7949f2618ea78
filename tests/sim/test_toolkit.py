"""The container toolkit on simulated nodes: the runtime is taught, drift repaired, nothing left."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gpuready.cli import main
from gpuready_sim.client import EVENTS, NODES, Resource
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.containerd import merge
from gpuready_sim.crio import merge as crio_merge
from gpuready_sim.scenarios.examples import example

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC = """
nodes:
- {name: old, gpus: {L4: 1}, containerd: 1.7.24}
- {name: new, gpus: {L4: 1}, containerd: 2.2.1}
- {name: crio, gpus: {L4: 1}, crio: 1.34.2}
- name: alone
  gpus: {L4: 1}
  containerd: 1.6.20
  labels: {nvidia.com/gpu.deploy.container-toolkit: "false"}
"""
RELEASES = {"old": "1.7.24", "new": "2.2.1"}
GPU_NODES = Resource("gpuready.dev", "v1alpha1", "gpunodes", "GPUNode", namespaced=False)
POLICIES = Resource("nvidia.com", "v1", "clusterpolicies", "ClusterPolicy", namespaced=False)
HANDLERS = {"nvidia", "nvidia-cdi", "nvidia-legacy"}
ROOT, HIDING = "etc/containerd/config.toml", "etc/containerd/conf.d/99-registry.toml"
CRIO, CRIO_DROP_INS = "1.34.2", "etc/crio/crio.conf.d"
JOURNAL = "var/lib/gpuready/toolkit/journal.json"
REGISTRY = '[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "/etc/containerd/certs.d"\n'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC) as running:
        running.before = {node: (running.node_root(node) / ROOT).read_text() for node in RELEASES}
        await running.apply(policy())
        for node in (*RELEASES, "crio"):
            await running.wait(GPU_NODES, node, until=toolkit_is("ok"))
        yield running


def policy() -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load(example("clusterpolicy.yaml").read_text())
    made["spec"]["toolkit"] = {"enabled": True}
    return made


def toolkit_of(gpu_node: dict[str, Any]) -> dict[str, Any]:
    rows = (gpu_node.get("status") or {}).get("chain") or []
    return next((row for row in rows if row["link"] == "toolkit"), {})


def toolkit_is(state: str, reason: str = ""):
    return lambda node: (
        (toolkit_of(node).get("state"), toolkit_of(node).get("reason") if reason else "")
        == (
            state,
            reason,
        )
    )


def plugin_of(gpu_node: dict[str, Any]) -> dict[str, Any]:
    rows = (gpu_node.get("status") or {}).get("chain") or []
    return next((row for row in rows if row["link"] == "device-plugin"), {})


def in_force(cluster: Cluster, node: str) -> dict[str, Any]:
    return merge.cri_of(merge.configuration(cluster.node_root(node), f"/{ROOT}", RELEASES[node]))


async def test_the_runtime_knows_the_handlers_and_the_node_says_so(cluster: Cluster) -> None:
    for node, release in RELEASES.items():
        said = toolkit_of(await cluster.client.get(GPU_NODES, node))
        assert said["reason"] == "HandlersKnown"
        assert said["message"].startswith(f"containerd {release} knows the handlers nvidia, nvidia-cdi")
        found = in_force(cluster, node)
        assert set(found["containerd"]["runtimes"]) == HANDLERS | {"runc"}
        assert found["containerd"]["runtimes"]["nvidia"]["options"]["SystemdCgroup"] is True
        assert found["enable_cdi"] is True
        assert (cluster.node_root(node) / "run/nvidia/validations/toolkit-ready").exists()


async def test_every_node_is_taught_in_its_own_runtimes_way(cluster: Cluster) -> None:
    """One policy, containerd of two generations and CRI-O: what runs on a node is that node's own fact."""
    said = toolkit_of(await cluster.client.get(GPU_NODES, "crio"))
    assert said["reason"] == "HandlersKnown"
    assert said["message"] == f"crio {CRIO} knows the handlers nvidia, nvidia-cdi, nvidia-legacy"
    assert {path.name for path in (cluster.node_root("crio") / CRIO_DROP_INS).iterdir()} == {
        "10-crio.conf",
        "99-nvidia.conf",
    }
    found = runtimes_of_crio(cluster)
    assert {found[name]["runtime_path"] for name in HANDLERS} == {"/usr/libexec/crio/crun"}
    assert found["nvidia"]["monitor_path"] == found["crun"]["monitor_path"]


async def test_gpus_are_offered_where_the_runtime_would_inject_them(cluster: Cluster) -> None:
    """containerd 1.7 comes with enable_cdi = false: until the toolkit is done a pod would get no GPU."""
    for node in (*RELEASES, "crio"):
        await cluster.wait(
            NODES, node, until=lambda obj: obj["status"]["allocatable"].get("nvidia.com/gpu") == "1"
        )

    refused = await cluster.wait(
        GPU_NODES, "alone", until=lambda obj: plugin_of(obj).get("state") == "broken"
    )

    row = plugin_of(refused)
    assert row["reason"] == "RuntimeIgnoresCdi"
    assert row["message"].startswith("containerd 1.6.20 knows no CDI: it ignores cdi-annotations")
    assert row["nextStep"].startswith("upgrade containerd to 1.7 or newer")
    assert "nvidia.com/gpu" not in (await cluster.client.get(NODES, "alone"))["status"]["allocatable"]


def runtimes_of_crio(cluster: Cluster) -> dict[str, Any]:
    """What that node's CRI-O would know if it started now."""
    root = cluster.node_root("crio")
    told = crio_merge.started(crio_merge.configuration(root, CRIO), root, CRIO)
    found: dict[str, Any] = told["crio"]["runtime"]["runtimes"]
    return found


async def test_a_drop_in_that_is_gone_from_crio_is_put_back(cluster: Cluster) -> None:
    ours = cluster.node_root("crio") / CRIO_DROP_INS / "99-nvidia.conf"

    ours.unlink()
    repaired = await cluster.wait(
        GPU_NODES, "crio", until=lambda node: bool(node["status"]["runtime"].get("repaired"))
    )

    assert repaired["status"]["runtime"]["repaired"]["files"] == [f"/{CRIO_DROP_INS}/99-nvidia.conf"]
    assert set(runtimes_of_crio(cluster)) >= HANDLERS


async def test_a_file_that_hides_the_handlers_is_repaired_and_an_event_names_it(cluster: Cluster) -> None:
    hiding = cluster.node_root("old") / HIDING

    hiding.write_text(REGISTRY)
    repaired = await cluster.wait(
        GPU_NODES, "old", until=lambda node: bool(node["status"]["runtime"].get("repaired"))
    )

    row = repaired["status"]["runtime"]["repaired"]
    assert row["files"] == [f"/{HIDING}"]
    assert any("nvidia" in key for key in row["keys"])
    degraded = await cluster.wait(GPU_NODES, "old", until=toolkit_is("degraded", "SettingsWithoutEffect"))
    assert f"/{HIDING} replaces the whole section" in toolkit_of(degraded)["message"]
    found = in_force(cluster, "old")
    assert set(found["containerd"]["runtimes"]) == HANDLERS | {"runc"}
    assert found["registry"]["config_path"] == "/etc/containerd/certs.d"
    async with asyncio.timeout(60):  # the Event comes after the status
        while not await _repair_is_told(cluster):
            await asyncio.sleep(0.05)


async def _repair_is_told(cluster: Cluster) -> bool:
    events, _ = await cluster.client.list(EVENTS, "default")
    said = [event["message"] for event in events if event["reason"] == "RuntimeConfigRepaired"]
    return any(f"/{HIDING} was changed by others" in message for message in said)


async def test_specs_that_are_not_whole_are_told_by_node_and_doctor_live_and_saved(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = cluster.node_root("new") / "var/run/cdi"
    foreign = folder / "nvidia.yaml"
    edits = {"deviceNodes": [{"path": "/dev/nvidia0"}]}
    device = {"name": "0", "containerEdits": edits}

    foreign.write_text(yaml.safe_dump({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [device]}))
    taken = await cluster.wait(GPU_NODES, "new", until=toolkit_is("degraded", "CdiNamesTaken"))
    bundle = tmp_path / "bundle.json"
    live = await gpuready("doctor", "--kubeconfig", str(cluster.kubeconfig), "--save-bundle", str(bundle))
    saved = await gpuready("doctor", "--bundle", str(bundle))

    assert "/var/run/cdi/nvidia.yaml defines the same names" in toolkit_of(taken)["message"]
    assert toolkit_of(taken)["nextStep"].startswith("remove /var/run/cdi/nvidia.yaml")
    for said in (live, saved):
        assert "warn  node/new  toolkit  containerd 2.2.1 knows the handlers; the CDI spec of" in said
        assert "next  remove /var/run/cdi/nvidia.yaml" in said

    # The device plugin's names are those that pods get: with them in doubt no pod would start.
    foreign.write_text((folder / "k8s.device-plugin.nvidia.com-gpu.json").read_text())
    broken = await cluster.wait(GPU_NODES, "new", until=toolkit_is("broken", "CdiNameConflict"))
    assert "no runtime takes either" in toolkit_of(broken)["message"]

    foreign.unlink()
    await cluster.wait(GPU_NODES, "new", until=toolkit_is("ok"))


async def gpuready(*words: str) -> str:
    """What the command prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        await asyncio.to_thread(main, words)
    return out.getvalue()


async def test_an_uninstall_leaves_the_files_as_they_were(cluster: Cluster) -> None:
    (cluster.node_root("old") / HIDING).unlink(missing_ok=True)
    await cluster.wait(GPU_NODES, "old", until=toolkit_is("ok"))

    await cluster.client.delete(POLICIES, "cluster-policy")
    for node in (*RELEASES, "crio"):
        await cluster.wait_gone(GPU_NODES, node, timeout_s=60)

    assert [path.name for path in (cluster.node_root("crio") / CRIO_DROP_INS).iterdir()] == ["10-crio.conf"]

    for node, text in cluster.before.items():
        root = cluster.node_root(node)
        assert (root / ROOT).read_text() == text
        assert [path.name for path in (root / "etc/containerd/conf.d").iterdir()] == []
        assert not (root / JOURNAL).exists()
        assert not (root / "run/nvidia/validations/toolkit-ready").exists()
