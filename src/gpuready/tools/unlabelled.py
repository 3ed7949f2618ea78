"""A machine without labels of node feature discovery: nobody has looked at it yet, or it has no GPU. Pure.

Before the first installation no node has any, and a mirror must be filled all the same: the operating
system's name and version, from which a driver image's tag is made, stand in `status.nodeInfo.osImage` as
os-release has them under PRETTY_NAME. Later our node agent has been on every Linux node, and labels none
without a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuready import names
from gpuready.tools.snapshot import seconds_between

# By then a node agent has looked at a node that became ready: its image had to be pulled first.
LOOKED_AFTER_S = 300.0
Object = Mapping[str, Any]
_VERSION = r"(\d+(?:\.\d+)?)"
# (pattern of PRETTY_NAME, ID in os-release)
_SYSTEMS = tuple(
    (re.compile(pattern), os_id)
    for pattern, os_id in (
        (rf"^Ubuntu {_VERSION}", "ubuntu"),
        (rf"^Red Hat Enterprise Linux CoreOS {_VERSION}", "rhcos"),
        (rf"^Red Hat Enterprise Linux(?: Server)? {_VERSION}", "rhel"),
        (rf"^Rocky Linux {_VERSION}", "rocky"),
        (rf"^Oracle Linux Server {_VERSION}", "ol"),
        (rf"^CentOS (?:Linux|Stream) {_VERSION}", "centos"),
        (rf"^Debian GNU/Linux {_VERSION}", "debian"),
        (r"^SUSE Linux Enterprise Server (\d+)(?: SP(\d+))?", "sles"),
        (rf"^SUSE Linux Micro {_VERSION}", "sl-micro"),
    )
)


def without_gpus(nodes: Sequence[Object]) -> set[str]:
    """Names of unlabelled nodes that have no GPU, by all that a list of Nodes tells.

    Where some node carries what our agent has noted, it runs on all that are ready, on Linux only.
    """
    runs = any(names.AGENT_LABELS_ANNOTATION in (each["metadata"].get("annotations") or {}) for each in nodes)
    now = max((time for each in nodes for time in _times_of(each)), default="")
    return {
        str(each["metadata"]["name"])
        for each in nodes
        if not _is_described(each)
        and (_is_no_linux(each) or (runs and _ready_for_s(each, now) > LOOKED_AFTER_S))
    }


def _times_of(node: Object) -> Iterator[str]:
    """When its kubelet was heard; the youngest of all is about when the nodes were listed."""
    for row in (node.get("status") or {}).get("conditions") or ():
        yield str(row.get("lastHeartbeatTime") or "")


def _ready_for_s(node: Object, now: str) -> float:
    rows = (node.get("status") or {}).get("conditions") or ()
    since = [
        row.get("lastTransitionTime")
        for row in rows
        if row.get("type") == "Ready" and row.get("status") == "True"
    ]
    waited_s = seconds_between(str(since[0]), now) if since else 0.0
    return waited_s if waited_s < float("inf") else 0.0


def _is_no_linux(node: Object) -> bool:
    return str((node["metadata"].get("labels") or {}).get("kubernetes.io/os", "linux")) != "linux"


def _is_described(node: Object) -> bool:
    return any(key.startswith(names.NFD_PREFIX) for key in node["metadata"].get("labels") or {})


def supposed_gpu_node(node: Object) -> Object | None:
    """The node with the labels that it would have with a GPU; None for one that has been described already.

    None too where the operating system is not known by its name.
    """
    labels = node["metadata"].get("labels") or {}
    if _is_described(node):
        return None
    info = (node.get("status") or {}).get("nodeInfo") or {}
    system = system_of(str(info.get("osImage") or ""))
    if system is None:
        return None
    os_id, version = system
    found = {
        names.NFD_PCI_LABELS[0]: "true",
        names.OS_ID_LABEL: os_id,
        names.OS_VERSION_LABEL: version,
        names.KERNEL_LABEL: str(info.get("kernelVersion") or ""),
    }
    return {**node, "metadata": {**node["metadata"], "labels": {**labels, **found}}}


def system_of(pretty_name: str) -> tuple[str, str] | None:
    """("ubuntu", "22.04") of "Ubuntu 22.04.5 LTS"; "15.5" of "SUSE Linux Enterprise Server 15 SP5"."""
    for pattern, os_id in _SYSTEMS:
        if match := pattern.search(pretty_name):
            return os_id, ".".join(part for part in match.groups() if part)
    return None
