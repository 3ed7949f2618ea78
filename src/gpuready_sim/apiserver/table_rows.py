"""The columns and cells of each built-in kind, in the words of `kubectl get`. A table and its cell functions.

Source: kubernetes, pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gpuready_sim.apiserver import ages
from gpuready_sim.apiserver.pod_rows import pod_cells

Object = Mapping[str, Any]
Cells = Callable[[Object, datetime], list[Any]]

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"


def column(
    name: str, kind: str = "string", *, form: str = "", description: str = "", priority: int = 0
) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "format": form,
        "description": description or name,
        "priority": priority,
    }


NAME: Final = column(
    "Name",
    form="name",
    description="Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically.",
)


@dataclass(frozen=True)
class KindTable:
    """How one kind is shown."""

    columns: tuple[dict[str, Any], ...]
    cells: Cells


def _table(columns: str, cells: Cells, wide: str = "", integers: str = "") -> KindTable:
    """Columns by their names, separated by |; `wide` ones come last and show with -o wide."""
    numbers = integers.split("|")
    shown = [(name, 0) for name in columns.split("|")] + [(name, 1) for name in wide.split("|") if name]
    return KindTable(
        tuple(
            NAME
            if name == "Name" and priority == 0
            else column(name, "integer" if name in numbers else "string", priority=priority)
            for name, priority in shown
        ),
        cells,
    )


def _name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def _age(obj: Object, now: datetime) -> str:
    return ages.since(obj["metadata"].get("creationTimestamp"), now)


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def _status(obj: Object) -> Object:
    return obj.get("status") or {}


def _labels(selector: Object | None) -> str:
    """A label selector as text."""
    selector = selector or {}
    plain = (
        selector.get("matchLabels")
        if "matchLabels" in selector or "matchExpressions" in selector
        else selector
    )
    parts = [f"{key}={value}" for key, value in sorted((plain or {}).items())]
    for one in selector.get("matchExpressions") or []:
        parts.append(_requirement(one))
    return ",".join(parts) or NONE


def _requirement(one: Object) -> str:
    key, values = one["key"], ",".join(sorted(one.get("values") or []))
    words = {
        "In": f"{key} in ({values})",
        "NotIn": f"{key} notin ({values})",
        "Exists": key,
        "DoesNotExist": f"!{key}",
    }
    return str(words.get(one["operator"], key))


def _containers(pod_spec: Object) -> list[str]:
    containers = pod_spec.get("containers") or []
    return [
        ",".join(one.get("name", "") for one in containers),
        ",".join(one.get("image", "") for one in containers),
    ]


def _template(obj: Object) -> Object:
    return (_spec(obj).get("template") or {}).get("spec") or {}


# --- nodes and workloads ---


def _node(obj: Object, now: datetime) -> list[Any]:
    info = _status(obj).get("nodeInfo") or {}
    return [
        _name(obj),
        _node_status(obj),
        _node_roles(obj),
        _age(obj, now),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(obj: Object) -> str:
    conditions = {one["type"]: one.get("status") for one in _status(obj).get("conditions") or []}
    words = (
        ["Unknown"]
        if "Ready" not in conditions
        else ["Ready" if conditions["Ready"] == "True" else "NotReady"]
    )
    if _spec(obj).get("unschedulable"):
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
    for address in _status(obj).get("addresses") or []:
        if address.get("type") == kind:
            return str(address.get("address", ""))
    return NONE


def _daemon_set(obj: Object, now: datetime) -> list[Any]:
    status = _status(obj)
    return [
        _name(obj),
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        _labels(_template(obj).get("nodeSelector")),
        _age(obj, now),
        *_containers(_template(obj)),
        _labels(_spec(obj).get("selector")),
    ]


def _deployment(obj: Object, now: datetime) -> list[Any]:
    status = _status(obj)
    return [
        _name(obj),
        f"{status.get('readyReplicas', 0)}/{_spec(obj).get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(obj, now),
        *_containers(_template(obj)),
        _labels(_spec(obj).get("selector")),
    ]


def _replica_set(obj: Object, now: datetime) -> list[Any]:
    status = _status(obj)
    return [
        _name(obj),
        _spec(obj).get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        _age(obj, now),
        *_containers(_template(obj)),
        _labels(_spec(obj).get("selector")),
    ]


def _stateful_set(obj: Object, now: datetime) -> list[Any]:
    ready = f"{_status(obj).get('readyReplicas', 0)}/{_spec(obj).get('replicas', 0)}"
    return [_name(obj), ready, _age(obj, now), *_containers(_template(obj))]


def _job(obj: Object, now: datetime) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    wanted = spec.get("completions") or f"1 of {spec.get('parallelism', 1)}"
    return [
        _name(obj),
        _job_status(obj),
        f"{status.get('succeeded', 0)}/{wanted}",
        _duration(status.get("startTime"), status.get("completionTime"), now),
        _age(obj, now),
        *_containers(_template(obj)),
        _labels(spec.get("selector")),
    ]


def _job_status(obj: Object) -> str:
    held = {one["type"] for one in _status(obj).get("conditions") or [] if one.get("status") == "True"}
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
    spec, status = _spec(obj), _status(obj)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    last = status.get("lastScheduleTime")
    return [
        _name(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or []),
        ages.since(last, now) if last else NONE,
        _age(obj, now),
        *_containers((job.get("template") or {}).get("spec") or {}),
        _labels(job.get("selector")),
    ]


def _controller_revision(obj: Object, now: datetime) -> list[Any]:
    owners = obj["metadata"].get("ownerReferences") or []
    owner = next((one for one in owners if one.get("controller")), None)
    group = owner["apiVersion"].rpartition("/")[0] if owner else ""
    text = f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}" if owner else NONE
    return [_name(obj), text, obj.get("revision", 0), _age(obj, now)]


# --- core ---


def _event(obj: Object, now: datetime) -> list[Any]:
    """Both versions of events: core/v1 and events.k8s.io/v1."""
    reference = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    series = obj.get("series") or {}
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = (
        series.get("lastObservedTime")
        or obj.get("lastTimestamp")
        or obj.get("deprecatedLastTimestamp")
        or first
    )
    count = series.get("count") or obj.get("count") or obj.get("deprecatedCount") or 1
    kind, name = str(reference.get("kind", "")).lower(), reference.get("name", "")
    component = (
        source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    )
    return [
        ages.since(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        reference.get("fieldPath", ""),
        ", ".join(part for part in (component, source.get("host", "")) if part),
        str(obj.get("message") or obj.get("note") or "").strip(),
        ages.since(first, now),
        count,
        _name(obj),
    ]


def _namespace(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), _status(obj).get("phase", ""), _age(obj, now)]


def _config_map(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), _age(obj, now)]


def _secret(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), obj.get("type", ""), len(obj.get("data") or {}), _age(obj, now)]


def _service(obj: Object, now: datetime) -> list[Any]:
    spec = _spec(obj)
    return [
        _name(obj),
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        _external_address(obj),
        _ports(spec.get("ports") or []),
        _age(obj, now),
        _labels(spec.get("selector")),
    ]


def _external_address(obj: Object) -> str:
    spec = _spec(obj)
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    addresses = list(spec.get("externalIPs") or [])
    if spec.get("type") == "LoadBalancer":
        ingress = (_status(obj).get("loadBalancer") or {}).get("ingress") or []
        found = [one.get("ip") or one.get("hostname") for one in ingress]
        return ",".join(found + addresses) or "<pending>"
    return ",".join(addresses) or NONE


def _ports(ports: list[Object]) -> str:
    texts = []
    for port in ports:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or NONE


def _service_account(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), len(obj.get("secrets") or []), _age(obj, now)]


def _endpoints(obj: Object, now: datetime) -> list[Any]:
    texts = []
    for subset in obj.get("subsets") or []:
        ports = [str(port.get("port")) for port in subset.get("ports") or []]
        for address in subset.get("addresses") or []:
            texts += [f"{address['ip']}:{port}" for port in ports] or [address["ip"]]
    shown = ",".join(texts[:3]) + (f" + {len(texts) - 3} more..." if len(texts) > 3 else "")
    return [_name(obj), shown or NONE, _age(obj, now)]


def _endpoint_slice(obj: Object, now: datetime) -> list[Any]:
    ports = ",".join(str(one.get("port", "*")) for one in obj.get("ports") or []) or "<unset>"
    addresses = [one for endpoint in obj.get("endpoints") or [] for one in endpoint.get("addresses") or []]
    shown = ",".join(addresses[:3]) + (f" + {len(addresses) - 3} more..." if len(addresses) > 3 else "")
    return [_name(obj), obj.get("addressType", ""), ports, shown or "<unset>", _age(obj, now)]


ACCESS: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _access(modes: list[str] | None) -> str:
    return ",".join(ACCESS.get(mode, mode) for mode in modes or [])


def _volume(obj: Object, now: datetime) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    claim = spec.get("claimRef") or {}
    return [
        _name(obj),
        (spec.get("capacity") or {}).get("storage", ""),
        _access(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        f"{claim.get('namespace')}/{claim.get('name')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        _age(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _claim(obj: Object, now: datetime) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    return [
        _name(obj),
        "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", ""),
        _access(status.get("accessModes")),
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        _age(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _resource_quota(obj: Object, now: datetime) -> list[Any]:
    hard, used = _spec(obj).get("hard") or {}, _status(obj).get("used") or {}
    texts = {name: f"{name}: {used.get(name, '0')}/{most}" for name, most in sorted(hard.items())}
    requests = ", ".join(text for name, text in texts.items() if not name.startswith("limits."))
    limits = ", ".join(text for name, text in texts.items() if name.startswith("limits."))
    return [_name(obj), requests, limits, _age(obj, now)]


# --- rules, leases, classes ---


def _created(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), obj["metadata"].get("creationTimestamp", "")]


def _binding(obj: Object, now: datetime) -> list[Any]:
    reference = obj.get("roleRef") or {}
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or []:
        name = subject.get("name", "")
        text = f"{subject.get('namespace')}/{name}" if subject.get("kind") == "ServiceAccount" else name
        by_kind.setdefault(subject.get("kind", ""), []).append(text)
    return [
        _name(obj),
        f"{reference.get('kind')}/{reference.get('name')}",
        _age(obj, now),
        *(", ".join(by_kind[kind]) for kind in ("User", "Group", "ServiceAccount")),
    ]


def _lease(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), _spec(obj).get("holderIdentity", ""), _age(obj, now)]


def _runtime_class(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), obj.get("handler", ""), _age(obj, now)]


def _priority_class(obj: Object, now: datetime) -> list[Any]:
    default = "true" if obj.get("globalDefault") else "false"
    return [_name(obj), obj.get("value", 0), default, _age(obj, now), obj.get("preemptionPolicy", "")]


def _budget(obj: Object, now: datetime) -> list[Any]:
    least, most = _spec(obj).get("minAvailable"), _spec(obj).get("maxUnavailable")
    allowed = _status(obj).get("disruptionsAllowed", 0)
    return [
        _name(obj),
        *("N/A" if one is None else str(one) for one in (least, most)),
        allowed,
        _age(obj, now),
    ]


def _network_policy(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), _labels(_spec(obj).get("podSelector")), _age(obj, now)]


def _webhooks(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), len(obj.get("webhooks") or []), _age(obj, now)]


def _admission_policy(obj: Object, now: datetime) -> list[Any]:
    kind = _spec(obj).get("paramKind") or {}
    text = f"{kind['apiVersion']}/{kind['kind']}" if kind else "<unset>"
    return [_name(obj), len(_spec(obj).get("validations") or []), text, _age(obj, now)]


def _admission_binding(obj: Object, now: datetime) -> list[Any]:
    reference = _spec(obj).get("paramRef") or {}
    parts = [part for part in (reference.get("namespace"), reference.get("name")) if part]
    return [_name(obj), _spec(obj).get("policyName", ""), "/".join(parts) or "<unset>", _age(obj, now)]


def _storage_class(obj: Object, now: datetime) -> list[Any]:
    default = (obj["metadata"].get("annotations") or {}).get(
        "storageclass.kubernetes.io/is-default-class"
    ) == "true"
    return [
        _name(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        "true" if obj.get("allowVolumeExpansion") else "false",
        _age(obj, now),
    ]


def _resource_claim(obj: Object, now: datetime) -> list[Any]:
    status = _status(obj)
    states = ["deleted"] if obj["metadata"].get("deletionTimestamp") else []
    states.append("allocated" if status.get("allocation") else "pending")
    if status.get("reservedFor"):
        states.append("reserved")
    return [_name(obj), ",".join(states), _age(obj, now)]


def _resource_slice(obj: Object, now: datetime) -> list[Any]:
    spec = _spec(obj)
    node = spec.get("nodeName") or ("<all>" if spec.get("allNodes") else NONE)
    return [
        _name(obj),
        node,
        spec.get("driver", ""),
        (spec.get("pool") or {}).get("name", ""),
        _age(obj, now),
    ]


WORKLOAD_WIDE: Final = "Containers|Images|Selector"
RBAC: Final = "rbac.authorization.k8s.io"
ADMISSION: Final = "admissionregistration.k8s.io"
_EVENTS: Final = KindTable(
    tuple(
        NAME | {"priority": 1} if name == "Name" else column(name, priority=priority)
        for name, priority in (
            ("Last Seen", 0),
            ("Type", 0),
            ("Reason", 0),
            ("Object", 0),
            ("Subobject", 1),
            ("Source", 1),
            ("Message", 0),
            ("First Seen", 1),
            ("Count", 1),
            ("Name", 1),
        )
    ),
    _event,
)

TABLES: Final[Mapping[tuple[str, str], KindTable]] = {
    ("", "Pod"): _table(
        "Name|Ready|Status|Restarts|Age", pod_cells, "IP|Node|Nominated Node|Readiness Gates"
    ),
    ("", "Node"): _table(
        "Name|Status|Roles|Age|Version",
        _node,
        "Internal-IP|External-IP|OS-Image|Kernel-Version|Container-Runtime",
    ),
    ("", "Event"): _EVENTS,
    ("events.k8s.io", "Event"): _EVENTS,
    ("", "Namespace"): _table("Name|Status|Age", _namespace),
    ("", "ConfigMap"): _table("Name|Data|Age", _config_map, integers="Data"),
    ("", "Secret"): _table("Name|Type|Data|Age", _secret, integers="Data"),
    ("", "Service"): _table("Name|Type|Cluster-IP|External-IP|Port(s)|Age", _service, "Selector"),
    ("", "ServiceAccount"): _table("Name|Secrets|Age", _service_account, integers="Secrets"),
    ("", "Endpoints"): _table("Name|Endpoints|Age", _endpoints),
    ("", "PersistentVolume"): _table(
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|"
        "Reason|Age",
        _volume,
        "VolumeMode",
    ),
    ("", "PersistentVolumeClaim"): _table(
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age",
        _claim,
        "VolumeMode",
    ),
    ("", "ResourceQuota"): _table("Name|Request|Limit|Age", _resource_quota),
    ("", "LimitRange"): _table("Name|Created At", _created),
    ("", "ReplicationController"): _table(
        "Name|Desired|Current|Ready|Age", _replica_set, WORKLOAD_WIDE, integers="Desired|Current|Ready"
    ),
    ("discovery.k8s.io", "EndpointSlice"): _table("Name|AddressType|Ports|Endpoints|Age", _endpoint_slice),
    ("apps", "DaemonSet"): _table(
        "Name|Desired|Current|Ready|Up-to-date|Available|Node Selector|Age",
        _daemon_set,
        WORKLOAD_WIDE,
        integers="Desired|Current|Ready|Up-to-date|Available",
    ),
    ("apps", "Deployment"): _table(
        "Name|Ready|Up-to-date|Available|Age", _deployment, WORKLOAD_WIDE, integers="Up-to-date|Available"
    ),
    ("apps", "ReplicaSet"): _table(
        "Name|Desired|Current|Ready|Age", _replica_set, WORKLOAD_WIDE, integers="Desired|Current|Ready"
    ),
    ("apps", "StatefulSet"): _table("Name|Ready|Age", _stateful_set, "Containers|Images"),
    ("apps", "ControllerRevision"): _table(
        "Name|Controller|Revision|Age", _controller_revision, integers="Revision"
    ),
    ("batch", "Job"): _table("Name|Status|Completions|Duration|Age", _job, WORKLOAD_WIDE),
    ("batch", "CronJob"): _table(
        "Name|Schedule|Timezone|Suspend|Active|Last Schedule|Age", _cron_job, WORKLOAD_WIDE, integers="Active"
    ),
    (RBAC, "Role"): _table("Name|Created At", _created),
    (RBAC, "ClusterRole"): _table("Name|Created At", _created),
    (RBAC, "RoleBinding"): _table("Name|Role|Age", _binding, "Users|Groups|ServiceAccounts"),
    (RBAC, "ClusterRoleBinding"): _table("Name|Role|Age", _binding, "Users|Groups|ServiceAccounts"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _table("Name|Created At", _created),
    ("coordination.k8s.io", "Lease"): _table("Name|Holder|Age", _lease),
    ("node.k8s.io", "RuntimeClass"): _table("Name|Handler|Age", _runtime_class),
    ("scheduling.k8s.io", "PriorityClass"): _table(
        "Name|Value|Global-Default|Age|PreemptionPolicy", _priority_class, integers="Value"
    ),
    ("policy", "PodDisruptionBudget"): _table(
        "Name|Min Available|Max Unavailable|Allowed Disruptions|Age", _budget, integers="Allowed Disruptions"
    ),
    ("networking.k8s.io", "NetworkPolicy"): _table("Name|Pod-Selector|Age", _network_policy),
    (ADMISSION, "MutatingWebhookConfiguration"): _table("Name|Webhooks|Age", _webhooks, integers="Webhooks"),
    (ADMISSION, "ValidatingWebhookConfiguration"): _table(
        "Name|Webhooks|Age", _webhooks, integers="Webhooks"
    ),
    (ADMISSION, "ValidatingAdmissionPolicy"): _table(
        "Name|Validations|ParamKind|Age", _admission_policy, integers="Validations"
    ),
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): _table(
        "Name|PolicyName|ParamRef|Age", _admission_binding
    ),
    ("storage.k8s.io", "StorageClass"): _table(
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age", _storage_class
    ),
    ("resource.k8s.io", "ResourceClaim"): _table("Name|State|Age", _resource_claim),
    ("resource.k8s.io", "ResourceSlice"): _table("Name|Node|Driver|Pool|Age", _resource_slice),
}
