"""The GPU feature labels of this node, from the inventory and the sharing that is in force.

Pure. The plugin's record says what is in force; before it has registered, the wish says what will be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuready import names
from gpuready.gpu.feature_labels import PREFIX, Sharing, feature_labels
from gpuready.operands.node_agent.decision import View


def labels_of(view: View, ours: Mapping[str, str]) -> dict[str, str]:
    """What the node should carry under nvidia.com/ from us.

    ours   what we wrote before: kept while the driver or one of its GPUs does not answer, so that a reboot, a
           driver update or a lost GPU does not make pods lose the node they select
    """
    if not view.wishes.feature_labels:
        return {}
    before = {key: value for key, value in ours.items() if key.startswith(PREFIX)}
    if view.inventory is None or (view.inventory.failures and before):
        return before
    config = (view.wishes.plugin.config if view.wishes.plugin else None) or {}
    strategy = str((config.get("flags") or {}).get("migStrategy") or "none")
    return feature_labels(view.inventory, sharing_of(view.record, config), mig_strategy=strategy)


def sharing_of(record: Mapping[str, Any] | None, config: Mapping[str, Any]) -> Sharing:
    """The sharing of the plugin's record when it has registered, else of the wished configuration."""
    if record and record.get("registered") and record.get("devices"):
        replicas = max(int(device.get("replicas") or 1) for device in record["devices"])
        resources = [str(item.get("name")) for item in record.get("resources") or ()]
        renamed = any(name.endswith(names.SHARED_SUFFIX) for name in resources)
        return _sharing(replicas, renamed)
    slicing = (config.get("sharing") or {}).get("timeSlicing") or {}
    asked = [int(item.get("replicas") or 1) for item in slicing.get("resources") or ()]
    return _sharing(max(asked, default=1), bool(slicing.get("renameByDefault")))


def _sharing(replicas: int, renamed: bool) -> Sharing:
    if replicas < 2:
        return Sharing()
    return Sharing("time-slicing", replicas, renamed)
