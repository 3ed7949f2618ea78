"""A machine that nobody has labelled yet, as its kubelet describes it. Pure.

Before the first installation there are no labels of node feature discovery, and a mirror must be filled all
the same: the operating system's name and version, from which a driver image's tag is made, stand in
`status.nodeInfo.osImage` as os-release has them under PRETTY_NAME.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpuready import names

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


def supposed_gpu_node(node: Object) -> Object | None:
    """The node with the labels that it would have with a GPU; None for one that has been described already.

    None too where the operating system is not known by its name.
    """
    labels = node["metadata"].get("labels") or {}
    if any(key.startswith(names.NFD_PREFIX) for key in labels):
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
