"""A ClusterPolicy and Nodes as people keep them in files. Pure; every refusal says what to give instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuready import names
from gpuready.errors import UsageError
from gpuready.shape import Shape, ShapeError, check
from gpuready.tools.shape import NODES, POLICY_FILE
from gpuready.yaml_text import parse_yaml

Object = dict[str, Any]


def policy_in(text: str) -> Object:
    """One ClusterPolicy; one without a name gets the one that the chart gives.

    raises  UsageError for a text that is something else
    """
    raw: Any = parse_yaml(text, source="the policy")
    found = f"{raw.get('apiVersion')} {raw.get('kind')}" if isinstance(raw, dict) else type(raw).__name__
    wanted = f"{names.CLUSTER_POLICY_API} {names.CLUSTER_POLICY_KIND}"
    if found != wanted:
        raise UsageError(
            f"the file holds {found}, not {wanted}", next_step="give the file of a ClusterPolicy"
        )
    metadata = raw.get("metadata")
    if metadata is None or isinstance(metadata, dict):
        metadata = {"name": "cluster-policy", **(metadata or {})}
    policy = {**raw, "metadata": metadata}
    _expect(policy, POLICY_FILE, "the policy")
    return policy


def nodes_in(text: str) -> list[Object]:
    """The Nodes of a NodeList or of a plain list; none in an empty text.

    raises  UsageError for a text that is something else
    """
    if not text.strip():
        return []
    loaded = parse_yaml(text, source="the nodes")
    items = loaded.get("items") if isinstance(loaded, dict) else loaded
    if not isinstance(items, list) or any(_kind(item) != "Node" for item in items):
        raise UsageError("the file given with --nodes holds no list of Nodes", next_step=_AS_KUBECTL)
    _expect(items, NODES, "the file given with --nodes", next_step=_AS_KUBECTL)
    return items


_AS_KUBECTL = "make it with: kubectl get nodes -o yaml > nodes.yaml"


def _kind(item: object) -> str:
    if not isinstance(item, Mapping) or not isinstance(item.get("metadata"), Mapping):
        return ""
    return str(item.get("kind", "Node")) if item["metadata"].get("name") else ""


def _expect(value: Any, shape: Shape, what: str, *, next_step: str = "correct it there") -> None:
    try:
        check(value, shape)
    except ShapeError as exc:
        raise UsageError(f"{what} is not as the API has it", why=str(exc), next_step=next_step) from exc
