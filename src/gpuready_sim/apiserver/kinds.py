"""What single kinds ask of a write beyond their schema: the work of admission and of the strategies.

Each rule takes the object, ours to edit, and the lookup of what else there is.

Source: kubernetes, plugin/pkg/admission/{serviceaccount,priority,defaulttolerationseconds}, pkg/registry.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gpuready_sim.apiserver import definitions
from gpuready_sim.apiserver.failures import Failure, Obj, forbidden, invalid
from gpuready_sim.apiserver.field_errors import FieldError
from gpuready_sim.apiserver.metadata import random_suffix
from gpuready_sim.apiserver.names import TEMPLATE_GENERATION
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.store import Store

_TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_LIFETIME_S = 3607
_NOT_READY = "node.kubernetes.io/not-ready"
_SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/16")
API_SERVICE_ADDRESS = "10.96.0.1"


@dataclass(frozen=True)
class Surroundings:
    """What a rule may look at."""

    store: Store
    now: str  # RFC 3339

    def find(self, table: str, namespace: str, name: str) -> Obj | None:
        entry = self.store.table(table).get(namespace, name)
        return entry.obj if entry is not None else None


CreateRule = Callable[[Obj, Surroundings], None]
UpdateRule = Callable[[Obj, Obj, Surroundings], None]


# Strategies that do not allow an unconditional update, and all custom resources.
_VERSIONED: Final = (
    ("node.k8s.io", "RuntimeClass"),
    ("coordination.k8s.io", "Lease"),
    ("policy", "PodDisruptionBudget"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIStorageCapacity"),
    ("storage.k8s.io", "VolumeAttachment"),
)
# Strategies that let an update create what is not there.
_CREATED_BY_UPDATES: Final = frozenset(
    {
        "endpoints",
        "events",
        "limitranges",
        "services",
        "events.events.k8s.io",
        "leases.coordination.k8s.io",
        "runtimeclasses.node.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "roles.rbac.authorization.k8s.io",
    }
)


def must_name_version(resource: ResourceType) -> bool:
    """A PUT of this kind must say which version it was made from."""
    return resource.custom is not None or (resource.group, resource.kind) in _VERSIONED


def is_created_by_updates(resource: ResourceType) -> bool:
    """A PUT of this kind makes the object where there is none."""
    return resource.qualified in _CREATED_BY_UPDATES


def prepare_create(obj: Obj, resource: ResourceType, around: Surroundings) -> None:
    """Fill in what the server adds to a new object of this kind.

    raises  Failure 403 or 422 when something that it names is not there
    """
    rule = _ON_CREATE.get(resource.qualified)
    if rule is not None:
        rule(obj, around)


def is_admitted_first(resource: ResourceType) -> bool:
    """What admission adds to it, or says of it, comes before what validation says."""
    return resource.qualified == "pods"


def prepare_update(new: Obj, old: Obj, resource: ResourceType, around: Surroundings) -> None:
    """Fill in what the server adds to an update of this kind."""
    rule = _ON_UPDATE.get(resource.qualified)
    if rule is not None:
        rule(new, old, around)


def as_decoded(obj: Obj, resource: ResourceType) -> Obj:
    """With what the conversion of a request's object to Go's own and back adds: its writer owns that."""
    if resource.qualified == "pods":
        return _with_all_addresses(obj)
    if resource.qualified != "daemonsets.apps":
        return obj
    annotations = obj["metadata"].get("annotations") or {}
    if TEMPLATE_GENERATION in annotations:
        return obj
    return obj | {"metadata": obj["metadata"] | {"annotations": {**annotations, TEMPLATE_GENERATION: "0"}}}


def _with_all_addresses(pod: Obj) -> Obj:
    """podIPs begins with podIP, whichever of them was said."""
    status = pod.get("status") or {}
    first, every = status.get("podIP"), status.get("podIPs") or []
    if every and (not first or every[0].get("ip") == first):
        return pod if first else pod | {"status": {**status, "podIP": every[0].get("ip")}}
    return pod | {"status": {**status, "podIPs": [{"ip": first}]}} if first else pod


def without_unsaid(obj: Obj, resource: ResourceType) -> Obj:
    """Without the fields of an event that are always shown: empty, they belong to nobody."""
    if resource.kind != "Event":
        return obj
    return {key: value for key, value in obj.items() if value not in (None, "", {})}


_KEEP_STATUS = frozenset({"nodes", "persistentvolumes", "resourceclaims.resource.k8s.io"})


def without_status(obj: Obj, resource: ResourceType) -> Obj:
    """A status is the controllers' to write: a new object begins without one."""
    if "status" not in resource.subresources or resource.qualified in _KEEP_STATUS:
        return obj
    return {key: value for key, value in obj.items() if key != "status"}


