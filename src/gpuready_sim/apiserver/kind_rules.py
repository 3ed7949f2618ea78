"""What single kinds demand beyond their types: pods, workloads, nodes, services, bindings, events.

Source: kubernetes, pkg/apis/{core,apps,rbac}/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gpuready_sim.apiserver import cluster_rules, disruption_rules, event_rules, service_rules, workload_rules
from gpuready_sim.apiserver.container_parts import whole_amount
from gpuready_sim.apiserver.field_errors import FieldError, InOrder
from gpuready_sim.apiserver.names import (
    finalizer_errors,
    label_value_errors,
    qualified_name_errors,
)
from gpuready_sim.apiserver.pod_rules import EFFECTS, new_pod, pod_spec
from gpuready_sim.apiserver.value_rules import one_of

Object = dict[str, Any]

IMMUTABLE: Final = "field is immutable"
POD_UPDATES: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
WORKLOADS: Final = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")


def validate(obj: Object) -> list[FieldError]:
    rule = RULES.get(_kind(obj))
    return rule(obj) if rule else []


def validate_new(obj: Object) -> list[FieldError]:
    """What is asked of an object only when it is created."""
    rule = CREATE_RULES.get(_kind(obj))
    return rule(obj) if rule else []


def validate_update(new: Object, old: Object) -> list[FieldError]:
    rule = UPDATE_RULES.get(_kind(new))
    return rule(new, old) if rule else []


def _kind(obj: Object) -> tuple[str, str]:
    return str(obj.get("apiVersion", "")).rpartition("/")[0], str(obj.get("kind", ""))


# --- pods ---


def _pod(pod: Object) -> list[FieldError]:
    return list(pod_spec(pod.get("spec") or {}, "spec"))


def _pod_update(new: Object, old: Object) -> list[FieldError]:
    before, after = _fixed_part(old.get("spec") or {}), _fixed_part(new.get("spec") or {})
    errors = [] if before == after else [FieldError("spec", "Forbidden", detail=POD_UPDATES)]
    kept = [_but_seconds(one) for one in (new.get("spec") or {}).get("tolerations") or []]
    if any(_but_seconds(one) not in kept for one in (old.get("spec") or {}).get("tolerations") or []):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(FieldError("spec.tolerations", "Forbidden", detail=detail))
    return errors


def _but_seconds(toleration: Object) -> Object:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _fixed_part(spec: Object) -> Object:
    free = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "ephemeralContainers")
    out = {key: value for key, value in spec.items() if key not in free}
    for group in ("containers", "initContainers"):
        if group in out:
            out[group] = [{key: value for key, value in one.items() if key != "image"} for one in out[group]]
    return out


# --- workloads ---


def _workload_update(new: Object, old: Object) -> list[FieldError]:
    return _same(new, old, "spec", "selector")


def _job_update(new: Object, old: Object) -> list[FieldError]:
    errors = []
    for field in ("selector", "template", "completionMode"):
        errors += _same(new, old, "spec", field)
    return errors


def _same(new: Object, old: Object, *path: str) -> list[FieldError]:
    before, after = _at(old, path), _at(new, path)
    return [] if before == after else [FieldError(".".join(path), "Invalid", after, IMMUTABLE)]


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        obj = (obj or {}).get(name)
    return obj


# --- the rest ---


def _node(obj: Object) -> list[FieldError]:
    """Taints are told as those of metadata, as really."""
    errors: list[FieldError] = []
    seen = set()
    for i, taint in enumerate(_at(obj, ("spec", "taints")) or []):
        path, key, value = f"metadata.taints[{i}]", taint.get("key") or "", taint.get("value") or ""
        errors += [FieldError(f"{path}.key", "Invalid", key, text) for text in qualified_name_errors(key)]
        errors += [FieldError(f"{path}.value", "Invalid", value, text) for text in label_value_errors(value)]
        if not taint.get("effect"):
            errors.append(FieldError(f"{path}.effect", "Required"))
        else:
            errors += one_of(taint, "effect", path, EFFECTS)
        if (key, taint.get("effect")) in seen:
            detail = "taints must be unique by key and effect pair"
            shown = {"Key": key, "Value": value, "Effect": taint.get("effect")}
            shown["TimeAdded"] = taint.get("timeAdded")
            errors.append(FieldError(path, "Duplicate", InOrder(shown), detail))
        seen.add((key, taint.get("effect")))
    status = obj.get("status") or {}
    for field in ("capacity", "allocatable"):
        for name, amount in (status.get(field) or {}).items():
            errors += whole_amount(name, amount, f"status.{field}.{name}")
    return errors


def _node_update(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = []
    for i, address in enumerate(_at(new, ("status", "addresses")) or []):
        shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
        if shown in seen:
            errors.append(FieldError(f"status.addresses[{i}]", "Duplicate", InOrder(shown)))
        seen.append(shown)
    before, after = _at(old, ("spec", "podCIDRs")), _at(new, ("spec", "podCIDRs"))
    if before and before != after:
        detail = 'node updates may not change podCIDR except from "" to valid'
        errors.append(FieldError("spec.podCIDRs", "Forbidden", detail=detail))
    before, after = _at(old, ("spec", "providerID")), _at(new, ("spec", "providerID"))
    if before and before != after:
        detail = 'node updates may not change providerID except from "" to valid'
        errors.append(FieldError("spec.providerID", "Forbidden", detail=detail))
    return errors


def _new_namespace(obj: Object) -> list[FieldError]:
    finalizers = _at(obj, ("spec", "finalizers")) or []
    return [error for one in finalizers for error in finalizer_errors(one, "spec.finalizers")]


def _namespace_update(new: Object, old: Object) -> list[FieldError]:
    errors = []
    for i, one in enumerate(_at(new, ("spec", "finalizers")) or []):
        errors += finalizer_errors(one, f"spec.finalizers[{i}]")
    phase, ending = _at(new, ("status", "phase")) or "", bool(_at(new, ("metadata", "deletionTimestamp")))
    if phase != ("Terminating" if ending else "Active"):
        detail = f"may only be '{'Terminating' if ending else 'Active'}' if `deletionTimestamp` is "
        detail += "not empty" if ending else "empty"
        errors.append(FieldError("status.Phase", "Invalid", phase, detail))
    return errors


def _config_update(new: Object, old: Object) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    fields = ("immutable", "data", "binaryData")
    return [FieldError(one, "Forbidden", detail=detail) for one in fields if new.get(one) != old.get(one)]


def _secret_update(new: Object, old: Object) -> list[FieldError]:
    return _same(new, old, "type") + _config_update(new, old)


RULES: Final[dict[tuple[str, str], Callable[[Object], list[FieldError]]]] = {
    ("", "Pod"): _pod,
    ("", "Node"): _node,
    ("", "Service"): service_rules.validate,
    ("", "ConfigMap"): cluster_rules.config_map,
    ("", "Secret"): cluster_rules.secret,
    ("node.k8s.io", "RuntimeClass"): cluster_rules.runtime_class,
    ("scheduling.k8s.io", "PriorityClass"): cluster_rules.priority_class,
    ("coordination.k8s.io", "Lease"): cluster_rules.lease,
    ("apps", "ControllerRevision"): cluster_rules.revision,
    ("policy", "PodDisruptionBudget"): disruption_rules.validate,
    ("rbac.authorization.k8s.io", "Role"): cluster_rules.role,
    ("rbac.authorization.k8s.io", "ClusterRole"): cluster_rules.role,
    ("", "Event"): event_rules.validate,
    ("events.k8s.io", "Event"): event_rules.validate,
    ("batch", "Job"): workload_rules.job,
    ("rbac.authorization.k8s.io", "RoleBinding"): cluster_rules.binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): cluster_rules.binding,
    **{("apps", kind): workload_rules.workload for kind in WORKLOADS},
}
CREATE_RULES: Final[dict[tuple[str, str], Callable[[Object], list[FieldError]]]] = {
    ("", "Namespace"): _new_namespace,
    ("", "Pod"): new_pod,
    ("events.k8s.io", "Event"): event_rules.validate_new,
}
UPDATE_RULES: Final[dict[tuple[str, str], Callable[[Object, Object], list[FieldError]]]] = {
    ("", "Pod"): _pod_update,
    ("", "Node"): _node_update,
    ("", "Namespace"): _namespace_update,
    ("", "ConfigMap"): _config_update,
    ("", "Secret"): _secret_update,
    ("batch", "Job"): _job_update,
    ("node.k8s.io", "RuntimeClass"): lambda new, old: _same(new, old, "handler"),
    ("rbac.authorization.k8s.io", "RoleBinding"): cluster_rules.binding_update,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): cluster_rules.binding_update,
    ("", "Service"): service_rules.validate_update,
    ("events.k8s.io", "Event"): event_rules.validate_update,
    ("scheduling.k8s.io", "PriorityClass"): cluster_rules.priority_class_update,
    ("apps", "ControllerRevision"): cluster_rules.revision_update,
    **{("apps", kind): _workload_update for kind in WORKLOADS},
}
