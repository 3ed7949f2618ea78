"""How nodes, pods and what makes pods look in `kubectl get`.

Source: kubernetes, pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gpuready_sim.apiserver import ages
from gpuready_sim.apiserver.cells import (
    NONE,
    UNKNOWN,
    KindTable,
    Object,
    age_of,
    column,
    containers_of,
    labels_of,
    name_of,
    spec_of,
    status_of,
    table,
    template_of,
)
from gpuready_sim.apiserver.pod_rows import pod_cells


def _node(obj: Object, now: datetime) -> list[Any]:
    info = status_of(obj).get("nodeInfo") or {}
    return [
        name_of(obj),
        _node_status(obj),
        _node_roles(obj),
        age_of(obj, now),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        _kernel(info),
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _kernel(info: Object) -> str:
    version, architecture = info.get("kernelVersion") or UNKNOWN, info.get("architecture")
    return f"{version} ({architecture})" if architecture else version


def _node_status(obj: Object) -> str:
    conditions = {one["type"]: one.get("status") for one in status_of(obj).get("conditions") or []}
    words = (
        ["Unknown"]
        if "Ready" not in conditions
        else ["Ready" if conditions["Ready"] == "True" else "NotReady"]
    )
    if spec_of(obj).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(obj: Object) -> str:
    roles = set()
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if key.startswith("node-role.kubernetes.io/") and key != "node-role.kubernetes.io/":
            roles.add(key.partition("/")[2])
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    return ",".join(sorted(roles)) or NONE


def _address(obj: Object, kind: str) -> str:
    for address in status_of(obj).get("addresses") or []:
        if address.get("type") == kind:
            return str(address.get("address", ""))
    return NONE


def _daemon_set(obj: Object, now: datetime) -> list[Any]:
    status = status_of(obj)
    return [
        name_of(obj),
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels_of(template_of(obj).get("nodeSelector")),
        age_of(obj, now),
        *containers_of(template_of(obj)),
        labels_of(spec_of(obj).get("selector")),
    ]


def _deployment(obj: Object, now: datetime) -> list[Any]:
    status = status_of(obj)
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec_of(obj).get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(obj, now),
        *containers_of(template_of(obj)),
        labels_of(spec_of(obj).get("selector")),
    ]


def _replica_set(obj: Object, now: datetime) -> list[Any]:
    status = status_of(obj)
    return [
        name_of(obj),
        spec_of(obj).get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(obj, now),
        *containers_of(template_of(obj)),
        labels_of(spec_of(obj).get("selector")),
    ]


def _stateful_set(obj: Object, now: datetime) -> list[Any]:
    ready = f"{status_of(obj).get('readyReplicas', 0)}/{spec_of(obj).get('replicas', 0)}"
    return [name_of(obj), ready, age_of(obj, now), *containers_of(template_of(obj))]


def _scale(obj: Object, now: datetime) -> list[Any]:
    wanted, there = spec_of(obj).get("replicas", 0), status_of(obj).get("replicas", 0)
    return [name_of(obj), wanted, there, age_of(obj, now)]


def _job(obj: Object, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    wanted = spec.get("completions") or f"1 of {spec.get('parallelism', 1)}"
    return [
        name_of(obj),
        _job_status(obj),
        f"{status.get('succeeded', 0)}/{wanted}",
        _duration(status.get("startTime"), status.get("completionTime"), now),
        age_of(obj, now),
        *containers_of(template_of(obj)),
        labels_of(spec.get("selector")),
    ]


def _job_status(obj: Object) -> str:
    held = {one["type"] for one in status_of(obj).get("conditions") or [] if one.get("status") == "True"}
    for kind, text in (("Complete", "Complete"), ("Failed", "Failed")):
        if kind in held:
            return text
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in held:
            return kind
    return "Running"


def _duration(start: str | None, end: str | None, now: datetime) -> str:
    if not start:
        return ""
    until = datetime.fromisoformat(end) if end else now
    return ages.human(until - datetime.fromisoformat(start))


def _cron_job(obj: Object, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    last = status.get("lastScheduleTime")
    return [
        name_of(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or []),
        ages.since(last, now) if last else NONE,
        age_of(obj, now),
        *containers_of((job.get("template") or {}).get("spec") or {}),
        labels_of(job.get("selector")),
    ]


def _controller_revision(obj: Object, now: datetime) -> list[Any]:
    owners = obj["metadata"].get("ownerReferences") or []
    owner = next((one for one in owners if one.get("controller")), None)
    group = owner["apiVersion"].rpartition("/")[0] if owner else ""
    text = f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}" if owner else NONE
    return [name_of(obj), text, obj.get("revision", 0), age_of(obj, now)]


WORKLOAD_WIDE: Final = "Containers|Images|Selector"

TABLES: Final[Mapping[tuple[str, str], KindTable]] = {
    ("", "Pod"): table("Name|Ready|Status|Restarts|Age", pod_cells, "IP|Node|Nominated Node|Readiness Gates"),
    ("", "Node"): table(
        "Name|Status|Roles|Age|Version",
        _node,
        "Internal-IP|External-IP|OS-Image|Kernel-Version|Container-Runtime",
    ),
    ("", "ReplicationController"): table(
        "Name|Desired|Current|Ready|Age", _replica_set, WORKLOAD_WIDE, integers="Desired|Current|Ready"
    ),
    ("apps", "DaemonSet"): table(
        "Name|Desired|Current|Ready|Up-to-date|Available|Node Selector|Age",
        _daemon_set,
        WORKLOAD_WIDE,
        integers="Desired|Current|Ready|Up-to-date|Available",
    ),
    ("apps", "Deployment"): table("Name|Ready|Up-to-date|Available|Age", _deployment, WORKLOAD_WIDE),
    ("apps", "ReplicaSet"): table(
        "Name|Desired|Current|Ready|Age", _replica_set, WORKLOAD_WIDE, integers="Desired|Current|Ready"
    ),
    ("apps", "StatefulSet"): table("Name|Ready|Age", _stateful_set, "Containers|Images"),
    ("apps", "ControllerRevision"): table(
        "Name|Controller|Revision|Age", _controller_revision, integers="Revision"
    ),
    ("autoscaling", "Scale"): KindTable(
        (column("Name"), column("Desired", "integer"), column("Available", "integer"), column("Age")), _scale
    ),
    ("batch", "Job"): table("Name|Status|Completions|Duration|Age", _job, WORKLOAD_WIDE),
    ("batch", "CronJob"): table(
        "Name|Schedule|Timezone|Suspend|Active|Last Schedule|Age", _cron_job, WORKLOAD_WIDE, integers="Active"
    ),
}