_IMMORTAL: Final = {
    "namespaces": (("default", "kube-system", "kube-public"), "this namespace may not be deleted"),
    "priorityclasses.scheduling.k8s.io": (
        ("system-node-critical", "system-cluster-critical"),
        "this is a system priority class and cannot be deleted",
    ),
}


def refuse_delete(resource: ResourceType, name: str) -> None:
    """
    raises  Failure 403 for what every cluster keeps
    """
    kept, why = _IMMORTAL.get(resource.qualified, ((), ""))
    if name in kept:
        raise forbidden(resource.plural, resource.group, name, why)


# --- pods ---


def _new_pod(pod: Obj, around: Surroundings) -> None:
    spec = pod["spec"] = dict(pod.get("spec") or {})
    _set_priority(pod, spec, around)
    _follow_class(pod, spec, around)
    _set_account(pod, spec, around)
    _tolerate_for_a_while(spec)
    pod["status"] = {"phase": "Pending", **(pod.get("status") or {})}


def _set_priority(pod: Obj, spec: Obj, around: Surroundings) -> None:
    name = spec.get("priorityClassName")
    found = around.find("priorityclasses.scheduling.k8s.io", "", name) if name else _default_class(around)
    if name and found is None:
        raise forbidden("pods", "", pod["metadata"]["name"], f"no PriorityClass with name {name} was found")
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
    value = found["value"] if found else 0
    policy = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")
    for field, what, computed in (
        ("priority", "integer value of priority", value),
        ("preemptionPolicy", "string value of PreemptionPolicy", policy),
    ):
        if spec.get(field) is not None and spec[field] != computed:
            why = (
                f"the {what} ({spec[field]}) must not be provided in pod spec; priority admission controller "
                f"computed {computed} from the given PriorityClass name"
            )
            raise forbidden("pods", "", pod["metadata"]["name"], why)
    spec |= {"priority": value, "preemptionPolicy": policy}


def _follow_class(pod: Obj, spec: Obj, around: Surroundings) -> None:
    """A RuntimeClass says where its pods can run, and what they cost beside their containers.

    raises  Failure 403

    Source: kubernetes, plugin/pkg/admission/runtimeclass/admission.go.
    """
    name, why = spec.get("runtimeClassName"), ""
    found = around.find("runtimeclasses.node.k8s.io", "", name) if name else None
    overhead = ((found or {}).get("overhead") or {}).get("podFixed")
    if name and found is None:
        why = f'RuntimeClass "{name}" not found'
    elif spec.get("overhead") and not overhead:
        why = "Pod Overhead set without corresponding RuntimeClass defined Overhead"
    if why:
        raise forbidden("pods", "", pod["metadata"]["name"], f"pod rejected: {why}")
    if overhead:
        spec["overhead"] = overhead
    scheduling = (found or {}).get("scheduling") or {}
    if chosen := scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **chosen}
    if tolerated := scheduling.get("tolerations"):
        own = spec.get("tolerations") or []
        spec["tolerations"] = [*own, *(one for one in tolerated if one not in own)]


def _default_class(around: Surroundings) -> Obj | None:
    entries = around.store.table("priorityclasses.scheduling.k8s.io").items.values()
    return next((entry.obj for entry in entries if entry.obj.get("globalDefault")), None)


def _set_account(pod: Obj, spec: Obj, around: Surroundings) -> None:
    """Name the service account and mount its token, unless pod or account say otherwise."""
    namespace = pod["metadata"]["namespace"]
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = around.find("serviceaccounts", namespace, name)
    if account is None:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden("pods", "", pod["metadata"]["name"], why)
    automount = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True))
    if automount is not False:
        _mount_token(spec)
    if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = account["imagePullSecrets"]


