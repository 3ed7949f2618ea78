"""`gpuready render`: the objects a policy leads to, as YAML, without a cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuready import names
from gpuready.api.policy import find_unknown_fields
from gpuready.chain.wording import counted, listed
from gpuready.controller.labelling.decision import has_gpu
from gpuready.controller.policy.active import read
from gpuready.controller.policy.plan import Plan, plan_of
from gpuready.controller.policy.view import files_of, named_configs
from gpuready.errors import PolicyError
from gpuready.operands.contract import ClusterView, NodeFacts
from gpuready.tools.files import beside_in, nodes_in, policy_in
from gpuready.tools.unlabelled import supposed_gpu_node, without_gpus
from gpuready.yaml_text import dump_yaml_documents


@dataclass(frozen=True)
class Rendered:
    """The objects, in the order in which they are applied, and what a reader should know of them."""

    objects: Sequence[Mapping[str, Any]]
    remarks: tuple[str, ...]

    @property
    def yaml(self) -> str:
        return dump_yaml_documents(self.objects)


def rendered(
    policy_text: str, nodes_text: str, namespace: str, own_image: str = "", *, suppose_gpus: bool = False
) -> Rendered:
    """What the operator would apply for this policy on these nodes.

    policy_text   ConfigMaps that stand in it too are taken for what the policy names
    nodes_text    a NodeList or a list of Nodes; "" = no nodes, so nothing that depends on an operating system
    own_image     the operator's image; "" = of this release
    suppose_gpus  a node that nobody has labelled yet counts as one with GPUs, where its kubelet names its OS
    raises       PolicyError when the policy has problems, UsageError for a text that is something else
    """
    raw = policy_in(policy_text)
    owned = "uid" in raw["metadata"]
    active = read({**raw, "metadata": {"uid": "", **raw["metadata"]}})
    if active.policy is None:
        problems = "; ".join(problem.message for problem in active.problems)
        raise PolicyError("the policy has problems", why=problems, next_step="correct the fields named above")
    beside = beside_in(policy_text, namespace).configmaps
    unseen = named_configs(active.policy) - beside.keys()
    nodes = nodes_in(nodes_text)
    bare = without_gpus(nodes) if suppose_gpus else set()
    unseen_nodes = [each for each in nodes if each["metadata"]["name"] not in bare]
    supposed = [each for each in map(supposed_gpu_node, unseen_nodes) if each] if suppose_gpus else []
    facts = [each for each in map(_facts, nodes) if has_gpu(each.labels)]
    view = ClusterView(
        namespace=namespace,
        own_image=own_image or f"{names.OWN_IMAGE}:{names.VERSION}",
        gpu_nodes=(*facts, *map(_facts, supposed)),
        # Not seen is not missing: an operand that needs one is not refused for it.
        configs={name: {} for name in unseen} | {name: files_of(each) for name, each in beside.items()},
        # Who asks for one has an API server that knows the kind.
        service_monitors=active.policy.spec.dcgm_exporter.service_monitor.enabled,
    )
    plan = plan_of(active, active.policy, view)
    objects = plan.objects if owned else [_without_owner(obj) for obj in plan.objects]
    remarks = _remarks(raw, plan, view, len(nodes), unseen)
    return Rendered(objects, (*remarks, *_supposed(supposed), *_bare(bare)))


def _facts(node: Mapping[str, Any]) -> NodeFacts:
    """A node that nobody has labelled yet counts as one that takes a driver."""
    labels = {names.DEPLOY_DRIVER: "true", **(node["metadata"].get("labels") or {})}
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return NodeFacts(
        node["metadata"]["name"],
        labels,
        kernel=info.get("kernelVersion", ""),
        runtime=info.get("containerRuntimeVersion", ""),
        architecture=info.get("architecture", ""),
    )


def _without_owner(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A file has no uid, and a reference with an invented one would be refused by `kubectl diff`."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "ownerReferences"}
    return {**obj, "metadata": metadata}


_WITHOUT_NODES = "no GPU node was given, so the driver is left out (one per operating system); see --nodes"
_WITHOUT_GPU_NODES = (
    f"no node has a label of an NVIDIA GPU ({names.NFD_PCI_LABELS[0]}=true), so the driver is left out (one "
    "per operating system); the node agent or node-feature-discovery writes these labels: list the nodes "
    "again then"
)


def _supposed(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    if not nodes:
        return []
    count, named = counted(len(nodes), "node"), listed([each["metadata"]["name"] for each in nodes])
    return [
        f"{count} without any label of node feature discovery yet ({named}): taken to have GPUs, so that no "
        "image of theirs is missing; one of which you know that it has none may be left out of --nodes"
    ]


def _bare(nodes: Collection[str]) -> list[str]:
    if not nodes:
        return []
    count = counted(len(nodes), "node")
    return [
        f"{count} without GPUs ({listed(sorted(nodes))}): the node agent, which has labelled others, found "
        "none or cannot run there"
    ]


def _remarks(
    raw: Mapping[str, Any], plan: Plan, view: ClusterView, nodes: int, unseen: Collection[str]
) -> list[str]:
    remarks = [f"{field}: nobody knows this field; it is ignored" for field in find_unknown_fields(raw)]
    for each in plan.operands:
        if each.refusal:
            remarks.append(f"{each.operand.name}: {each.refusal.message}; next: {each.refusal.next_step}")
    remarks += [f"without effect: {each}" for each in plan.without_effect]
    if plan.not_implemented:
        remarks.append("enabled, but not installed by this version: " + ", ".join(plan.not_implemented))
    remarks += [
        f"ConfigMap {name}: its keys are not known here; what they become is left out"
        for name in sorted(unseen)
    ]
    if not view.gpu_nodes:
        remarks.append(_WITHOUT_GPU_NODES if nodes else _WITHOUT_NODES)
    return remarks
