"""A ClusterPolicy and Nodes as people keep them in files. Pure; every refusal says what to give instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuready import names
from gpuready.errors import UsageError
from gpuready.yaml_text import parse_yaml

Object = dict[str, Any]


def policy_in(text: str) -> Object:
    """One ClusterPolicy; one without a name gets the one that the chart gives.

    raises  UsageError for a text that is something else
    """
    raw = parse_yaml(text, source="the policy")
    found = f"{raw.get('apiVersion')} {raw.get('kind')}" if isinstance(raw, dict) else type(raw).__name__
    wanted = f"{names.CLUSTER_POLICY_API} {names.CLUSTER_POLICY_KIND}"
    if found != wanted:
        raise UsageError(
            f"the file holds {found}, not {wanted}", next_step="give the file of a ClusterPolicy"
        )
    return {**raw, "metadata": {"name": "cluster-policy", **(raw.get("metadata") or {})}}


def nodes_in(text: str) -> list[Object]:
    """The Nodes of a NodeList or of a plain list; none in an empty text.

    raises  UsageError for a text that is something else
    """
    if not text.strip():
        return []
    loaded = parse_yaml(text, source="the nodes")
    items = loaded.get("items") if isinstance(loaded, dict) else loaded
    if not isinstance(items, list) or any(_kind(item) != "Node" for item in items):
        raise UsageError(
            "the file given with --nodes holds no list of Nodes",
            next_step="make it with: kubectl get nodes -o yaml > nodes.yaml",
        )
    return items


def _kind(item: object) -> str:
    if not isinstance(item, Mapping) or not isinstance(item.get("metadata"), Mapping):
        return ""
    return str(item.get("kind", "Node")) if item["metadata"].get("name") else ""
