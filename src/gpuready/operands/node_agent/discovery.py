"""Which labels this machine earns, and whether we or Node Feature Discovery write them.

Pure. Only machines with an NVIDIA GPU get labels: a CPU node stays untouched.

Source: node-feature-discovery, source/{pci,kernel,system}; the operator's worker configuration
(deviceLabelFields: [vendor]); node-chain.md §6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuready import names
from gpuready.node.links.discovery import Machine
from gpuready.operands.node_agent.settings import LabelSource

PCI_LABEL = names.NFD_PCI_LABELS[0]
_KERNEL = "kernel-version"
_OS = "system-os_release"
_VERSION = re.compile(r"^(\d+)\.(\d+)(?:\.(\d+))?")
_NOT_ALLOWED = re.compile(r"[^-A-Za-z0-9_.]")
_LONGEST_VALUE = 63


def source_of(setting: LabelSource, annotations: Mapping[str, str]) -> LabelSource:
    """AGENT or NFD for this node: never two writers."""
    if setting is not LabelSource.AUTO:
        return setting
    by_nfd = labels_of_nfd(annotations)
    return LabelSource.NFD if by_nfd.intersection(names.NFD_PCI_LABELS) else LabelSource.AGENT


def labels_of_nfd(annotations: Mapping[str, str]) -> set[str]:
    """Keys that Node Feature Discovery says are its own; it leaves its default namespace out."""
    listed = annotations.get(names.NFD_OWNED_ANNOTATION, "").split(",")
    return {key if "/" in key else names.NFD_PREFIX + key for key in listed if key}


def labels_of(machine: Machine) -> dict[str, str]:
    """PCI, kernel and OS labels of a machine with GPUs; empty without one."""
    if not machine.pci_addresses:
        return {}
    found = {"pci-10de.present": "true", **_kernel_labels(machine.kernel), **_os_labels(machine.os_release)}
    return {names.NFD_PREFIX + key: value for key, value in found.items() if value}


def pci_labels_on(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The labels of a Node that say "has an NVIDIA GPU", whoever wrote them."""
    return tuple(f"{key}=true" for key in names.NFD_PCI_LABELS if labels.get(key) == "true")


def _kernel_labels(release: str) -> dict[str, str]:
    match = _VERSION.match(release)
    major, minor, revision = match.groups() if match else ("", "", "")
    return {
        f"{_KERNEL}.full": _value(release),
        f"{_KERNEL}.major": major,
        f"{_KERNEL}.minor": minor,
        f"{_KERNEL}.revision": revision or "",
    }


def _os_labels(os_release: Mapping[str, str]) -> dict[str, str]:
    version = os_release.get("VERSION_ID", "")
    major, _, rest = version.partition(".")
    return {
        f"{_OS}.ID": _value(os_release.get("ID", "")),
        f"{_OS}.VERSION_ID": _value(version),
        f"{_OS}.VERSION_ID.major": _value(major),
        f"{_OS}.VERSION_ID.minor": _value(rest.partition(".")[0]),
    }


def _value(text: str) -> str:
    """A label value as NFD makes it: other characters become "_", none of "-_." at the ends."""
    return _NOT_ALLOWED.sub("_", text)[:_LONGEST_VALUE].strip("-_.")
