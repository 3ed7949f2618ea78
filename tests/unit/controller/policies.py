"""A policy and its cluster for tests: what is planned of it, and what its status says."""

from __future__ import annotations

from typing import Any

from gpuready import names
from gpuready.controller.nodes.summary import decode_gpunode
from gpuready.controller.policy.active import read
from gpuready.controller.policy.observed import NodeView, Observed
from gpuready.controller.policy.plan import plan_of
from gpuready.controller.policy.status import status_of
from gpuready.operands.contract import ClusterView, NodeFacts

NOW = "2026-11-29T12:00:00Z"
UBUNTU = {
    names.NFD_PCI_LABELS[0]: "true",
    names.OS_ID_LABEL: "ubuntu",
    names.OS_VERSION_LABEL: "22.04",
    names.DEPLOY_DRIVER: "true",
}
OFF = {"toolkit": {"enabled": False}, "dcgm": {"enabled": False}, "dcgmExporter": {"enabled": False}}
NAMED = {"repository": "example.org/nvidia", "image": "k8s-device-plugin", "version": "v0.17.0"}
BANANA = {"env": [{"name": "MIG_STRATEGY", "value": "banana"}]}


def raw(name: str = "cluster-policy", created: str = NOW, **spec: Any) -> dict[str, Any]:
    wanted = {**OFF, "migManager": {"enabled": False}, **spec}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 3, "creationTimestamp": created},
        "spec": wanted,
    }


def view(*nodes: NodeFacts, base: str = "") -> ClusterView:
    return ClusterView("gpu-operator", "gpuready:test", nodes or (node_facts(),), base_driver_pool=base)


def node_facts(name: str = "g1", **labels: str) -> NodeFacts:
    return NodeFacts(name, {**UBUNTU, **labels})


def planned(**spec: Any) -> Any:
    active = read(raw(**spec))
    return plan_of(active, active.policy, view())


def daemonsets(plan: Any) -> dict[str, Any]:
    return {obj["metadata"]["name"]: obj for obj in plan.objects if obj["kind"] == "DaemonSet"}


def deployed(name: str = "g1", **labels: str) -> NodeView:
    mine = {names.GPU_PRESENT: "true", names.DEPLOY_DRIVER: "true", names.DEPLOY_DEVICE_PLUGIN: "true"}
    return NodeView(name, {**UBUNTU, **mine, "nvidia.com/gpu.product": "NVIDIA-L4", **labels})


def gpu_node(name: str = "g1", driver: str = "ok", plugin: str = "ok", reason: str = "") -> Any:
    rows = [("driver", driver), ("device-plugin", plugin)]
    chain = [f'{{"link":"{k}","state":"{v}","reason":"{reason}","message":"m {reason}"}}' for k, v in rows]
    body = f'{{"metadata":{{"name":"{name}"}},"spec":{{}},"status":{{"gpus":2,"chain":[{",".join(chain)}]}}}}'
    return decode_gpunode(body.encode())


def status(*nodes: NodeView, gpu_nodes: list[Any], **kwargs: Any) -> dict[str, Any]:
    active = read(raw(**kwargs.pop("spec", {})))
    plan = plan_of(active, active.policy, view())
    seen = Observed(
        nodes,
        {each.metadata.name: each for each in gpu_nodes},
        daemonsets(plan),
        agent_name="agent",
        **kwargs,
    )
    return status_of(active, plan, seen, "gpu-operator", NOW)
