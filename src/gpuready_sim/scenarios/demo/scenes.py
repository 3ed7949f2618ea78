"""The scenes of the demonstration, in order. Each states what a user should see, and looks."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuready_sim.client import DAEMON_SETS, NODES, PODS, Resource
from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.containerd import merge
from gpuready_sim.scenarios.demo.chain_view import GPU_NODES, ChainView
from gpuready_sim.scenarios.examples import example
from gpuready_sim.scenarios.story import Story

POLICIES = Resource("nvidia.com", "v1", "clusterpolicies", "ClusterPolicy", namespaced=False)
NAMESPACE = "gpu-operator"
GPU = "nvidia.com/gpu"
PROVE_CUDA = "gpuready.dev/prove-cuda"
GPU_NODE_NAMES = {"a100", "h100", "rtx4090"}
CONTAINERD_CONFIG, HIDING = "etc/containerd/config.toml", "etc/containerd/conf.d/99-registry.toml"
REGISTRY = '[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "/etc/containerd/certs.d"\n'
NEW_DRIVER = "570.124.06"
CDI_FILE = "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
Object = dict[str, Any]


async def tell(story: Story, name: str, api: Api) -> None:
    with story.step("Four machines join a cluster; nothing knows of their GPUs"):
        starting = Cluster.started(example("cluster-demo.yaml"), name=name, api=api)
        cluster = await starting.__aenter__()
    try:
        await _bare(story, cluster)
        await _policy(story, cluster)
        await _one_gpu(story, cluster)
        await _shared_card(story, cluster)
        await _hidden_handlers(story, cluster)
        await _xid(story, cluster)
        await _wrong_answer(story, cluster)
        await _driver_update(story, cluster)
        await _gone(story, cluster)
    finally:
        await starting.__aexit__(None, None, None)


async def _bare(story: Story, cluster: Cluster) -> None:
    nodes, _ = await cluster.client.list(NODES)
    offered = {node["metadata"]["name"]: GPU in node["status"].get("capacity", {}) for node in nodes}
    story.expect(len(offered) == 4 and not any(offered.values()), "4 nodes Ready, none offers a GPU", offered)


# --- from a policy to GPUs ------------------------------------------------------------------------------


async def _policy(story: Story, cluster: Cluster) -> None:
    with story.step("One policy, and the chains fill in"):
        await cluster.client.merge_patch(
            NODES, "rtx4090", {"metadata": {"labels": {"nvidia.com/device-plugin.config": "shared-by-five"}}}
        )
        story.say("$ kubectl apply -f examples/clusterpolicy-sharing.yaml")
        await cluster.apply(example("clusterpolicy-sharing.yaml"))
        await ChainView(story, cluster).follow(_all_whole, timeout_s=60)
        policy = await cluster.wait(POLICIES, "cluster-policy", until=_is_ready, timeout_s=30)
    story.expect(True, "the policy is ready", policy.get("status"))
    found = {node: await cluster.allocatable(node) for node in ("cpu", "a100", "h100", "rtx4090")}
    wanted = {"cpu": 0, "a100": 8, "h100": 8, "rtx4090": 5}
    story.expect(found == wanted, "8 GPUs on a100, 8 on h100, 5 shares of one card on rtx4090", found)
    pods, _ = await cluster.client.list(
        PODS, NAMESPACE, label_selector="app.kubernetes.io/component=nvidia-driver"
    )
    where = {pod["spec"]["nodeName"] for pod in pods}
    story.expect(where == {"a100"}, "a driver pod only where the machine has no driver of its own", where)
    story.quote("gpuready status", (await _gpuready(cluster, "status"))[1])


def _all_whole(rows: Mapping[str, Mapping[str, str]]) -> bool:
    return set(rows) == GPU_NODE_NAMES and all(
        row["driver"] == row["plugin"] == row["cuda"] == "ok" for row in rows.values()
    )


def _is_ready(policy: Object) -> bool:
    return bool((policy.get("status") or {}).get("state") == "ready")


# --- pods -----------------------------------------------------------------------------------------------


async def _one_gpu(story: Story, cluster: Cluster) -> None:
    with story.step("A pod asks for one GPU, and sees that one only"):
        await cluster.apply(_pod("one-gpu", "h100", ["nvidia-smi", "-L"]))
        await cluster.wait(PODS, "one-gpu", "default", _phase("Succeeded"))
        log = await cluster.logs("one-gpu")
        story.quote("kubectl logs one-gpu", log)
    uuids = re.findall(r"UUID: (GPU-[0-9a-f-]+)", log)
    node = (await _gpu_node(cluster, "h100"))["status"]
    known = {device["uuid"] for device in node["devices"]}
    story.expect(len(uuids) == 1 and uuids[0] in known, "exactly one of the node's eight GPUs", uuids)


async def _shared_card(story: Story, cluster: Cluster) -> None:
    with story.step("Five pods share one card; the sixth is told why it waits"):
        names = [f"share-{number}" for number in range(1, 7)]
        for name in names[:5]:
            await cluster.apply(_pod(name, "rtx4090", ["sleep", "infinity"]))
        for name in names[:5]:
            await cluster.wait(PODS, name, "default", _phase("Running"))
        story.expect(True, "five pods run on one card", names[:5])
        await cluster.apply(_pod(names[5], "rtx4090", ["sleep", "infinity"]))
        waiting = await cluster.wait(PODS, names[5], "default", _is_unschedulable)
        message = _condition(waiting, "PodScheduled")["message"]
        story.quote(f"kubectl describe pod {names[5]}", f"FailedScheduling  {message}")
        code, said = await _gpuready(cluster, "doctor")
        story.quote("gpuready doctor", said)
    story.expect(
        "Insufficient nvidia.com/gpu" in message, "the scheduler says Insufficient nvidia.com/gpu", message
    )
    full = code == 1 and names[5] in said and "rtx4090" in said
    story.expect(full, "doctor says that the card is really full, and finds nothing else", said)
    for name in names:
        await cluster.client.delete(PODS, name, "default", grace_s=0)
        await cluster.wait_gone(PODS, name, "default")


# --- the container runtime ------------------------------------------------------------------------------


async def _hidden_handlers(story: Story, cluster: Cluster) -> None:
    with story.step(
        "Another tool drops a registry file on h100, and containerd 1.7 forgets its GPU handlers"
    ):
        root = cluster.node_root("h100")
        before = _handlers(root)
        story.say(f"$ cp registry.toml /{HIDING}")
        (root / HIDING).write_text(REGISTRY)
        hidden = _handlers(root)
        await cluster.wait(GPU_NODES, "h100", until=_toolkit_reason("SettingsWithoutEffect"))
        after = _handlers(root)
        code, said = await _gpuready(cluster, "doctor", "--node", "h100")
        story.quote("gpuready doctor --node h100", said)
        story.expect(
            "nvidia" in before and "nvidia" not in hidden, "the file hid every handler of ours", hidden
        )
        story.expect({"nvidia", "runc"} <= after, "the toolkit has put them where they count", after)
        named = code == 1 and f"/{HIDING}" in said
        story.expect(named, "doctor names the file that pushes the root's settings aside", said)
        (root / HIDING).unlink()
        await cluster.wait(GPU_NODES, "h100", until=_toolkit_reason("HandlersKnown"))
    story.expect(_handlers(root) == before, "the file is gone, and all is as before", _handlers(root))


def _handlers(root: Path) -> set[str]:
    """What the node's containerd would know if it started now."""
    told = merge.configuration(root, f"/{CONTAINERD_CONFIG}", "1.7.24")
    return set(merge.cri_of(told)["containerd"]["runtimes"])


