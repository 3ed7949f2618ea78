"""The Node object as the kubelet writes it. Pure, but for reading the machine's identity from its root."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuready_sim.kubelet.identity import NodeIdentity
from gpuready_sim.kubelet.quantities import parse_quantity

Object = dict[str, Any]


@dataclass(frozen=True)
class MachineFacts:
    """What the machine says of itself at boot."""

    boot_id: str
    kernel: str
    os_image: str
    machine_id: str


def read_machine(root: Path) -> MachineFacts:
    release = _read(root / "etc/os-release")
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', release, re.MULTILINE)
    return MachineFacts(
        boot_id=_read(root / "proc/sys/kernel/random/boot_id"),
        kernel=_read(root / "proc/sys/kernel/osrelease"),
        os_image=name[1] if name else "Linux",
        machine_id=_read(root / "etc/machine-id") or uuid.uuid5(uuid.NAMESPACE_DNS, str(root)).hex,
    )


def labels_of(identity: NodeIdentity) -> dict[str, str]:
    """The labels that a kubelet gives its Node, and those it was started with."""
    return {
        "beta.kubernetes.io/arch": identity.architecture,
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": identity.architecture,
        "kubernetes.io/hostname": identity.name,
        "kubernetes.io/os": "linux",
        **identity.labels,
    }


def new_node(identity: NodeIdentity, status: Object) -> Object:
    spec: Object = {"taints": [dict(taint) for taint in identity.taints]} if identity.taints else {}
    annotations = {"volumes.kubernetes.io/controller-managed-attach-detach": "true", **identity.annotations}
    meta = {"name": identity.name, "labels": labels_of(identity), "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def node_status(
    identity: NodeIdentity,
    facts: MachineFacts,
    port: int,
    capacity: Mapping[str, int],
    allocatable: Mapping[str, int],
    *,
    now: str,
    ready_since: str,
) -> Object:
    """Capacity and allocatable are the device plugins' resources; the rest comes from the identity."""
    return {
        "capacity": {**identity.capacity, **{name: str(n) for name, n in capacity.items()}},
        "allocatable": {**identity.capacity, **{name: str(n) for name, n in allocatable.items()}},
        "conditions": _conditions(now, ready_since),
        "addresses": [
            {"type": "InternalIP", "address": identity.address},
            {"type": "Hostname", "address": identity.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        # Without it a real API server speaks SPDY to a kubelet, and `kubectl exec` does not come through.
        "declaredFeatures": ["ExtendWebSocketsToKubelet"],
        "nodeInfo": {
            "architecture": identity.architecture,
            "bootID": facts.boot_id,
            "containerRuntimeVersion": identity.runtime_version,
            "kernelVersion": facts.kernel,
            "kubeProxyVersion": "",
            "kubeletVersion": identity.kubelet_version,
            "machineID": facts.machine_id,
            "operatingSystem": "linux",
            "osImage": facts.os_image,
            "systemUUID": str(uuid.UUID(facts.machine_id))
            if len(facts.machine_id) == 32
            else facts.machine_id,
        },
    }


def without_heartbeats(status: Object) -> Object:
    """What counts as a change of the status."""
    conditions = [{k: v for k, v in c.items() if k != "lastHeartbeatTime"} for c in status["conditions"]]
    return {**status, "conditions": conditions}


def is_told_by(stored: Object, status: Object) -> bool:
    """Whether the stored status says what this one says; other writers' keys do not matter.

    An API server writes amounts in their shortest form: "2048Ki" comes back as "2Mi".
    """
    given = {c["type"]: (c.get("status"), c.get("reason")) for c in stored.get("conditions") or []}
    if any(given.get(c["type"]) != (c["status"], c["reason"]) for c in status["conditions"]):
        return False
    amounts = (
        _same_amount((stored.get(key) or {}).get(name), amount)
        for key in ("capacity", "allocatable")
        for name, amount in status[key].items()
    )
    return all(amounts) and stored.get("nodeInfo") == status["nodeInfo"]


def _same_amount(stored: str | None, amount: str) -> bool:
    return stored is not None and (stored == amount or parse_quantity(stored) == parse_quantity(amount))


def _conditions(now: str, since: str) -> list[Object]:
    calm = [
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ]
    conditions = [_condition(kind, "False", reason, text, now, since) for kind, reason, text in calm]
    ready = _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now, since)
    return [*conditions, ready]


def _condition(kind: str, status: str, reason: str, message: str, now: str, since: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": since,
    }


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
