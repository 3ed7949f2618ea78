"""The record that the node agent reads: what the plugin offers and how each GPU is.

Pure: state in, the file's JSON out, and back (a plugin that restarts within a boot keeps what it knew).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gpuready.gpu.health import Health, LastXid
from gpuready.gpu.xid import Recovery
from gpuready.node.kubelet.model import HEALTHY, UNHEALTHY
from gpuready.operands.device_plugin.config import Chosen
from gpuready.operands.device_plugin.resources import Card, Resource
from gpuready.operands.device_plugin.situation import Facts, Plan, Problem


def record_of(
    facts: Facts,
    plan: Plan,
    *,
    registered: bool,
    registration_problem: str = "",
    cdi: Mapping[str, str] | None = None,
    absent: Sequence[str] = (),
    allocations: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Everything but pid, bootId and time, which say who wrote it and when: see `stamped`."""
    problem = plan.problem or _not_registered(plan, registered, registration_problem)
    return {
        "operand": "device-plugin",
        "registered": registered,
        "resources": [_resource(resource) for resource in plan.resources],
        "devices": [_device(card, facts, plan) for card in facts.cards],
        "missing": list(facts.failures),
        "config": _config(facts.chosen),
        "driver": {"module": facts.module, "library": facts.library},
        "problem": problem.to_json() if problem else None,
        "cdi": dict(cdi) if cdi else None,
        "absent": list(absent),
        "strategies": list(facts.chosen.effective.strategies) if facts.chosen.effective else [],
        "allocations": dict(allocations or {}),
    }


def stamped(record: Mapping[str, Any], *, pid: int, boot: str, now: float) -> dict[str, Any]:
    return {**record, "pid": pid, "bootId": boot, "time": iso(now)}


def differ_in_bursts_alone(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Two records that tell a reader the same but for what may come often: XIDs and allocations."""
    return bool(other) and _without_bursts(one) == _without_bursts(other)


def remembered(row: Mapping[str, Any], boot: str) -> tuple[list[Card], dict[str, Health]]:
    """GPUs and their health from a record of this boot; nothing from an older one: a reboot heals."""
    if not boot or row.get("bootId") != boot:
        return [], {}
    cards, health = [], {}
    for device in row.get("devices") or ():
        card = Card(
            uuid=device["uuid"],
            index=device["index"],
            minor=device["index"] if device.get("minor") is None else device["minor"],
            product=device["product"],
            memory_mib=device["memoryMib"],
            pci_address=device.get("pciAddress") or "",
            numa_node=device.get("numaNode"),
            mig_enabled=bool(device.get("migEnabled")),
        )
        cards.append(card)
        health[card.uuid] = _health_from(device)
    return cards, health


def remembered_allocations(row: Mapping[str, Any], boot: str) -> Mapping[str, Any]:
    return (row.get("allocations") or {}) if boot and row.get("bootId") == boot else {}


def _without_bursts(record: Mapping[str, Any]) -> dict[str, Any]:
    devices = [{**device, "lastXid": None} for device in record.get("devices") or ()]
    return {**record, "devices": devices, "allocations": None}


def iso(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _not_registered(plan: Plan, registered: bool, why: str) -> Problem | None:
    if registered or not plan.resources:
        return None
    return Problem("NotRegistered", why or "the kubelet does not follow the plugin's list yet")


def _resource(resource: Resource) -> dict[str, Any]:
    healthy = sum(device.healthy for device in resource.devices)
    return {"name": resource.name, "devices": len(resource.devices), "healthy": healthy}


def _device(card: Card, facts: Facts, plan: Plan) -> dict[str, Any]:
    health = facts.health.get(card.uuid, Health())
    outer = plan.reasons.get(card.uuid)
    healthy = plan.healthy.get(card.uuid, False)
    return {
        "uuid": card.uuid,
        "index": card.index,
        "minor": card.minor,
        "product": card.product,
        "memoryMib": card.memory_mib,
        "pciAddress": card.pci_address,
        "numaNode": card.numa_node,
        **({"migEnabled": True} if card.mig_enabled else {}),
        "health": HEALTHY if healthy else UNHEALTHY,
        "reason": health.reason or (outer.reason if outer else ""),
        "message": health.message or (outer.message if outer else ""),
        "recovery": str(health.recovery),
        "lastXid": _xid(health.last_xid),
        "replicas": _replicas(plan.resources),
    }


def _replicas(resources: Sequence[Resource]) -> int:
    return resources[0].replicas if resources else 1


def _xid(xid: LastXid | None) -> dict[str, Any] | None:
    return {"code": xid.code, "time": iso(xid.time), "action": xid.action} if xid else None


def _config(chosen: Chosen) -> dict[str, Any]:
    error = chosen.error.to_json() if chosen.error else None
    return {"name": chosen.name, "digest": chosen.digest, "error": error}


def _health_from(device: Mapping[str, Any]) -> Health:
    """Only what an XID did is remembered: it is told once. All else shows again at the first look."""
    xid = device.get("lastXid")
    last = LastXid(xid["code"], _seconds(xid["time"]), xid["action"]) if xid else None
    recovery = Recovery(device.get("recovery") or "none")
    is_by_xid = last is not None and str(device.get("message", "")).startswith(f"XID {last.code}:")
    if recovery is Recovery.NONE or not is_by_xid:
        return Health(last_xid=last)
    return Health(
        healthy=False,
        reason=device.get("reason") or "",
        message=device.get("message") or "",
        recovery=recovery,
        last_xid=last,
        needs_reset=recovery in (Recovery.RESET, Recovery.REMAP),
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
