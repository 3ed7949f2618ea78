"""`gpuready render`: the objects a policy leads to, as YAML, without a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuready import names
from gpuready.controller.labelling.decision import has_gpu
from gpuready.controller.policy.active import read
from gpuready.controller.policy.plan import plan_of
from gpuready.errors import PolicyError
from gpuready.operands.contract import ClusterView, NodeFacts
from gpuready.yaml_text import dump_yaml_documents, parse_yaml


def rendered(policy_text: str, nodes_text: str, namespace: str) -> str:
    """YAML documents in the order in which they are applied.

    nodes_text   a NodeList or a list of nodes; "" = no nodes, so nothing that depends on an operating system
    raises       PolicyError when the policy has problems
    """
    raw = dict(parse_yaml(policy_text))
    raw.setdefault("metadata", {}).setdefault("name", "cluster-policy")
    raw["metadata"].setdefault("uid", "00000000-0000-0000-0000-000000000000")
    active = read(raw)
    if active.policy is None:
        problems = "; ".join(problem.message for problem in active.problems)
        raise PolicyError("the policy has problems", why=problems, next_step="correct the fields named above")
    view = ClusterView(
        namespace=namespace,
        own_image=f"{names.OWN_IMAGE}:{names.VERSION}",
        gpu_nodes=tuple(_nodes(nodes_text)),
    )
    return dump_yaml_documents(plan_of(active, active.policy, view).objects)


def _nodes(text: str) -> list[NodeFacts]:
    if not text.strip():
        return []
    loaded = parse_yaml(text)
    items: list[Mapping[str, Any]] = loaded["items"] if isinstance(loaded, dict) else loaded
    facts = [NodeFacts(node["metadata"]["name"], node["metadata"].get("labels") or {}) for node in items]
    return [node for node in facts if has_gpu(node.labels)]
