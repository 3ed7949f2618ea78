"""Pod.status from what became of the pod's containers. Pure.

Source: kubernetes v1.36, pkg/kubelet/kubelet_pods.go (getPhase), pkg/kubelet/status/generate.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
TERMINAL = ("Succeeded", "Failed")


@dataclass
class Record:
    """One container as the kubelet knows it; `state` and `last_state` are the API's ContainerState."""

    name: str
    image: str
    init: bool = False
    sidecar: bool = False
    state: Object = field(default_factory=dict)
    last_state: Object = field(default_factory=dict)
    restarts: int = 0
    ready: bool = False
    started: bool = False
    container_id: str = ""
    devices: list[Object] = field(default_factory=list)  # allocatedResourcesStatus

    @property
    def waiting(self) -> Object | None:
        return self.state.get("waiting")

    @property
    def running(self) -> Object | None:
        return self.state.get("running")

    @property
    def terminated(self) -> Object | None:
        return self.state.get("terminated")

    @property
    def succeeded(self) -> bool:
        return bool(self.terminated) and (self.terminated or {}).get("exitCode") == 0


def waiting(reason: str, message: str = "") -> Object:
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def restart_policy(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"].get("restartPolicy") or "Always")


def should_restart(policy: str, exit_code: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def is_initialized(pod: Mapping[str, Any], records: Sequence[Record]) -> bool:
    return all((r.started if r.sidecar else r.succeeded) for r in records if r.init)


def phase(pod: Mapping[str, Any], records: Sequence[Record]) -> str:
    """Pending, Running, Succeeded or Failed."""
    policy = restart_policy(pod)
    main = [r for r in records if not r.init]
    for record in records:
        failed = record.init and not record.sidecar and record.terminated and not record.succeeded
        if failed and policy == "Never":
            return "Failed"
    if not is_initialized(pod, records) and not any(r.running or r.terminated or r.last_state for r in main):
        return "Pending"
    stopped = [r for r in main if r.terminated or (r.waiting and r.last_state.get("terminated"))]
    running = [r for r in main if r.running]
    if len(stopped) + len(running) < len(main):
        return "Pending"
    if running:
        return "Running"
    if policy == "Always":
        return "Running"
    if all(r.succeeded for r in main):
        return "Succeeded"
    if policy == "Never" and all(r.terminated for r in main):
        return "Failed"
    return "Running"


def build(
    pod: Mapping[str, Any],
    records: Sequence[Record],
    *,
    address: str,
    start_time: str,
    now: str,
    previous: Sequence[Mapping[str, Any]] = (),
) -> Object:
    """The status of an admitted pod; `previous` are the conditions as the API server has them."""
    current = phase(pod, records)
    terminating = bool(pod["metadata"].get("deletionTimestamp"))
    if terminating and all(r.terminated for r in records if not r.init) and current == "Running":
        main = [r for r in records if not r.init]
        current = "Succeeded" if all(r.succeeded for r in main) else "Failed"
    return {
        "phase": current,
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": start_time,
        "conditions": conditions(pod, records, current, now, previous),
        "containerStatuses": [_container_status(r, current) for r in records if not r.init],
        **_init_statuses(records, current),
    }


def rejected(reason: str, message: str, start_time: str) -> Object:
    """The status of a pod that was not admitted."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": start_time,
    }


def replacing(status: Object) -> Object:
    """The status as a strategic merge patch: what conditions no longer say goes, whoever said it."""
    if "conditions" not in status:
        return status
    unsaid = {"reason": None, "message": None}
    return {**status, "conditions": [{**unsaid, **condition} for condition in status["conditions"]]}


def conditions(
    pod: Mapping[str, Any],
    records: Sequence[Record],
    current: str,
    now: str,
    previous: Sequence[Mapping[str, Any]],
) -> list[Object]:
    completed = {"reason": "PodCompleted"} if current == "Succeeded" else {}
    failed = {"reason": "PodFailed"} if current == "Failed" else {}
    unready = [r.name for r in records if not r.init and not r.ready]
    ready = not unready and current not in TERMINAL
    not_ready = (
        completed
        or failed
        or {
            "reason": "ContainersNotReady",
            "message": f"containers with unready status: [{' '.join(unready)}]",
        }
    )
    gates = _unmet_gates(pod, previous)
    gate_text = {
        "reason": "ReadinessGatesNotReady",
        "message": f"corresponding condition of pod readiness gate {gates}",
    }
    pending = [r.name for r in records if r.init and not (r.started if r.sidecar else r.succeeded)]
    not_initialized = {
        "reason": "ContainersNotInitialized",
        "message": f"containers with incomplete status: [{' '.join(pending)}]",
    }
    wanted: list[Object] = [
        {"type": "PodReadyToStartContainers", "status": _bool(current not in TERMINAL)},
        {"type": "Initialized", "status": _bool(not pending), **(not_initialized if pending else completed)},
        {
            "type": "Ready",
            "status": _bool(ready and not gates),
            **({} if ready and not gates else gate_text if ready else not_ready),
        },
        {"type": "ContainersReady", "status": _bool(ready), **({} if ready else not_ready)},
        {"type": "PodScheduled", "status": "True"},
    ]
    before = {c["type"]: c for c in previous}
    return [_with_transition(condition, before.get(condition["type"]), now) for condition in wanted]


def _unmet_gates(pod: Mapping[str, Any], previous: Sequence[Mapping[str, Any]]) -> list[str]:
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or []]
    given = [*((pod.get("status") or {}).get("conditions") or []), *previous]
    met = {c["type"] for c in given if c.get("status") == "True"}
    return [gate for gate in gates if gate not in met]


def _with_transition(condition: Object, before: Mapping[str, Any] | None, now: str) -> Object:
    same = before is not None and before.get("status") == condition["status"]
    since = before.get("lastTransitionTime") if same and before is not None else None
    return {**condition, "lastProbeTime": None, "lastTransitionTime": since or now}


def _init_statuses(records: Sequence[Record], current: str) -> Object:
    statuses = [_container_status(r, current) for r in records if r.init]
    return {"initContainerStatuses": statuses} if statuses else {}


def _container_status(record: Record, current: str) -> Object:
    status: Object = {
        "name": record.name,
        "image": record.image,
        "imageID": f"sim/{record.image}" if record.container_id else "",
        "restartCount": record.restarts,
        "ready": record.succeeded if record.init and not record.sidecar else record.ready,
        "started": record.started and bool(record.running),
        "state": record.state or waiting("ContainerCreating"),
        "lastState": record.last_state,
    }
    if record.container_id:
        status["containerID"] = f"containerd://{record.container_id}"
    if record.devices:
        status["allocatedResourcesStatus"] = record.devices
    return status


def _bool(value: bool) -> str:
    return "True" if value else "False"