def _mount_token(spec: Obj) -> None:
    volume = f"kube-api-access-{random_suffix()}"
    mounted = False
    for group in ("initContainers", "containers"):
        changed = []
        for container in spec.get(group) or []:
            mounts = container.get("volumeMounts") or []
            if not any(mount.get("mountPath") == _TOKEN_MOUNT for mount in mounts):
                mount = {"name": volume, "readOnly": True, "mountPath": _TOKEN_MOUNT}
                container = container | {"volumeMounts": [*mounts, mount]}
                mounted = True
            changed.append(container)
        if changed:
            spec[group] = changed
    if mounted:
        spec["volumes"] = [*(spec.get("volumes") or []), _token_volume(volume)]


def _token_volume(name: str) -> Obj:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_LIFETIME_S, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}


def _tolerate_for_a_while(spec: Obj) -> None:
    """A pod stays five minutes on a node that went away, unless it says something else."""
    tolerations = list(spec.get("tolerations") or [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_covers(toleration, key) for toleration in tolerations):
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations.append(toleration)
    spec["tolerations"] = tolerations


def _covers(toleration: Obj, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


def _changed_pod(new: Obj, old: Obj, _: Surroundings) -> None:
    spec = new["spec"] = dict(new.get("spec") or {})
    _tolerate_for_a_while(spec)


# --- the others ---


def _new_node(node: Obj, _: Surroundings) -> None:
    """Nothing is placed on a node before the node controller has seen it Ready."""
    spec = node["spec"] = dict(node.get("spec") or {})
    taints = spec.get("taints") or []
    if not any(one.get("key") == _NOT_READY and one.get("effect") == "NoSchedule" for one in taints):
        spec["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]


def _new_namespace(namespace: Obj, _: Surroundings) -> None:
    """It waits for its content, whatever else it waits for."""
    spec = namespace["spec"] = dict(namespace.get("spec") or {})
    finalizers = spec.get("finalizers") or []
    if "kubernetes" not in finalizers:
        spec["finalizers"] = [*finalizers, "kubernetes"]


def _changed_namespace(new: Obj, old: Obj, _: Surroundings) -> None:
    meta = new["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta["name"]}
    new["spec"] = old.get("spec") or {}


def _new_job(job: Obj, _: Surroundings) -> None:
    """It knows its pods by its uid, unless somebody says how else.

    Source: kubernetes, pkg/registry/batch/job/strategy.go, generateSelector.
    """
    spec = job["spec"] = dict(job.get("spec") or {})
    if spec.get("manualSelector"):
        return
    name, uid = job["metadata"].get("name", ""), job["metadata"]["uid"]
    template = dict(spec.get("template") or {})
    meta = dict(template.get("metadata") or {})
    own = {"controller-uid": uid, "job-name": name}
    own |= {f"batch.kubernetes.io/{key}": value for key, value in own.items()}
    meta["labels"] = {**(meta.get("labels") or {}), **own}
    spec["template"] = template | {"metadata": meta}
    selector = dict(spec.get("selector") or {})
    mine = {"batch.kubernetes.io/controller-uid": uid}
    spec["selector"] = selector | {"matchLabels": {**(selector.get("matchLabels") or {}), **mine}}
    if not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(meta["labels"])


def _new_daemon_set(daemon_set: Obj, _: Surroundings) -> None:
    _set_template_generation(daemon_set, 1)


def _changed_daemon_set(new: Obj, old: Obj, _: Surroundings) -> None:
    annotations = old["metadata"].get("annotations") or {}
    count = int(annotations.get(TEMPLATE_GENERATION, "1"))
    if (new.get("spec") or {}).get("template") != (old.get("spec") or {}).get("template"):
        count += 1
    _set_template_generation(new, count)


def _set_template_generation(daemon_set: Obj, count: int) -> None:
    meta = daemon_set["metadata"]
    meta["annotations"] = {**(meta.get("annotations") or {}), TEMPLATE_GENERATION: str(count)}


def _new_service(service: Obj, around: Surroundings) -> None:
    spec = service["spec"] = dict(service.get("spec") or {})
    if spec.get("type") == "ExternalName":
        return
    if not spec.get("clusterIP"):
        spec["clusterIP"] = _free_address(around)
    spec["clusterIPs"] = [spec["clusterIP"]]
    _refuse_taken_ports(service, around)
    anywhere = spec["clusterIP"] == "None" and not spec.get("selector")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if anywhere else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if anywhere else "SingleStack")
    service["status"] = {"loadBalancer": {}}


def _refuse_taken_ports(service: Obj, around: Surroundings) -> None:
    """
    raises  Failure 422 for a port of the nodes that another service has
    """
    taken = {
        port.get("nodePort")
        for entry in around.store.table("services").items.values()
        for port in (entry.obj.get("spec") or {}).get("ports") or []
    }
    for i, port in enumerate(service["spec"].get("ports") or []):
        if (number := port.get("nodePort")) and number in taken:
            at, why = f"spec.ports[{i}].nodePort", "provided port is already allocated"
            raise invalid(
                "Service", "", service["metadata"]["name"], [FieldError(at, "Invalid", number, why)]
            )


def _changed_service(new: Obj, old: Obj, _: Surroundings) -> None:
    spec, before = dict(new.get("spec") or {}), old.get("spec") or {}
    for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if not spec.get(key) and before.get(key) and spec.get("type") != "ExternalName":
            spec[key] = before[key]
    for key, types in _OF_TYPES.items():
        if before.get("type") in types and spec.get("type") not in types and spec.get(key) == before.get(key):
            spec.pop(key, None)
    if spec.get("type") == "ClusterIP" and before.get("type") != "ClusterIP":
        given = {port.get("nodePort") for port in before.get("ports") or []}
        spec["ports"] = [_without_node_port(port, given) for port in spec.get("ports") or []]
    new["spec"] = spec


def _without_node_port(port: Obj, given: set[int | None]) -> Obj:
    return {key: value for key, value in port.items() if key != "nodePort" or value not in given}


# What the server has filled in for a type goes with it, unless somebody says something else.
# Source: kubernetes, pkg/registry/core/service/strategy.go (dropTypeDependentFields).
_OF_TYPES = {
    "externalTrafficPolicy": ("NodePort", "LoadBalancer"),
    "allocateLoadBalancerNodePorts": ("LoadBalancer",),
    **dict.fromkeys(
        ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"),
        ("ClusterIP", "NodePort", "LoadBalancer"),
    ),
}


def _free_address(around: Surroundings) -> str:
    used = {(e.obj.get("spec") or {}).get("clusterIP") for e in around.store.table("services").items.values()}
    used.add(API_SERVICE_ADDRESS)
    return next(str(host) for host in _SERVICE_NETWORK.hosts() if str(host) not in used)


def _new_definition(crd: Obj, _: Surroundings) -> None:
    crd["status"] = definitions.begun(crd)


def _changed_definition(new: Obj, old: Obj, _: Surroundings) -> None:
    new["status"] = definitions.carried_on(new, old["status"])


def check_namespace(
    resource: ResourceType, namespace: str, name: str, around: Surroundings
) -> Failure | None:
    """Why nothing may be created in a namespace: it is on its way out. None when there is no reason."""
    found = around.find("namespaces", "", namespace)
    if found is None:
        return Failure(
            404,
            "NotFound",
            f'namespaces "{namespace}" not found',
            details={"name": namespace, "kind": "namespaces"},
        )
    if found["metadata"].get("deletionTimestamp") is None:
        return None
    text = f"namespace {namespace} is being terminated"
    causes = [{"reason": "NamespaceTerminating", "message": text, "field": "metadata.namespace"}]
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    return forbidden(resource.plural, resource.group, name, why, causes)


_ON_CREATE: dict[str, CreateRule] = {
    "pods": _new_pod,
    "nodes": _new_node,
    "namespaces": _new_namespace,
    "services": _new_service,
    "daemonsets.apps": _new_daemon_set,
    "jobs.batch": _new_job,
    "customresourcedefinitions.apiextensions.k8s.io": _new_definition,
}
_ON_UPDATE: dict[str, UpdateRule] = {
    "namespaces": _changed_namespace,
    "pods": _changed_pod,
    "services": _changed_service,
    "daemonsets.apps": _changed_daemon_set,
    "customresourcedefinitions.apiextensions.k8s.io": _changed_definition,
}
