"""How access rules, leases, classes, policies and claims look in `kubectl get`.

Source: kubernetes, pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

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


def _created(obj: Object, now: datetime) -> list[Any]:
    return [name_of(obj), obj["metadata"].get("creationTimestamp", "")]


def _binding(obj: Object, now: datetime) -> list[Any]:
    reference = obj.get("roleRef") or {}
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or []:
        name = subject.get("name", "")
        text = f"{subject.get('namespace')}/{name}" if subject.get("kind") == "ServiceAccount" else name
        by_kind.setdefault(subject.get("kind", ""), []).append(text)
    return [
        name_of(obj),
        f"{reference.get('kind')}/{reference.get('name')}",
        age_of(obj, now),
        *(", ".join(by_kind[kind]) for kind in ("User", "Group", "ServiceAccount")),
    ]


def _lease(obj: Object, now: datetime) -> list[Any]:
    return [name_of(obj), spec_of(obj).get("holderIdentity", ""), age_of(obj, now)]


def _runtime_class(obj: Object, now: datetime) -> list[Any]:
    return [name_of(obj), obj.get("handler", ""), age_of(obj, now)]


def _priority_class(obj: Object, now: datetime) -> list[Any]:
    default = "true" if obj.get("globalDefault") else "false"
    return [name_of(obj), obj.get("value", 0), default, age_of(obj, now), obj.get("preemptionPolicy", "")]


def _budget(obj: Object, now: datetime) -> list[Any]:
    least, most = spec_of(obj).get("minAvailable"), spec_of(obj).get("maxUnavailable")
    allowed = status_of(obj).get("disruptionsAllowed", 0)
    return [
        name_of(obj),
        *("N/A" if one is None else str(one) for one in (least, most)),
        allowed,
        age_of(obj, now),
    ]


def _network_policy(obj: Object, now: datetime) -> list[Any]:
    return [name_of(obj), labels_of(spec_of(obj).get("podSelector")), age_of(obj, now)]


def _webhooks(obj: Object, now: datetime) -> list[Any]:
    return [name_of(obj), len(obj.get("webhooks") or []), age_of(obj, now)]


def _admission_policy(obj: Object, now: datetime) -> list[Any]:
    kind = spec_of(obj).get("paramKind") or {}
    text = f"{kind['apiVersion']}/{kind['kind']}" if kind else "<unset>"
    return [name_of(obj), len(spec_of(obj).get("validations") or []), text, age_of(obj, now)]


def _admission_binding(obj: Object, now: datetime) -> list[Any]:
    reference = spec_of(obj).get("paramRef") or {}
    parts = [part for part in (reference.get("namespace"), reference.get("name")) if part]
    return [name_of(obj), spec_of(obj).get("policyName", ""), "/".join(parts) or "<unset>", age_of(obj, now)]


def _storage_class(obj: Object, now: datetime) -> list[Any]:
    default = (obj["metadata"].get("annotations") or {}).get(
        "storageclass.kubernetes.io/is-default-class"
    ) == "true"
    return [
        name_of(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        "true" if obj.get("allowVolumeExpansion") else "false",
        age_of(obj, now),
    ]


def _resource_claim(obj: Object, now: datetime) -> list[Any]:
    status = status_of(obj)
    states = ["deleted"] if obj["metadata"].get("deletionTimestamp") else []
    states.append("allocated" if status.get("allocation") else "pending")
    if status.get("reservedFor"):
        states.append("reserved")
    return [name_of(obj), ",".join(states), age_of(obj, now)]


def _resource_slice(obj: Object, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    node = spec.get("nodeName") or ("<all>" if spec.get("allNodes") else NONE)
    return [
        name_of(obj),
        node,
        spec.get("driver", ""),
        (spec.get("pool") or {}).get("name", ""),
        age_of(obj, now),
    ]


RBAC: Final = "rbac.authorization.k8s.io"
ADMISSION: Final = "admissionregistration.k8s.io"

TABLES: Final[Mapping[tuple[str, str], KindTable]] = {
    (RBAC, "Role"): table("Name|Created At", _created),
    (RBAC, "ClusterRole"): table("Name|Created At", _created),
    (RBAC, "RoleBinding"): table("Name|Role|Age", _binding, "Users|Groups|ServiceAccounts"),
    (RBAC, "ClusterRoleBinding"): table("Name|Role|Age", _binding, "Users|Groups|ServiceAccounts"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): KindTable(
        (NAME, column("Created At", "date")), _created
    ),
    ("coordination.k8s.io", "Lease"): table("Name|Holder|Age", _lease),
    ("node.k8s.io", "RuntimeClass"): table("Name|Handler|Age", _runtime_class),
    ("scheduling.k8s.io", "PriorityClass"): table(
        "Name|Value|Global-Default|Age|PreemptionPolicy", _priority_class, integers="Value"
    ),
    ("policy", "PodDisruptionBudget"): table(
        "Name|Min Available|Max Unavailable|Allowed Disruptions|Age", _budget, integers="Allowed Disruptions"
    ),
    ("networking.k8s.io", "NetworkPolicy"): table("Name|Pod-Selector|Age", _network_policy),
    (ADMISSION, "MutatingWebhookConfiguration"): table("Name|Webhooks|Age", _webhooks, integers="Webhooks"),
    (ADMISSION, "ValidatingWebhookConfiguration"): table("Name|Webhooks|Age", _webhooks, integers="Webhooks"),
    (ADMISSION, "ValidatingAdmissionPolicy"): table(
        "Name|Validations|ParamKind|Age", _admission_policy, integers="Validations"
    ),
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): table(
        "Name|PolicyName|ParamRef|Age", _admission_binding
    ),
    ("storage.k8s.io", "StorageClass"): table(
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age", _storage_class
    ),
    ("resource.k8s.io", "ResourceClaim"): table("Name|State|Age", _resource_claim),
    ("resource.k8s.io", "ResourceSlice"): table("Name|Node|Driver|Pool|Age", _resource_slice),
}