# --- faults ---------------------------------------------------------------------------------------------


async def _xid(story: Story, cluster: Cluster) -> None:
    with story.step("XID 109 on one H100: it leaves, with a reason, and a reset brings it back"):
        story.say("$ gpuready-sim fault xid h100/3 109")
        await cluster.fault("xid", target="h100/3", code=109)
        await cluster.wait(NODES, "h100", until=_offers(7))
        await cluster.wait(GPU_NODES, "h100", until=lambda node: node["status"].get("healthy") == 7)
        counts = (await cluster.capacity("h100"), await cluster.allocatable("h100"))
        code, said = await _gpuready(cluster, "doctor", "--node", "h100")
        story.quote("gpuready doctor --node h100", said)
        story.expect(counts == (8, 7), "capacity 8, allocatable 7", counts)
        story.expect(code == 1 and "109" in said, "doctor names the GPU and the XID", said)
        story.say("$ gpuready-sim fault reset h100/3")
        await cluster.fault("reset", target="h100/3")
        await cluster.wait(NODES, "h100", until=_offers(8))
    story.expect(
        await cluster.allocatable("h100") == 8, "8 again after the reset", await cluster.node("h100")
    )


async def _wrong_answer(story: Story, cluster: Cluster) -> None:
    with story.step("One A100 counts wrong; the last link, CUDA, says so and takes nothing away"):
        story.say("$ gpuready-sim fault cuda a100/5 wrong-result")
        await cluster.fault("cuda", target="a100/5", trouble="wrong-result")
        story.say(f"$ kubectl annotate node a100 {PROVE_CUDA}=1")
        await _prove_cuda(cluster, "a100", "1")
        await cluster.wait(GPU_NODES, "a100", until=_link_reason("cuda", "WrongResult"))
        code, said = await _gpuready(cluster, "doctor", "--node", "a100")
        story.quote("gpuready doctor --node a100", said)
        story.expect(code == 1 and "GPU 5" in said, "doctor names the GPU", said)
        offered = await cluster.allocatable("a100")
        story.expect(offered == 8, "a proof alone takes no GPU out of service", offered)
        await cluster.fault("cuda", target="a100/5", trouble="wrong-result", on=False)
        await _prove_cuda(cluster, "a100", "2")
        await cluster.wait(GPU_NODES, "a100", until=_link_reason("cuda", "CudaWorks"))


