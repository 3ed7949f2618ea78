"""What becomes of each node: its labels, and what its GPUNode tells its daemons. Pure.

The labels are settled step by step as in the cluster: the operator labels, the node agent follows the
GPUNode, and what the agent changed may change what the operator wants. Both are asked for their decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuready import names
from gpuready.chain.verdict import Link
from gpuready.controller.labelling.decision import LabelFacts, decide, has_gpu, is_gpu_node
from gpuready.controller.labelling.loop import facts_of, label_policy_of
from gpuready.controller.nodes.asked import Asked
from gpuready.controller.nodes.desired import ConfigSource, Spec
from gpuready.controller.nodes.spec import SpecInputs, spec_of
from gpuready.controller.nodes.summary import GPUNodeSummary
from gpuready.gpu.feature_labels import PREFIX, primary_product, sharing_labels
from gpuready.kube.trimmed import Node, Pod
from gpuready.operands.node_agent import labels as agent_labels
from gpuready.operands.node_agent.discovery import labels_of_nfd
from gpuready.operands.node_agent.feature_labels import sharing_of
from gpuready.tools.plan.forecast import Fate, Field, GPUNodeChange, LabelChange, NodeTrouble

Object = Mapping[str, Any]
FindDaemonSet = Callable[[str], Object | None]
OPERATOR, AGENT = "operator", "node-agent"
# Each writer follows the other at most once for every label that depends on one of the other's.
_ROUNDS = 4


@dataclass(frozen=True)
class Surroundings:
    """What besides the node decides.

    asked            of every node alike by the policy
    source           the ConfigMap that the policy names for the device plugin
    driver_pods      of every node, by its name
    driver_sets      the DaemonSets of the driver
    assumed_driver   driver owner of a node that nobody has looked at; "" leaves it open
    """

    asked: Asked
    source: ConfigSource | None
    driver_pods: Mapping[str, Sequence[Pod]]
    driver_sets: Sequence[Object] = ()
    assumed_driver: str = ""


@dataclass(frozen=True)
class Outlook:
    """One node as it will be.

    begins_features   its agent will write feature labels, and has not been asked to before
    """

    node: Node
    summary: GPUNodeSummary | None
    changes: tuple[LabelChange, ...]
    begins_features: bool = False

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def is_labelled(self) -> bool:
        """Node feature discovery, or our agent in its place, has described this machine."""
        return any(key.startswith(names.NFD_PREFIX) for key in self.node.metadata.labels)

    @property
    def has_gpus(self) -> bool:
        labels = self.node.metadata.labels
        return has_gpu(labels) or is_gpu_node(labels)


def settled(
    node: Node,
    summary: GPUNodeSummary | None,
    devices: Sequence[Object],
    around: Surroundings,
    find_daemonset: FindDaemonSet,
) -> Outlook:
    """`devices`: GPUNode.status.devices, empty while the agent has not reported."""
    before = node.metadata.labels
    by: dict[str, str] = {}
    for _ in range(_ROUNDS):
        patch = _operators_patch(node, summary, around)
        by.update(dict.fromkeys(patch.get("labels", {}), OPERATOR))
        node = _patched(node, patch)
        spec = wish_of(node, summary, around, find_daemonset)
        patch = _agents_patch(node, summary, devices, spec)
        if not patch.get("labels"):
            break
        by.update(dict.fromkeys(patch["labels"], AGENT))
        node = _patched(node, patch)
    asked = bool(((summary.spec if summary else {}).get("featureLabels") or {}).get("enabled"))
    begins = bool(spec["featureLabels"]["enabled"]) and not asked
    return Outlook(node, summary, tuple(_label_changes(before, node, by)), begins)


def wish_of(
    node: Node, summary: GPUNodeSummary | None, around: Surroundings, find_daemonset: FindDaemonSet
) -> Spec:
    inputs = SpecInputs(
        source=around.source,
        driver_pods=around.driver_pods.get(node.metadata.name, ()),
        find_daemonset=find_daemonset,
        driver_sets=around.driver_sets,
    )
    return spec_of(node, around.asked, summary, inputs)


def gpu_node_change(
    outlook: Outlook, around: Surroundings, find_daemonset: FindDaemonSet
) -> GPUNodeChange | None:
    if not outlook.has_gpus:
        return GPUNodeChange(Fate.PRUNED, outlook.name) if outlook.summary else None
    spec = wish_of(outlook.node, outlook.summary, around, find_daemonset)
    before = outlook.summary.spec if outlook.summary else {}
    fields = tuple(_fields(before, spec, "spec"))
    if outlook.summary and not fields:
        return None
    fate = Fate.CHANGED if outlook.summary else Fate.CREATED
    return GPUNodeChange(fate, outlook.name, fields, tuple(_troubles(before, spec)))


def _troubles(before: Mapping[str, Any], spec: Spec) -> Iterator[NodeTrouble]:
    for link, part, key in _TOLD_OF:
        told = spec[part].get(key)
        if told and told != (before.get(part) or {}).get(key):
            words = (str(told.get(word) or "") for word in ("reason", "message", "nextStep"))
            yield NodeTrouble(link, *words)


# Of GPUNode.spec: where the operator tells a node what is wrong with what is asked for it.
_TOLD_OF = (
    (Link.DRIVER, "driver", "trouble"),
    (Link.DEVICE_PLUGIN, "devicePlugin", "refused"),
    (Link.DEVICE_PLUGIN, "devicePlugin", "error"),
)


# --- labels -----------------------------------------------------------------------------------------------


def _operators_patch(node: Node, summary: GPUNodeSummary | None, around: Surroundings) -> Object:
    facts = facts_of(node, summary)
    if not facts.driver_owner and around.assumed_driver:
        has_one = facts.labels.get(names.DEPLOY_DRIVER) == names.DRIVER_PRE_INSTALLED
        facts = LabelFacts(facts.labels, facts.annotations, "host" if has_one else around.assumed_driver)
    patch = decide(facts, label_policy_of(around.asked.policy)) or {}
    found: Object = patch.get("metadata", {})
    return found


def _agents_patch(
    node: Node, summary: GPUNodeSummary | None, devices: Sequence[Object], spec: Spec
) -> Object:
    """What the node agent will do to its labels; what it would find anew on the node nobody knows here."""
    meta = node.metadata
    if summary is None or agent_labels.find_written(meta.annotations) is None:
        return {}
    mine = agent_labels.ours(meta.labels, meta.annotations)
    if not spec["featureLabels"]["enabled"]:
        wanted = {key: value for key, value in mine.items() if not key.startswith(PREFIX)}
    else:
        wanted = {**mine, **_shared_anew(mine, summary, devices, spec)}
    of_others = labels_of_nfd(meta.annotations)
    return agent_labels.metadata_patch(meta.labels, meta.annotations, wanted, of_others) or {}


def _shared_anew(
    mine: Mapping[str, str], summary: GPUNodeSummary, devices: Sequence[Object], spec: Spec
) -> dict[str, str]:
    """The feature labels that follow from another sharing of the same GPUs."""
    was, config = ((each.get("devicePlugin") or {}).get("config") or {} for each in (summary.spec, spec))
    if was == config or not devices:
        return {}
    model = primary_product([str(device.get("product") or "") for device in devices])
    mig = any(device.get("mig") == "enabled" for device in devices)
    found = sharing_labels(model, sharing_of(None, config), mig=mig)
    return {key: value for key, value in found.items() if key in mine}


def _patched(node: Node, patch: Object) -> Node:
    meta = node.metadata
    labels, annotations = (
        _merged(now, patch.get(part) or {})
        for now, part in ((meta.labels, "labels"), (meta.annotations, "annotations"))
    )
    changed = msgspec.structs.replace(meta, labels=labels, annotations=annotations)
    return msgspec.structs.replace(node, metadata=changed)


def _merged(now: Mapping[str, str], patch: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**now, **patch}.items() if value is not None}


def _label_changes(before: Mapping[str, str], node: Node, by: Mapping[str, str]) -> Iterator[LabelChange]:
    """What differs in the end; a label that came and went again on the way is none."""
    after = node.metadata.labels
    for writer in (OPERATOR, AGENT):
        keys = sorted(key for key, who in by.items() if who == writer and before.get(key) != after.get(key))
        if keys:
            yield LabelChange(node.metadata.name, writer, {key: after.get(key) for key in keys})


# --- fields of a GPUNode ----------------------------------------------------------------------------------


def _fields(old: Any, new: Any, path: str) -> Iterator[Field]:
    """Leaves that differ; a list is one leaf."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from _fields(old.get(key), new.get(key), f"{path}.{key}")
    elif old != new:
        yield Field(path, old, new)
