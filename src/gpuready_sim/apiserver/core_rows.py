"""How events, services, volumes and other core objects look in `kubectl get`.

Source: kubernetes, pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gpuready_sim.apiserver import ages
from gpuready_sim.apiserver.cells import (
    NAME,
    NONE,
    KindTable,
    Object,
    age_of,
    column,
    labels_of,
    name_of,
    spec_of,
    status_of,
    table,
)


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
        name_of(obj),
    ]


def _namespace(obj: Object, now: datetime) -> list[Any]:
    return [name_of(obj), status_of(obj).get("phase", ""), age_of(obj, now)]


def _config_map(obj: Object, now: datetime) -> list[Any]:
    return [name_of(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age_of(obj, now)]


def _secret(obj: Object, now: datetime) -> list[Any]:
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or {}), age_of(obj, now)]


def _service(obj: Object, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    return [
        name_of(obj),
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        _external_address(obj),
        _ports(spec.get("ports") or []),
        age_of(obj, now),
        labels_of(spec.get("selector")),
    ]


def _external_address(obj: Object) -> str:
    spec = spec_of(obj)
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    addresses = list(spec.get("externalIPs") or [])
    if spec.get("type") == "LoadBalancer":
        ingress = (status_of(obj).get("loadBalancer") or {}).get("ingress") or []
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
    return [name_of(obj), age_of(obj, now)]


def _endpoints(obj: Object, now: datetime) -> list[Any]:
    texts = []
    for subset in obj.get("subsets") or []:
        ports = [str(port.get("port")) for port in subset.get("ports") or []]
        for address in subset.get("addresses") or []:
            texts += [f"{address['ip']}:{port}" for port in ports] or [address["ip"]]
    shown = ",".join(texts[:3]) + (f" + {len(texts) - 3} more..." if len(texts) > 3 else "")
    return [name_of(obj), shown or NONE, age_of(obj, now)]


def _endpoint_slice(obj: Object, now: datetime) -> list[Any]:
    ports = ",".join(str(one.get("port", "*")) for one in obj.get("ports") or []) or "<unset>"
    addresses = [one for endpoint in obj.get("endpoints") or [] for one in endpoint.get("addresses") or []]
    shown = ",".join(addresses[:3]) + (f" + {len(addresses) - 3} more..." if len(addresses) > 3 else "")
    return [name_of(obj), obj.get("addressType", ""), ports, shown or "<unset>", age_of(obj, now)]


ACCESS: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _access(modes: list[str] | None) -> str:
    return ",".join(ACCESS.get(mode, mode) for mode in modes or [])


def _volume(obj: Object, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    claim = spec.get("claimRef") or {}
    return [
        name_of(obj),
        (spec.get("capacity") or {}).get("storage", ""),
        _access(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        f"{claim.get('namespace')}/{claim.get('name')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        age_of(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _claim(obj: Object, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    return [
        name_of(obj),
        "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", ""),
        _access(status.get("accessModes")),
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        age_of(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _resource_quota(obj: Object, now: datetime) -> list[Any]:
    hard, used = spec_of(obj).get("hard") or {}, status_of(obj).get("used") or {}
    texts = {name: f"{name}: {used.get(name, '0')}/{most}" for name, most in sorted(hard.items())}
    requests = ", ".join(text for name, text in texts.items() if not name.startswith("limits."))
    limits = ", ".join(text for name, text in texts.items() if name.startswith("limits."))
    return [name_of(obj), requests, limits, age_of(obj, now)]


def _created(obj: Object, now: datetime) -> list[Any]:
    return [name_of(obj), obj["metadata"].get("creationTimestamp", "")]


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
    ("", "Event"): _EVENTS,
    ("events.k8s.io", "Event"): _EVENTS,
    ("", "Namespace"): table("Name|Status|Age", _namespace),
    ("", "ConfigMap"): table("Name|Data|Age", _config_map),
    ("", "Secret"): table("Name|Type|Data|Age", _secret),
    ("", "Service"): table("Name|Type|Cluster-IP|External-IP|Port(s)|Age", _service, "Selector"),
    ("", "ServiceAccount"): table("Name|Age", _service_account),
    ("", "Endpoints"): table("Name|Endpoints|Age", _endpoints),
    ("", "PersistentVolume"): table(
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|"
        "Reason|Age",
        _volume,
        "VolumeMode",
    ),
    ("", "PersistentVolumeClaim"): table(
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age",
        _claim,
        "VolumeMode",
    ),
    ("", "ResourceQuota"): table("Name|Request|Limit|Age", _resource_quota),
    ("discovery.k8s.io", "EndpointSlice"): table("Name|AddressType|Ports|Endpoints|Age", _endpoint_slice),
    ("", "LimitRange"): table("Name|Created At", _created),
}
