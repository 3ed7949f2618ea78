"""Records of a pod's containers: new ones, and what reboots and deletions make of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuready_sim.kubelet.clock import timestamp
from gpuready_sim.kubelet.pod_status import Object, Record, waiting


def containers_of(pod: Mapping[str, Any]) -> list[tuple[Object, bool]]:
    """The pod's containers in their order, with whether each is an init container."""
    spec = pod["spec"]
    return [(c, True) for c in spec.get("initContainers") or []] + [(c, False) for c in spec["containers"]]


def record_of(spec: Mapping[str, Any], pod: Mapping[str, Any], init: bool) -> Record:
    """Fresh, or going on from what an earlier kubelet wrote about the container."""
    has_init = bool(pod["spec"].get("initContainers"))
    record = Record(
        name=spec["name"],
        image=spec["image"],
        init=init,
        sidecar=init and spec.get("restartPolicy") == "Always",
        state=waiting("PodInitializing" if has_init else "ContainerCreating"),
    )
    status = pod.get("status") or {}
    listed = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    for old in listed:
        if old["name"] == record.name and (old.get("state") or {}).keys() & {"running", "terminated"}:
            record.restarts, record.state = old.get("restartCount", 0), old["state"]
            lost_by_reboot(record)
    return record


def lost_by_reboot(record: Record) -> None:
    """It ran, or had run, and must start again."""
    ended = record.terminated or {
        "exitCode": 255,
        "reason": "Unknown",
        "startedAt": (record.running or {}).get("startedAt"),
        "finishedAt": timestamp(),
    }
    record.last_state = {"terminated": ended}
    record.state = waiting("ContainerCreating")
    record.restarts += 1
    record.ready = record.started = False


def never_ran() -> Object:
    """The state of a container whose pod ended before it could start."""
    return {
        "terminated": {
            "exitCode": 137,
            "reason": "ContainerStatusUnknown",
            "message": "The container could not be located when the pod was terminated",
        }
    }
