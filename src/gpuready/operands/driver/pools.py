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
# What all driver pods carry, ours and the original's.
COMPONENT_LABEL, COMPONENT = "app.kubernetes.io/component", "nvidia-driver"
MARKS = {COMPONENT_LABEL: COMPONENT}


@dataclass(frozen=True)
class Pool:
    """The nodes with one operating system, and one kernel where modules are built for it.

    os_tag      "ubuntu22.04", "rhel9": suffix of the driver image's tag
    os_id       "ubuntu", "rhel"
    kernel      full version, "" where every kernel will do
    selector    node labels that, besides the deploy label, select exactly these nodes
    """

    os_tag: str
    selector: Mapping[str, str]
    node_names: tuple[str, ...]
    os_id: str = ""
    kernel: str = ""


def pools_of(view: ClusterView, *, by_kernel: bool = False) -> list[Pool]:
    """Pools in order of OS tag and kernel; nodes of which nobody has reported these yet are left out.

    Nodes with a driver of their own need no pool. A node that is paused keeps its pool: the DaemonSet must
    not go while its pod is only away for a moment.
    """
    members: dict[tuple[str, str], list[NodeFacts]] = {}
    for node in view.gpu_nodes:
        kernel = node.labels.get(names.KERNEL_LABEL, "") if by_kernel else ""
        if _takes_a_driver(node) and (tag := os_tag_of(node.labels)) and (kernel or not by_kernel):
            members.setdefault((tag, kernel), []).append(node)
    return [_pool(tag, kernel, nodes) for (tag, kernel), nodes in sorted(members.items())]


def _takes_a_driver(node: NodeFacts) -> bool:
    return node.labels.get(names.DEPLOY_DRIVER, "") not in ("", "false", names.DRIVER_PRE_INSTALLED)


def os_tag_of(labels: Mapping[str, str]) -> str:
    """Suffix of the image's tag for a node with these labels; "" while its OS is unknown."""
    os_id, version = labels.get(names.OS_ID_LABEL, ""), labels.get(names.OS_VERSION_LABEL, "")
    return images.os_tag_of(os_id, version) if os_id and version else ""


def name_of(pool: Pool, pools: list[Pool], view: ClusterView) -> str:
    """One pool keeps the original's name: the one that has it already, else the first.

    A pool of one kernel is always named by it.
    """
    if pool.kernel:
        return _cut(f"{BASE_NAME}-{_sanitized(pool.kernel)}-{pool.os_tag}")
    base = view.base_driver_pool
    if not any(other.os_tag == base for other in pools):
        base = pools[0].os_tag
    if pool.os_tag == base:
        return BASE_NAME
    return _cut(f"{BASE_NAME}-{pool.os_tag}")


def app_of(pool: Pool, name: str) -> str:
    """The label `app` of a pool's pods, which their DaemonSet selects them by and nobody can change later.

    name   of the DaemonSet. All kernels of a precompiled driver share one, as in the original.
    """
    return BASE_NAME if pool.kernel else name


def _cut(name: str) -> str:
    return re.sub(r"[^a-z0-9.-]", "-", name.lower())[:63].rstrip("-.")


def _sanitized(kernel: str) -> str:
    """Without the architecture, for which one image serves all. Source: object_controls.go:3214."""
    return re.sub(r"(x86_64|aarch64)(_64k)?", "", kernel).replace("_", ".").removesuffix(".")


def _pool(tag: str, kernel: str, nodes: list[NodeFacts]) -> Pool:
    os_id = nodes[0].labels[names.OS_ID_LABEL]
    version = nodes[0].labels[names.OS_VERSION_LABEL]
    selector = {names.OS_ID_LABEL: os_id}
    if tag == f"{os_id}{version}":
        selector[names.OS_VERSION_LABEL] = version
    else:  # the tag names the major version only, so all its minors are one pool
        selector[f"{names.OS_VERSION_LABEL}.major"] = version.split(".")[0]
    if kernel:
        selector[names.KERNEL_LABEL] = kernel
    return Pool(tag, selector, tuple(node.name for node in nodes), os_id, kernel)
