"""What the agent tells the cluster about its node: GPUNode.status and the Node condition GPUReady.

Pure. Everything is made from the judgement and compared with what was told before, so that a restart or a
pass that changes nothing tells nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpuready import names
from gpuready.api.gpunode import GPUNodeStatus
from gpuready.chain import driver, summary
from gpuready.chain.driver import Owner
from gpuready.chain.verdict import Link, Verdict
from gpuready.chain.wording import bounded
from gpuready.operands.node_agent.decision import Judgement, View

Row = dict[str, Any]


# --- GPUNode.status ---------------------------------------------------------------------------------------


def status_of(
    view: View, judgement: Judgement, before: Mapping[str, Any], *, generation: int, now: str
) -> Row:
    """The whole status; times are kept where nothing changed since `before`."""
    devices = devices_of(view, before.get("devices") or [])
    return {
        "observedGeneration": generation,
        "bootID": view.boot_id,
        "agentVersion": names.VERSION,
        "chain": _chain(judgement.verdicts, before.get("chain") or [], now),
        "columns": summary.columns(judgement.verdicts),
        "gpus": len(view.machine.pci_addresses),
        "healthy": sum(device["health"] == "Healthy" for device in devices),
        "reason": summary.reason(judgement.verdicts),
        "devices": devices,
        **({"operands": [dict(row) for row in view.operands]} if view.operands else {}),
        "driver": _driver(view, judgement),
        "runtime": _runtime(view),
        "requests": _requests(view, devices),
        "uninstalled": False,
    }


def uninstalled_status(view: View, before: Mapping[str, Any], *, generation: int) -> Row:
    """Nothing of ours is left on this node."""
    kept = {key: value for key, value in before.items() if key in ("driver", "runtime", "gpus")}
    return {
        **kept,
        "observedGeneration": generation,
        "bootID": view.boot_id,
        "agentVersion": names.VERSION,
        "chain": [],
        "devices": [],
        "healthy": 0,
        "columns": summary.columns([]),
        "reason": "Uninstalled",
        "uninstalled": True,
    }


def devices_of(view: View, before: Sequence[Mapping[str, Any]] = ()) -> list[Row]:
    """One row per physical GPU: the plugin's record where it speaks, the inventory otherwise.

    before  the rows as told: what pods hold is kept while the kubelet was not asked
    """
    told = {str(row.get("uuid")): int(row.get("allocated") or 0) for row in before}
    held = told if view.held is None else view.held
    rows = _rows(view)
    return [{**row, "allocated": held[row["uuid"]]} if held.get(row["uuid"]) else row for row in rows]


def _rows(view: View) -> list[Row]:
    known = {gpu.uuid: gpu for gpu in view.inventory.gpus} if view.inventory else {}
    recorded = list((view.record or {}).get("devices") or [])
    if not recorded:
        return [_inventory_row(gpu) for gpu in known.values()]
    return [_record_row(row, known.get(str(row.get("uuid")))) for row in recorded]


def _inventory_row(gpu: Any) -> Row:
    return {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "product": gpu.product,
        "memoryMiB": gpu.memory_mib,
        "health": "Healthy",
        **_mig(gpu),
    }


def _record_row(row: Mapping[str, Any], gpu: Any) -> Row:
    found: Row = {
        "uuid": str(row.get("uuid")),
        "index": int(row.get("index") or 0),
        "product": str(row.get("product") or ""),
        "memoryMiB": int(row.get("memoryMib") or 0),
        "health": "Healthy" if row.get("health") == "Healthy" else "Unhealthy",
        "replicas": int(row.get("replicas") or 1),
        **_mig(gpu),
    }
    if row.get("message") or row.get("reason"):
        found["reason"] = str(row.get("message") or row["reason"])
    if row.get("lastXid"):
        xid = row["lastXid"]
        found["lastXid"] = {
            "code": int(xid.get("code") or 0),
            "time": str(xid.get("time") or ""),
            "action": str(xid.get("action") or ""),
        }
    return found


def _mig(gpu: Any) -> Row:
    return (
        {}
        if gpu is None or gpu.mig_enabled is None
        else {"mig": "enabled" if gpu.mig_enabled else "disabled"}
    )


def _driver(view: View, judgement: Judgement) -> Row:
    tree = driver.tree_of(view.driver)
    whole = judgement.of(Link.DRIVER).is_whole
    row = {
        "owner": str(judgement.owner),
        "version": (view.driver.module_version or tree.version) if whole else "",
        "libraryVersion": tree.version,
        "moduleVersion": view.driver.module_version,
        "root": "" if judgement.owner is Owner.NONE else tree.root,
    }
    return {key: value for key, value in row.items() if value}


def _runtime(view: View) -> Row:
    text = view.node.status.node_info.container_runtime_version if view.node else ""
    name, _, version = text.partition("://")
    row: Row = {"name": name, "version": version} if name else {}
    repaired = (view.toolkit or {}).get("repaired")
    return {**row, "repaired": dict(repaired)} if repaired else row


def _requests(view: View, devices: Sequence[Row]) -> list[Row]:
    """What a daemon asks for, and whether pods that hold GPUs would notice."""
    request = (view.toolkit or {}).get("request")
    if not request or not view.wishes.toolkit_wanted:
        return []
    return [{**request, "workloads": any(row.get("allocated") for row in devices)}]


def _chain(verdicts: Sequence[Verdict], before: Sequence[Mapping[str, Any]], now: str) -> list[Row]:
    told = {row.get("link"): row for row in before}
    return [{**verdict.to_json(), "lastTransitionTime": _since(verdict, told, now)} for verdict in verdicts]


def _since(verdict: Verdict, told: Mapping[Any, Mapping[str, Any]], now: str) -> str:
    row = told.get(str(verdict.link)) or {}
    same = (row.get("state"), row.get("reason")) == (str(verdict.state), verdict.reason)
    return str(row.get("lastTransitionTime") or now) if same else now


def status_patch(before: Mapping[str, Any], after: Row) -> Row | None:
    """The merge patch of the status; None when both say the same (defaults of the schema count as said)."""
    if msgspec.convert(before, GPUNodeStatus, strict=False) == msgspec.convert(after, GPUNodeStatus):
        return None
    return merge_patch(before, after)


def merge_patch(before: Any, after: Mapping[str, Any]) -> Row:
    """The RFC 7386 patch that turns `before` into `after`; {} when they are the same."""
    base = before if isinstance(before, Mapping) else {}
    patch: Row = {key: None for key in base if key not in after and base[key] is not None}
    for key, value in after.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping):
            inner = merge_patch(base[key], value)
            if inner:
                patch[key] = inner
        elif key not in base or base[key] != value:
            patch[key] = value
    return patch


# --- Node condition ---------------------------------------------------------------------------------------


def condition_of(judgement: Judgement, now: str) -> Row:
    found = summary.readiness(judgement.verdicts)
    return {
        "type": names.GPU_READY_CONDITION,
        "status": found.status,
        "reason": found.reason,
        "message": bounded(found.message),
        "lastTransitionTime": now,
        "lastHeartbeatTime": now,
    }


def condition_patch(view: View, judgement: Judgement, now: str) -> Row | None:
    """The condition's fields that differ; None when there is nothing to say. Only for nodes with GPUs."""
    if view.node is None or not view.machine.pci_addresses:
        return None
    wanted = condition_of(judgement, now)
    there = view.node.condition(names.GPU_READY_CONDITION)
    if there is None:
        return wanted
    if (there.status, there.reason, there.message) == (wanted["status"], wanted["reason"], wanted["message"]):
        return None
    if there.status == wanted["status"] and there.last_transition_time:
        wanted["lastTransitionTime"] = there.last_transition_time
    return wanted
