"""What a ClusterPolicy's status says, in a few words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuready import names
from gpuready.tools.placement import Object


def state_of(policy: Object) -> str:
    """ready, notReady, ignored; "" while nobody has answered it."""
    return str((policy.get("status") or {}).get("state") or "")


def not_installed(policy: Object) -> str:
    """What it enables and this version has no code for, as a phrase; "" when there is nothing."""
    rows = (policy.get("status") or {}).get("operands") or ()
    names = [str(row.get("name")) for row in rows if row.get("state") == "notImplemented"]
    return f"not installed by this version: {', '.join(names)}" if names else ""


def nodes_waiting(policy: Object) -> list[Mapping[str, Any]]:
    """The conditions about nodes that wait: for another driver, to restart their runtime."""
    rows = (policy.get("status") or {}).get("conditions") or ()
    return [row for row in rows if row.get("type") in _WAITING]


_WAITING = (names.UPGRADE_WAITING_CONDITION, names.RESTARTS_STOPPED_CONDITION)
