"""Which driver DaemonSets a cluster needs: one per operating system, since the image's tag names it.

Pure. A pool's facts come from the labels of its own nodes; nothing is decided for the whole cluster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpuready import names
from gpuready.api import images
from gpuready.operands.contract import ClusterView, NodeFacts

BASE_NAME = "nvidia-driver-daemonset"


@dataclass(frozen=True)
class Pool:
    """The nodes with one operating system.

    os_tag      "ubuntu22.04", "rhel9": suffix of the driver image's tag
    selector    node labels that, besides the deploy label, select exactly these nodes
    """

    os_tag: str
    selector: Mapping[str, str]
    node_names: tuple[str, ...]


def pools_of(view: ClusterView) -> list[Pool]:
    """Pools in order of their OS tag; nodes whose OS nobody has reported yet are left out.

    Nodes with a driver of their own need no pool. A node that is paused keeps its pool: the DaemonSet must
    not go while its pod is only away for a moment.
    """
    members: dict[str, list[NodeFacts]] = {}
    for node in view.gpu_nodes:
        if _takes_a_driver(node) and (tag := os_tag_of(node.labels)):
            members.setdefault(tag, []).append(node)
    return [_pool(tag, nodes) for tag, nodes in sorted(members.items())]


def _takes_a_driver(node: NodeFacts) -> bool:
    return node.labels.get(names.DEPLOY_DRIVER, "") not in ("", "false", names.DRIVER_PRE_INSTALLED)


def os_tag_of(labels: Mapping[str, str]) -> str:
    """Suffix of the image's tag for a node with these labels; "" while its OS is unknown."""
    os_id, version = labels.get(names.OS_ID_LABEL, ""), labels.get(names.OS_VERSION_LABEL, "")
    return images.os_tag_of(os_id, version) if os_id and version else ""


def name_of(pool: Pool, pools: list[Pool], view: ClusterView) -> str:
    """One pool keeps the original's name: the one that has it already, else the first."""
    base = view.base_driver_pool
    if not any(other.os_tag == base for other in pools):
        base = pools[0].os_tag
    if pool.os_tag == base:
        return BASE_NAME
    return f"{BASE_NAME}-{re.sub(r'[^a-z0-9.-]', '-', pool.os_tag.lower())}"[:63].rstrip("-.")


def _pool(tag: str, nodes: list[NodeFacts]) -> Pool:
    os_id = nodes[0].labels[names.OS_ID_LABEL]
    version = nodes[0].labels[names.OS_VERSION_LABEL]
    selector = {names.OS_ID_LABEL: os_id}
    if tag == f"{os_id}{version}":
        selector[names.OS_VERSION_LABEL] = version
    else:  # the tag names the major version only, so all its minors are one pool
        selector[f"{names.OS_VERSION_LABEL}.major"] = version.split(".")[0]
    return Pool(tag, selector, tuple(node.name for node in nodes))
