"""What roles, bindings, classes, leases, revisions and keys of data may say. Pure.

Source: kubernetes, pkg/apis/{rbac,node,scheduling,coordination,apps,core}/validation/validation.go.
"""

from __future__ import annotations

import base64
import binascii
import string
from collections.abc import Iterator
from typing import Any, Final

from gpuready_sim.apiserver import go_json
from gpuready_sim.apiserver.field_errors import FieldError, InOrder, not_supported
from gpuready_sim.apiserver.names import (
    config_key_errors,
    label_errors,
    label_map_errors,
    path_segment_errors,
    subdomain_errors,
)
from gpuready_sim.apiserver.pod_rules import toleration_errors
from gpuready_sim.apiserver.quantity import is_quantity, parse_quantity
from gpuready_sim.apiserver.value_rules import not_negative, one_of

Object = dict[str, Any]
RBAC: Final = "rbac.authorization.k8s.io"
MOST_DATA_BYTES: Final = 1024 * 1024
_OF_ACCOUNT: Final = "kubernetes.io/service-account.name"

# --- access ---


def role(obj: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for i, rule in enumerate(obj.get("rules") or []):
        errors += _rule(rule, f"rules[{i}]", namespaced=obj["kind"] == "Role")
    if obj.get("aggregationRule") is not None:
        errors += _aggregation(obj["aggregationRule"], "aggregationRule.clusterRoleSelectors")
    return errors


def _rule(rule: Object, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    urls, at = rule.get("nonResourceURLs") or [], f"{path}.nonResourceURLs"
    if not rule.get("verbs"):
        yield FieldError(f"{path}.verbs", "Required", detail="verbs must contain at least one value")
    if urls:
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            yield FieldError(at, "Invalid", urls, why)
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            yield FieldError(at, "Invalid", urls, why)
        return
    for field, what in (("apiGroups", "api group"), ("resources", "resource")):
        if not rule.get(field):
            why = f"resource rules must supply at least one {what}"
            yield FieldError(f"{path}.{field}", "Required", detail=why)


def _aggregation(rule: Object, path: str) -> Iterator[FieldError]:
    selectors = rule.get("clusterRoleSelectors") or []
    if not selectors:
        why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield FieldError(path, "Required", detail=why)
    for i, selector in enumerate(selectors):
        yield from label_map_errors(selector.get("matchLabels"), f"{path}[{i}].matchLabels")


def binding(obj: Object) -> list[FieldError]:
    reference = obj.get("roleRef") or {}
    errors: list[FieldError] = []
    if (group := reference.get("apiGroup") or RBAC) != RBAC:
        errors.append(not_supported("roleRef.apiGroup", group, (RBAC,)))
    kinds = ("Role", "ClusterRole") if obj["kind"] == "RoleBinding" else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        errors.append(not_supported("roleRef.kind", reference.get("kind", ""), kinds))
    name = reference.get("name") or ""
    if not name:
        errors.append(FieldError("roleRef.name", "Required"))
    errors += [FieldError("roleRef.name", "Invalid", name, text) for text in path_segment_errors(name)]
    for i, subject in enumerate(obj.get("subjects") or []):
        errors += _subject(subject, f"subjects[{i}]", namespaced=obj["kind"] == "RoleBinding")
    return errors


def _subject(subject: Object, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    kind, name = subject.get("kind") or "", subject.get("name") or ""
    group = subject.get("apiGroup") or ""
    if not name:
        yield FieldError(f"{path}.name", "Required")
    if kind == "ServiceAccount":
        wrong = subdomain_errors(name) if name else []
        yield from (FieldError(f"{path}.name", "Invalid", name, text) for text in wrong)
        if group:
            yield not_supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield FieldError(f"{path}.namespace", "Required")
    elif kind in ("User", "Group"):
        if (group or RBAC) != RBAC:
            yield not_supported(f"{path}.apiGroup", group, (RBAC,))
    else:
        yield not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))


def binding_update(new: Object, old: Object) -> list[FieldError]:
    before, after = old.get("roleRef"), new.get("roleRef") or {}
    if before == after:
        return []
    shown = {field[0].upper() + field[1:]: after.get(field, "") for field in ("apiGroup", "kind", "name")}
    shown = {"APIGroup": shown["ApiGroup"], "Kind": shown["Kind"], "Name": shown["Name"]}
    return [FieldError("roleRef", "Invalid", InOrder(shown), "cannot change roleRef")]


# --- classes ---


def runtime_class(obj: Object) -> list[FieldError]:
    handler = obj.get("handler") or ""
    errors = [FieldError("handler", "Invalid", handler, text) for text in label_errors(handler) if handler]
    if not handler:
        errors.append(FieldError("handler", "Required"))
    for name, amount in ((obj.get("overhead") or {}).get("podFixed") or {}).items():
        if is_quantity(amount) and parse_quantity(amount) < 0:
            why = "must be greater than or equal to 0"
            errors.append(FieldError(f"overhead.limits[{name}]", "Invalid", str(amount), why))
    scheduling = obj.get("scheduling") or {}
    errors += label_map_errors(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    for i, toleration in enumerate(scheduling.get("tolerations") or []):
        errors += toleration_errors(toleration, f"scheduling.tolerations[{i}]")
    return errors


_SYSTEM_CLASSES: Final = ("system-node-critical", "system-cluster-critical")
_HIGHEST_OF_USERS: Final = 1_000_000_000


def priority_class(obj: Object) -> list[FieldError]:
    name, value = obj["metadata"].get("name") or "", obj.get("value") or 0
    errors: list[FieldError] = []
    if name.startswith("system-"):
        if name not in _SYSTEM_CLASSES:
            why = (
                "priority class names with 'system-' prefix are reserved for system use only. error: "
                f"{name} is not a known system priority class"
            )
            errors.append(FieldError("metadata.name", "Forbidden", detail=why))
    elif value > _HIGHEST_OF_USERS:
        why = f"maximum allowed value of a user defined priority is {_HIGHEST_OF_USERS}"
        errors.append(FieldError("value", "Forbidden", detail=why))
    return [*errors, *one_of(obj, "preemptionPolicy", "", ("PreemptLowerPriority", "Never"))]


def priority_class_update(new: Object, old: Object) -> list[FieldError]:
    errors = []
    if new.get("value", 0) != old.get("value", 0):
        errors.append(FieldError("value", "Forbidden", detail="may not be changed in an update."))
    after, before = (one.get("preemptionPolicy") for one in (new, old))
    if after != before:
        errors.append(FieldError("preemptionPolicy", "Invalid", after, "field is immutable"))
    return errors


# --- leases and revisions ---


def lease(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    duration = spec.get("leaseDurationSeconds")
    errors = []
    if duration is not None and duration <= 0:
        errors.append(FieldError("spec.leaseDurationSeconds", "Invalid", duration, "must be greater than 0"))
    return [*errors, *not_negative(spec, "spec", "leaseTransitions")]


def revision(obj: Object) -> list[FieldError]:
    errors = []
    if obj.get("data") is None:
        errors.append(FieldError("data", "Required", detail="data is mandatory"))
    number = obj.get("revision") or 0
    if number < 0:
        errors.append(FieldError("revision", "Invalid", number, "must be greater than or equal to 0"))
    return errors


def revision_update(new: Object, old: Object) -> list[FieldError]:
    if new.get("data") == old.get("data"):
        return []
    return [FieldError("data", "Invalid", new.get("data"), "field is immutable")]


# --- data ---


def config_map(obj: Object) -> list[FieldError]:
    binary, text = obj.get("binaryData") or {}, obj.get("data") or {}
    errors: list[FieldError] = []
    for key in text:
        errors += _key(key, f"data[{key}]")
        if key in binary:
            why = "duplicate of key present in binaryData"
            errors.append(FieldError(f"data[{key}]", "Invalid", key, why))
    for key in binary:
        errors += _key(key, f"binaryData[{key}]")
    size = sum(len(str(value or "").encode()) for value in text.values()) + sum(
        map(_decoded_size, binary.values())
    )
    return errors + _too_large(size, "[]")


def secret(obj: Object) -> list[FieldError]:
    data = obj.get("data") or {}
    errors = [error for key in data for error in _key(key, f"data[{key}]")]
    errors += _too_large(sum(map(_decoded_size, data.values())), "data")
    kind = obj.get("type") or ""
    notes = obj["metadata"].get("annotations") or {}
    if kind == "kubernetes.io/service-account-token" and not notes.get(_OF_ACCOUNT):
        errors.append(FieldError(f"metadata.annotations[{_OF_ACCOUNT}]", "Required"))
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        errors += [FieldError(f"data[{key}]", "Required") for key in ("username", "password")]
    needed = _NEEDED.get(kind, ())
    errors += [FieldError(f"data[{key}]", "Required") for key in needed if key not in data]
    if kind.startswith("kubernetes.io/docker"):
        errors += [error for key in needed if key in data for error in _no_json(data[key], f"data[{key}]")]
    return errors


_NEEDED: Final = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}


def _key(key: str, path: str) -> Iterator[FieldError]:
    texts = config_key_errors(key)
    if key in (".", ".."):
        texts.append(f"must not be '{key}'")
    elif key.startswith(".."):
        texts.append("must not start with '..'")
    yield from (FieldError(path, "Invalid", key, text) for text in texts)


def _decoded_size(text: str | None) -> int:
    return sum(letter in _LETTERS for letter in text or "") * 3 // 4


_LETTERS: Final = frozenset(string.ascii_letters + string.digits + "+/")


def _too_large(size: int, path: str) -> list[FieldError]:
    why = f"may not be more than {MOST_DATA_BYTES} bytes"
    return [FieldError(path, "TooLong", detail=why)] if size > MOST_DATA_BYTES else []


def _no_json(text: str, path: str) -> Iterator[FieldError]:
    try:
        why = go_json.complaint(base64.b64decode(text))
    except binascii.Error:
        return
    if why:
        yield FieldError(path, "Invalid", "<secret contents redacted>", why)