async def _prove_cuda(cluster: Cluster, node: str, request: str) -> None:
    await cluster.client.merge_patch(NODES, node, {"metadata": {"annotations": {PROVE_CUDA: request}}})


async def _driver_update(story: Story, cluster: Cluster) -> None:
    with story.step("The host driver of h100 is updated under running pods, then reloaded"):
        await cluster.apply(_pod("quiet", "h100", ["sleep", "infinity"]))
        before = await cluster.wait(PODS, "quiet", "default", _phase("Running"))
        story.say(f"$ gpuready-sim fault driver-update h100 {NEW_DRIVER}")
        await cluster.fault("driver-update", node="h100", version=NEW_DRIVER)
        await cluster.wait(GPU_NODES, "h100", until=_driver_reason("DriverLibraryMismatch"))
        await cluster.wait(NODES, "h100", until=_offers(0))
        code, said = await _gpuready(cluster, "doctor", "--node", "h100")
        story.quote("gpuready doctor --node h100", said)
        named = code == 1 and NEW_DRIVER in said and "570.86.10" in said
        story.expect(named, "library and module versions are named, and no pod is sent there", said)
        _expect_true_cdi(story, cluster, "while they differ")
        story.say("$ gpuready-sim fault driver-reload h100")
        await cluster.fault("driver-reload", node="h100")
        await cluster.wait(NODES, "h100", until=_offers(8))
        await cluster.wait(
            GPU_NODES, "h100", until=lambda node: node["status"]["driver"].get("version") == NEW_DRIVER
        )
    _expect_true_cdi(story, cluster, "after the reload", version=NEW_DRIVER)
    after = await cluster.client.get(PODS, "quiet", "default")
    same = _container(before) == _container(after) and before["metadata"]["uid"] == after["metadata"]["uid"]
    story.expect(same, "the pod without an NVML handle was not touched", _container(after))
    await cluster.client.delete(PODS, "quiet", "default", grace_s=0)


