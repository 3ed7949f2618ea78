"""Which labels a node should carry, and the one patch that brings it there.

Pure. The rule of ownership: we keep the key=value pairs that we wrote in one annotation; a key is ours while
it still holds that value, and only then do we change or remove it. A missing key comes back at once; any
other value (an opt-out `false`, a `paused-…`, a user's own) is honoured. Where the annotation is missing or
damaged, labels that are as we would write them are adopted. Only keys that we could ever have written count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpuready import names

# nvidia.com/gpu.deploy.<suffix> of a node for containers; mig-manager only where MIG is possible.
CONTAINER_OPERANDS = (
    "gpu-feature-discovery",
    "container-toolkit",
    "device-plugin",
    "dcgm",
    "dcgm-exporter",
    "node-status-exporter",
    "operator-validator",
)
MIG_PRODUCTS = ("h100", "a100", "a30")


@dataclass(frozen=True)
class LabelFacts:
    """What decides the labels of one node.

    driver_owner   GPUNode.status.driver.owner: "host", "container", "none", or "" while nobody knows yet
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    driver_owner: str = ""


@dataclass(frozen=True)
class LabelPolicy:
    """The few lines of the active policy that matter here; None in place of it means: nothing of ours."""

    driver_enabled: bool = True
    mig_manager_enabled: bool = True
    mig_default: str = "all-disabled"


def decide(facts: LabelFacts, policy: LabelPolicy | None) -> dict[str, Any] | None:
    """The merge patch of the node's metadata, or None when nothing is to be written.

    Source: gpu-operator v26.3.3, controllers/state_manager.go:115-502 (which labels); the ownership is ours.
    """
    noted = find_owned_pairs(facts.annotations)
    ours = noted or {}
    wanted = wanted_labels(facts, policy, ours)
    if noted is None:
        ours = {key: value for key, value in wanted.items() if facts.labels.get(key) == value}
    changes, kept = _changes(facts.labels, wanted, ours)
    before = facts.annotations.get(names.CONTROLLER_LABELS_ANNOTATION)
    note = _note_of(kept, before if policy is not None else None)
    annotations = {} if note == before else {names.CONTROLLER_LABELS_ANNOTATION: note}
    if policy is not None and names.UPGRADE_ENABLED_ANNOTATION in facts.annotations:
        # Nobody here would empty the node for a new driver: its manager has to do that, or never gets to it.
        annotations[names.UPGRADE_ENABLED_ANNOTATION] = None
    metadata = {"labels": changes, "annotations": annotations}
    patch = {part: found for part, found in metadata.items() if found}
    return {"metadata": patch} if patch else None


def _note_of(kept: Mapping[str, str], before: str | None) -> str | None:
    """The annotation's text; an empty one stays as long as a policy is there: a missing one means "adopt"."""
    if kept:
        return json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return None if before is None else "{}"


def find_owned_pairs(annotations: Mapping[str, str]) -> dict[str, str] | None:
    """The pairs we wrote; None when the annotation is missing or somebody damaged it."""
    noted = annotations.get(names.CONTROLLER_LABELS_ANNOTATION)
    pairs = _pairs_in(noted) if noted is not None else None
    return dict(pairs) if pairs is not None else None


@lru_cache(256)  # thousands of nodes have one of a few notes
def _pairs_in(noted: str) -> Mapping[str, str] | None:
    try:
        pairs = json.loads(noted)
    except (ValueError, RecursionError):
        return None
    if not isinstance(pairs, dict):
        return None
    return {str(key): str(value) for key, value in pairs.items() if names.is_controller_label(str(key))}


def has_gpu(labels: Mapping[str, str]) -> bool:
    return any(labels.get(key) == "true" for key in names.NFD_PCI_LABELS)


def is_gpu_node(labels: Mapping[str, str]) -> bool:
    return labels.get(names.GPU_PRESENT) == "true"


def wanted_labels(
    facts: LabelFacts, policy: LabelPolicy | None, ours: Mapping[str, str] | None = None
) -> dict[str, str]:
    """All labels the node should carry from us; empty without a policy."""
    if policy is None:
        return {}
    if not has_gpu(facts.labels):
        # As the original: a card that went away leaves gpu.present=false, on nodes that had one.
        return {names.GPU_PRESENT: "false"} if names.GPU_PRESENT in (ours or {}) else {}
    wanted = {names.GPU_PRESENT: "true"}
    if facts.labels.get(names.DEPLOY_OPERANDS) == "false":
        return wanted
    wanted.update({f"{names.DEPLOY_PREFIX}{operand}": "true" for operand in CONTAINER_OPERANDS})
    wanted.update(_driver_label(facts, policy, ours or {}))
    if _is_mig_capable(facts.labels):
        wanted[f"{names.DEPLOY_PREFIX}mig-manager"] = "true"
        if policy.mig_manager_enabled and policy.mig_default == "all-disabled":
            wanted[names.MIG_CONFIG_LABEL] = "all-disabled"
    return wanted


def _driver_label(facts: LabelFacts, policy: LabelPolicy, ours: Mapping[str, str]) -> dict[str, str]:
    """`pre-installed` keeps the driver DaemonSet away, so it waits until the agent has looked at the host."""
    if not policy.driver_enabled or facts.driver_owner in ("container", "none"):
        return {names.DEPLOY_DRIVER: "true"}
    if facts.driver_owner == "host":
        return {names.DEPLOY_DRIVER: names.DRIVER_PRE_INSTALLED}
    return {names.DEPLOY_DRIVER: ours[names.DEPLOY_DRIVER]} if names.DEPLOY_DRIVER in ours else {}


def _is_mig_capable(labels: Mapping[str, str]) -> bool:
    if labels.get("nvidia.com/vgpu.host-driver-version"):
        return False
    if "nvidia.com/mig.capable" in labels:
        return labels["nvidia.com/mig.capable"] == "true"
    product = labels.get("nvidia.com/gpu.product", "").lower()
    return any(model in product for model in MIG_PRODUCTS)


def _changes(
    labels: Mapping[str, str], wanted: Mapping[str, str], ours: Mapping[str, str]
) -> tuple[dict[str, str | None], dict[str, str]]:
    """(labels to write or, with None, to remove; the pairs that are ours afterwards)."""
    changes: dict[str, str | None] = {}
    kept: dict[str, str] = {}
    for key, value in wanted.items():
        present = labels.get(key)
        # An empty value is what the original's driver manager leaves where there was no label.
        still_ours = present is None or present == "" or (key in ours and present == ours[key])
        if present == value:
            if key in ours:
                kept[key] = value
        elif still_ours:
            changes[key] = value
            kept[key] = value
    for key, value in ours.items():
        if key not in wanted and labels.get(key) == value:
            changes[key] = None
    return changes, kept
