"""A pod's line in `kubectl get pods`: one word for everything that may be going on in it.

Source: kubernetes, pkg/printers/internalversion/printers.go, printPod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gpuready_sim.apiserver import ages

Object = Mapping[str, Any]
NONE: Final = "<none>"


def pod_cells(pod: Object, now: datetime) -> list[Any]:
    """Name, READY, STATUS, RESTARTS, AGE, then the wide ones: IP, node, nominated node, readiness gates."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    seen = _observed(pod)
    return [
        pod["metadata"].get("name", ""),
        f"{seen.ready}/{seen.containers}",
        seen.reason,
        _restarts(seen, now),
        ages.since(pod["metadata"].get("creationTimestamp"), now),
        next((one.get("ip") for one in status.get("podIPs") or []), None) or status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


@dataclass
class _Seen:
    """What the containers' states add up to."""

    reason: str
    containers: int
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count(self, status: Object) -> None:
        self.restarts += int(status.get("restartCount", 0))
        ended = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, ended)


def _observed(pod: Object) -> _Seen:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {
        one["name"] for one in spec.get("initContainers") or [] if one.get("restartPolicy") == "Always"
    }
    seen = _Seen(_first_reason(status), len(spec.get("containers") or []) + len(sidecars))
    held = {one["type"] for one in status.get("conditions") or [] if one.get("status") == "True"}
    initializing = _initializing(pod, seen, sidecars)
    if not initializing or "Initialized" in held:
        _main_containers(status, seen, sidecars, "Ready" in held)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            seen.reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            seen.reason = "Terminating"
    return seen


def _first_reason(status: Object) -> str:
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(status.get("reason") or status.get("phase") or "")


def _initializing(pod: Object, seen: _Seen, sidecars: set[str]) -> bool:
    """Whether an init container still holds the pod up; its reason is the pod's then."""
    total = len((pod.get("spec") or {}).get("initContainers") or [])
    for i, one in enumerate((pod.get("status") or {}).get("initContainerStatuses") or []):
        seen.count(one)
        state = one.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if one.get("name") in sidecars and one.get("started"):
            seen.ready += bool(one.get("ready"))
            continue
        waiting = (state.get("waiting") or {}).get("reason", "")
        if ended is not None:
            seen.reason = f"Init:{_end_reason(ended)}"
        elif waiting and waiting != "PodInitializing":
            seen.reason = f"Init:{waiting}"
        else:
            seen.reason = f"Init:{i}/{total}"
        return True
    return False


def _main_containers(status: Object, seen: _Seen, sidecars: set[str], pod_ready: bool) -> None:
    seen.restarts, seen.last_restart = 0, ""
    for one in status.get("initContainerStatuses") or []:
        if one.get("name") in sidecars:
            seen.count(one)
    running = False
    for one in reversed(status.get("containerStatuses") or []):
        seen.count(one)
        state = one.get("state") or {}
        waiting, ended = (state.get("waiting") or {}).get("reason", ""), state.get("terminated")
        if waiting:
            seen.reason = waiting
        elif ended is not None:
            seen.reason = _end_reason(ended)
        elif one.get("ready") and state.get("running") is not None:
            running = True
            seen.ready += 1
    if seen.reason == "Completed" and running:
        seen.reason = "Running" if pod_ready else "NotReady"


def _end_reason(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _restarts(seen: _Seen, now: datetime) -> str:
    if seen.restarts and seen.last_restart:
        return f"{seen.restarts} ({ages.since(seen.last_restart, now)} ago)"
    return str(seen.restarts)


def _readiness_gates(spec: Object, status: Object) -> str:
    gates = spec.get("readinessGates") or []
    if not gates:
        return NONE
    held = {one["type"] for one in status.get("conditions") or [] if one.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in held for gate in gates)}/{len(gates)}"