def _expect_true_cdi(story: Story, cluster: Cluster, when: str, version: str = "") -> None:
    """Every path that the CDI spec names exists on the host."""
    root = cluster.node_root("h100")
    text = (root / CDI_FILE).read_text()
    edits = json.loads(text)["containerEdits"]
    stale = [m["hostPath"] for m in edits["mounts"] if not Path(f"{root}{m['hostPath']}").exists()]
    story.expect(not stale and version in text, f"every path in the CDI spec exists {when}", stale or version)


# --- nothing left ---------------------------------------------------------------------------------------


async def _gone(story: Story, cluster: Cluster) -> None:
    with story.step("The policy goes, and with it everything that was made"):
        story.say("$ kubectl delete clusterpolicy cluster-policy")
        await cluster.client.delete(PODS, "one-gpu", "default")
        await cluster.client.delete(POLICIES, "cluster-policy")
        for name in sorted(GPU_NODE_NAMES):
            await cluster.wait_gone(GPU_NODES, name, timeout_s=60)
        await cluster.wait_gone(DAEMON_SETS, "gpuready-node-agent", NAMESPACE, timeout_s=60)
        await cluster.wait_pods(NAMESPACE, "", lambda pods: not pods, timeout_s=60)
        for name in ("a100", "cpu", "h100", "rtx4090"):
            await cluster.wait(NODES, name, until=_is_clean, timeout_s=30)
    story.expect(True, "no DaemonSet, no pod, no GPUNode", None)
    story.expect(True, "no label, annotation or condition of ours on any node", None)
    left = [str(path) for node in sorted(GPU_NODE_NAMES) for path in _left_on_disk(cluster.node_root(node))]
    story.expect(not left, "no gate, record, configuration or CDI spec of ours on any disk", left)


def _is_clean(node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    annotations = node["metadata"].get("annotations") or {}
    ours = [key for key in labels if key.startswith(("nvidia.com/", "feature.node."))]
    ours = [key for key in ours if key != "nvidia.com/device-plugin.config"]  # the user's own
    noted = [key for key in annotations if key.startswith("gpuready.dev/")]
    return not ours and not noted and not _condition(node, "GPUReady")


def _left_on_disk(root: Path) -> list[Path]:
    folders = ("run/nvidia/validations", "run/gpuready", "var/lib/gpuready", "etc/containerd/conf.d")
    files = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    return files + [path for path in (root / CDI_FILE,) if path.exists()]


# --- small things ---------------------------------------------------------------------------------------


def _pod(name: str, node: str, command: list[str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [
                {"name": "main", "image": "cuda", "command": command, "resources": {"limits": {GPU: "1"}}}
            ],
        },
    }


async def _gpuready(cluster: Cluster, *arguments: str) -> tuple[int, str]:
    """Run the product's own command line; (exit status, stdout)."""
    argv = [sys.executable, "-m", "gpuready.cli", *arguments, "--kubeconfig", str(cluster.kubeconfig)]
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode or 0, out.decode() or err.decode()


async def _gpu_node(cluster: Cluster, name: str) -> Object:
    return await cluster.client.get(GPU_NODES, name)


def _phase(phase: str) -> Any:
    return lambda pod: (pod.get("status") or {}).get("phase") == phase


def _offers(count: int) -> Any:
    return lambda node: int(node["status"].get("allocatable", {}).get(GPU, 0)) == count


def _driver_reason(reason: str) -> Any:
    return _link_reason("driver", reason)


def _toolkit_reason(reason: str) -> Any:
    return _link_reason("toolkit", reason)


def _link_reason(link: str, reason: str) -> Any:
    def has_reason(node: Object) -> bool:
        chain = (node.get("status") or {}).get("chain") or ()
        return any(row["link"] == link and row.get("reason") == reason for row in chain)

    return has_reason


def _condition(obj: Object, kind: str) -> Object:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((row for row in conditions if row["type"] == kind), {})


def _is_unschedulable(pod: Object) -> bool:
    return bool(_condition(pod, "PodScheduled").get("reason") == "Unschedulable")


def _container(pod: Object) -> tuple[str, int]:
    status = pod["status"]["containerStatuses"][0]
    return status.get("containerID", ""), status["restartCount"]
