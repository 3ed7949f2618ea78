"""What single kinds demand beyond their types: pods, workloads, nodes, services, bindings, events.

Source: kubernetes, pkg/apis/{core,apps,rbac}/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from gpuready_sim.apiserver import disruption_rules
from gpuready_sim.apiserver.disruption_rules import NOT_A_PERCENTAGE, NOT_NEGATIVE, PERCENTAGE
from gpuready_sim.apiserver.field_errors import FieldError, InOrder, not_supported
from gpuready_sim.apiserver.names import (
    config_key_errors,
    finalizer_errors,
    label_errors,
    label_map_errors,
    port_name_errors,
    qualified_name_errors,
)
from gpuready_sim.apiserver.quantity import is_quantity, parse_quantity

Object = dict[str, Any]

IMMUTABLE: Final = "field is immutable"
STRATEGIES: Final = ("Recreate", "RollingUpdate")
PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
POD_UPDATES: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
OF_ENVIRONMENT: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
CONVERTIBLE: Final = (
    *OF_ENVIRONMENT,
    "metadata.annotations",
    "metadata.labels",
    "spec.hostNetwork",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.nominatedNodeName",
    "status.phase",
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
    return list(_pod_spec(pod.get("spec") or {}, "spec"))


def _pod_spec(spec: Object, path: str) -> Iterator[FieldError]:
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    yield from _volumes(spec.get("volumes") or [], f"{path}.volumes")
    if not spec.get("containers"):
        yield FieldError(f"{path}.containers", "Required")
    seen: set[str] = set()
    for group in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(group) or []):
            yield from _container(container, f"{path}.{group}[{i}]", volumes, seen)
    yield from _one_of(spec, "restartPolicy", path, ("Always", "OnFailure", "Never"))
    yield from _one_of(
        spec, "dnsPolicy", path, ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    )
    yield from label_map_errors(spec.get("nodeSelector"), f"{path}.nodeSelector")
    for i, toleration in enumerate(spec.get("tolerations") or []):
        yield from _toleration(toleration, f"{path}.tolerations[{i}]")


def _volumes(volumes: list[Object], path: str) -> Iterator[FieldError]:
    seen = set()
    for i, volume in enumerate(volumes):
        name = volume.get("name")
        if not name:
            yield FieldError(f"{path}[{i}].name", "Required")
        elif name in seen:
            yield FieldError(f"{path}[{i}].name", "Duplicate", name)
        else:
            yield from (FieldError(f"{path}[{i}].name", "Invalid", name, text) for text in label_errors(name))
        seen.add(name)
        sources = [key for key in volume if key != "name"]
        if len(sources) > 1:
            detail = "may not specify more than 1 volume type"
            yield FieldError(f"{path}[{i}].{sorted(sources)[1]}", "Forbidden", detail=detail)
        if "hostPath" in volume and not (volume["hostPath"] or {}).get("path"):
            yield FieldError(f"{path}[{i}].hostPath.path", "Required")


def _container(container: Object, path: str, volumes: set[Any], seen: set[str]) -> Iterator[FieldError]:
    name = container.get("name")
    if not name:
        yield FieldError(f"{path}.name", "Required")
    else:
        yield from (FieldError(f"{path}.name", "Invalid", name, text) for text in label_errors(name))
        if name in seen:
            yield FieldError(f"{path}.name", "Duplicate", name)
        seen.add(name)
    if not container.get("image"):
        yield FieldError(f"{path}.image", "Required")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe) is not None:
            yield from _probe(container[probe], f"{path}.{probe}", is_readiness=probe == "readinessProbe")
    yield from _one_of(container, "imagePullPolicy", path, ("Always", "IfNotPresent", "Never"))
    yield from _env(container.get("env") or [], f"{path}.env")
    mounted = set()
    for i, mount in enumerate(container.get("volumeMounts") or []):
        at = f"{path}.volumeMounts[{i}]"
        if mount.get("name") not in volumes:
            yield FieldError(f"{at}.name", "NotFound", mount.get("name", ""))
        if not mount.get("mountPath"):
            yield FieldError(f"{at}.mountPath", "Required")
        elif mount["mountPath"] in mounted:
            yield FieldError(f"{at}.mountPath", "Invalid", mount["mountPath"], "must be unique")
        mounted.add(mount.get("mountPath"))
    for i, port in enumerate(container.get("ports") or []):
        number = port.get("containerPort", 0)
        if not 0 < number < 65536:
            yield FieldError(f"{path}.ports[{i}].containerPort", "Invalid", number, PORT_RANGE)
    yield from _resources(container.get("resources") or {}, f"{path}.resources")


_PROBE_NUMBERS: Final = (
    *("initialDelaySeconds", "timeoutSeconds", "periodSeconds"),
    *("successThreshold", "failureThreshold"),
)
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")


def _probe(probe: Object, path: str, *, is_readiness: bool) -> Iterator[FieldError]:
    handlers = [name for name in _HANDLERS if probe.get(name) is not None]
    if not handlers:
        yield FieldError(path, "Required", detail="must specify a handler type")
    for name in handlers[1:]:
        yield FieldError(f"{path}.{name}", "Forbidden", detail="may not specify more than 1 handler type")
    for name in handlers[:1]:
        if name in ("httpGet", "tcpSocket"):
            yield from _port(probe[name].get("port", 0), f"{path}.{name}.port")
    fields = (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    )
    for field in fields:
        if (number := probe.get(field) or 0) < 0:
            yield FieldError(f"{path}.{field}", "Invalid", number, NOT_NEGATIVE)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield FieldError(f"{path}.terminationGracePeriodSeconds", "Invalid", grace, "must be greater than 0")
    if not is_readiness and (times := probe.get("successThreshold", 1)) != 1:
        yield FieldError(f"{path}.successThreshold", "Invalid", times, "must be 1")


def _port(port: Any, path: str) -> Iterator[FieldError]:
    """A number, or the name that a container gives to one."""
    if isinstance(port, int):
        if not 0 < port < 65536:
            yield FieldError(path, "Invalid", port, PORT_RANGE)
    else:
        yield from (FieldError(path, "Invalid", port, text) for text in port_name_errors(port))


def _env(variables: list[Object], path: str) -> Iterator[FieldError]:
    for i, variable in enumerate(variables):
        if not variable.get("name"):
            yield FieldError(f"{path}[{i}].name", "Required")
        source = variable.get("valueFrom") or {}
        if "fieldRef" in source:
            at = f"{path}[{i}].valueFrom.fieldRef.fieldPath"
            yield from _field_path(source["fieldRef"] or {}, at, OF_ENVIRONMENT)
        if variable.get("value") and source:
            detail = "may not be specified when `value` is not empty"
            yield FieldError(f"{path}[{i}].valueFrom", "Invalid", "", detail)


def _field_path(reference: Object, at: str, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    path = str(reference.get("fieldPath") or "")
    bare = path.partition("[")[0]
    if not path:
        yield FieldError(at, "Required")
    elif bare in ("metadata.labels", "metadata.annotations") and path.endswith("']"):
        return
    elif path not in CONVERTIBLE:
        why = f"error converting fieldPath: field label not supported: {path}"
        yield FieldError(at, "Invalid", path, why)
    elif path not in allowed:
        yield not_supported(at, path, sorted(allowed))


def _resources(resources: Object, path: str) -> Iterator[FieldError]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for where, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from _amount(name, amount, f"{path}.{where}")
    for name, amount in requests.items():
        if not is_quantity(amount):
            continue
        extended = "/" in name and not name.startswith(("kubernetes.io/", "requests."))
        if name not in limits:
            if extended:
                detail = "Limit must be set for non overcommitable resources"
                yield FieldError(f"{path}.limits", "Required", detail=detail)
        elif is_quantity(limits[name]):
            asked, most = parse_quantity(amount), parse_quantity(limits[name])
            if extended and asked != most:
                detail = f"must be equal to {name} limit of {limits[name]}"
                yield FieldError(f"{path}.requests", "Invalid", str(amount), detail)
            elif asked > most:
                detail = f"must be less than or equal to {name} limit of {limits[name]}"
                yield FieldError(f"{path}.requests", "Invalid", str(amount), detail)


def _amount(name: str, amount: Any, path: str) -> Iterator[FieldError]:
    yield from (FieldError(f"{path}[{name}]", "Invalid", name, text) for text in qualified_name_errors(name))
    if not is_quantity(amount):
        return
    value = parse_quantity(amount)
    if value < 0:
        yield FieldError(f"{path}[{name}]", "Invalid", str(amount), "must be greater than or equal to 0")
    if "/" in name and value.denominator != 1:
        yield FieldError(f"{path}[{name}]", "Invalid", str(amount), "must be an integer")


def _toleration(toleration: Object, path: str) -> Iterator[FieldError]:
    operator = toleration.get("operator") or "Equal"
    if not toleration.get("key") and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield FieldError(f"{path}.operator", "Invalid", operator, detail)
    if operator == "Exists" and toleration.get("value"):
        detail = "value must be empty when `operator` is 'Exists'"
        yield FieldError(f"{path}.operator", "Invalid", toleration["value"], detail)
    if toleration.get("effect"):
        yield from _one_of(toleration, "effect", path, ("NoSchedule", "PreferNoSchedule", "NoExecute"))


def _one_of(holder: Object, field: str, path: str, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    value = holder.get(field)
    if value is not None and value not in allowed:
        yield not_supported(f"{path}.{field}", value, allowed)


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


def _workload(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    template = spec.get("template") or {}
    errors: list[FieldError] = []
    if (spec.get("replicas") or 0) < 0:
        errors.append(FieldError("spec.replicas", "Invalid", spec["replicas"], NOT_NEGATIVE))
    if obj["kind"] == "Deployment":
        strategy = spec.get("strategy") or {}
        if strategy.get("type", "RollingUpdate") not in STRATEGIES:
            shown = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}
            errors.append(not_supported("spec.strategy", InOrder(shown), STRATEGIES))
    selector = spec.get("selector")
    if selector is None and obj["kind"] != "DaemonSet":
        errors.append(FieldError("spec.selector", "Required"))
    elif selector == {}:
        detail = f"empty selector is invalid for {obj['kind'].lower()}"
        errors.append(FieldError("spec.selector", "Invalid", selector, detail))
    labels = (template.get("metadata") or {}).get("labels")
    if selector is None or (selector and not _selects(selector, labels or {})):
        detail = "`selector` does not match template `labels`"
        errors.append(FieldError("spec.template.metadata.labels", "Invalid", labels, detail))
    errors += label_map_errors(
        (template.get("metadata") or {}).get("labels"), "spec.template.metadata.labels"
    )
    pod = template.get("spec") or {}
    errors += _pod_spec(pod, "spec.template.spec")
    policy = pod.get("restartPolicy", "Always")
    if policy in ("OnFailure", "Never"):
        errors.append(not_supported("spec.template.spec.restartPolicy", policy, ["Always"]))
    if obj["kind"] == "DaemonSet":
        strategy = spec.get("updateStrategy") or {}
        errors += _one_of(strategy, "type", "spec.updateStrategy", ("RollingUpdate", "OnDelete"))
        if strategy.get("type") == "RollingUpdate":
            errors += _rolling_update(
                strategy.get("rollingUpdate") or {}, "spec.updateStrategy.rollingUpdate"
            )
    return errors


def _rolling_update(rolling: Object, path: str) -> Iterator[FieldError]:
    """Of a DaemonSet. Source: pkg/apis/apps/validation/validation.go, ValidateRollingUpdateDaemonSet."""
    amounts = {field: rolling.get(field, 0) for field in ("maxUnavailable", "maxSurge")}
    for field, amount in amounts.items():
        yield from _amount_or_percentage(amount, f"{path}.{field}")
    for field, amount in amounts.items():
        if isinstance(amount, str) and _number_of(amount) > 100:
            yield FieldError(f"{path}.{field}", "Invalid", amount, "must not be greater than 100%")
    unavailable, surge = (_number_of(amount) for amount in amounts.values())
    if unavailable and surge:
        detail = "may not be set when maxUnavailable is non-zero"
        yield FieldError(f"{path}.maxSurge", "Invalid", amounts["maxSurge"], detail)
    elif not unavailable and not surge:
        yield FieldError(f"{path}.maxUnavailable", "Required", detail="cannot be 0 when maxSurge is 0")


def _amount_or_percentage(amount: Any, path: str) -> Iterator[FieldError]:
    if isinstance(amount, str):
        if not PERCENTAGE.fullmatch(amount):
            yield FieldError(path, "Invalid", amount, NOT_A_PERCENTAGE)
    elif amount < 0:
        yield FieldError(path, "Invalid", amount, NOT_NEGATIVE)


def _number_of(amount: Any) -> int:
    """Of a percentage its number; 0 of what is none."""
    if isinstance(amount, str):
        return int(amount[:-1]) if PERCENTAGE.fullmatch(amount) else 0
    return int(amount)


def _selects(selector: Object, labels: Object) -> bool:
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(one, labels) for one in selector.get("matchExpressions") or [])


def _holds(expression: Object, labels: Object) -> bool:
    key, values = str(expression.get("key")), expression.get("values") or []
    return {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }.get(str(expression.get("operator")), False)


def _job(obj: Object) -> list[FieldError]:
    pod = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
    errors = list(_pod_spec(pod, "spec.template.spec"))
    policy = pod.get("restartPolicy", "Always")
    if policy == "Always":
        path = "spec.template.spec.restartPolicy"
        errors.append(FieldError(path, "Required", detail='valid values: "OnFailure", "Never"'))
    return errors


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
    errors: list[FieldError] = []
    seen = set()
    for i, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
        path = f"spec.taints[{i}]"
        errors += [
            FieldError(f"{path}.key", "Invalid", taint.get("key", ""), text)
            for text in qualified_name_errors(taint.get("key", ""))
        ]
        if not taint.get("effect"):
            errors.append(FieldError(f"{path}.effect", "Required"))
        else:
            effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
            errors += _one_of(taint, "effect", path.replace("spec", "metadata"), effects)  # as really
        if (taint.get("key"), taint.get("effect")) in seen:
            detail = "taints must be unique by key and effect pair"
            errors.append(FieldError(path, "Duplicate", taint, detail))
        seen.add((taint.get("key"), taint.get("effect")))
    return errors


def _node_update(new: Object, old: Object) -> list[FieldError]:
    before, after = _at(old, ("spec", "providerID")), _at(new, ("spec", "providerID"))
    if before and before != after:
        detail = 'node updates may not change providerID except from "" to valid'
        return [FieldError("spec.providerID", "Forbidden", detail=detail)]
    return []


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


def _service(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    headless = spec.get("clusterIP") == "None"
    if not spec.get("ports") and not headless and spec.get("type") != "ExternalName":
        errors.append(FieldError("spec.ports", "Required"))
    ports = spec.get("ports") or []
    for i, port in enumerate(ports):
        errors += _service_port(port, f"spec.ports[{i}]", alone=len(ports) == 1)
    types = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    errors += _one_of(spec, "type", "spec", types)
    errors += _one_of(spec, "sessionAffinity", "spec", ("ClientIP", "None"))
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        errors += _one_of(spec, "externalTrafficPolicy", "spec", TRAFFIC)
    elif spec.get("externalTrafficPolicy"):
        detail = "may only be set for externally-accessible services"
        value = spec["externalTrafficPolicy"]
        errors.append(FieldError("spec.externalTrafficPolicy", "Invalid", value, detail))
    return errors + list(_one_of(spec, "internalTrafficPolicy", "spec", TRAFFIC))


TRAFFIC: Final = ("Cluster", "Local")


def _service_port(port: Object, path: str, *, alone: bool) -> Iterator[FieldError]:
    if not alone and not port.get("name"):
        yield FieldError(f"{path}.name", "Required")
    yield from _port(port.get("port", 0), f"{path}.port")
    yield from _one_of(port, "protocol", path, ("SCTP", "TCP", "UDP"))
    if "targetPort" in port:
        yield from _port(port["targetPort"], f"{path}.targetPort")


def _config_data(obj: Object) -> list[FieldError]:
    errors = []
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            errors += [FieldError(f"{field}[{key}]", "Invalid", key, text) for text in config_key_errors(key)]
    return errors


def _secret(obj: Object) -> list[FieldError]:
    needed = ("tls.crt", "tls.key") if obj.get("type") == "kubernetes.io/tls" else ()
    data = obj.get("data") or {}
    return _config_data(obj) + [FieldError(f"data[{key}]", "Required") for key in needed if key not in data]


def _lease(obj: Object) -> list[FieldError]:
    duration = (obj.get("spec") or {}).get("leaseDurationSeconds")
    if duration is None or duration > 0:
        return []
    return [FieldError("spec.leaseDurationSeconds", "Invalid", duration, "must be greater than 0")]


def _role(obj: Object) -> list[FieldError]:
    errors = []
    for i, rule in enumerate(obj.get("rules") or []):
        wanted = {"verbs": "verbs must contain at least one value"}
        if not rule.get("nonResourceURLs"):
            wanted |= {
                "apiGroups": "resource rules must supply at least one api group",
                "resources": "resource rules must supply at least one resource",
            }
        missing = [name for name in wanted if not rule.get(name)]
        errors += [FieldError(f"rules[{i}].{name}", "Required", detail=wanted[name]) for name in missing]
    return errors


def _config_update(new: Object, old: Object) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    fields = ("immutable", "data", "binaryData")
    return [FieldError(one, "Forbidden", detail=detail) for one in fields if new.get(one) != old.get(one)]


def _secret_update(new: Object, old: Object) -> list[FieldError]:
    return _same(new, old, "type") + _config_update(new, old)


def _binding(obj: Object) -> list[FieldError]:
    reference = obj.get("roleRef") or {}
    errors = []
    kinds = ("ClusterRole", "Role") if obj["kind"] == "RoleBinding" else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        errors.append(not_supported("roleRef.kind", reference.get("kind", ""), kinds))
    if not reference.get("name"):
        errors.append(FieldError("roleRef.name", "Required"))
    for i, subject in enumerate(obj.get("subjects") or []):
        if not subject.get("name"):
            errors.append(FieldError(f"subjects[{i}].name", "Required"))
        if subject.get("kind") not in ("ServiceAccount", "User", "Group"):
            allowed = ("ServiceAccount", "User", "Group")
            errors.append(not_supported(f"subjects[{i}].kind", subject.get("kind", ""), allowed))
        elif subject["kind"] == "ServiceAccount" and not subject.get("namespace"):
            errors.append(FieldError(f"subjects[{i}].namespace", "Required"))
    return errors


def _binding_update(new: Object, old: Object) -> list[FieldError]:
    before, after = old.get("roleRef"), new.get("roleRef")
    return [] if before == after else [FieldError("roleRef", "Invalid", after, "cannot change roleRef")]


def _event(obj: Object) -> list[FieldError]:
    reference = obj.get("involvedObject") or obj.get("regarding") or {}
    namespace, own = reference.get("namespace") or "", _at(obj, ("metadata", "namespace")) or ""
    fits = own == namespace if namespace else own in ("", "default", "kube-system")
    if fits:
        return []
    return [FieldError("involvedObject.namespace", "Invalid", namespace, "does not match event.namespace")]


RULES: Final[dict[tuple[str, str], Callable[[Object], list[FieldError]]]] = {
    ("", "Pod"): _pod,
    ("", "Node"): _node,
    ("", "Service"): _service,
    ("", "ConfigMap"): _config_data,
    ("", "Secret"): _secret,
    ("coordination.k8s.io", "Lease"): _lease,
    ("policy", "PodDisruptionBudget"): disruption_rules.validate,
    ("rbac.authorization.k8s.io", "Role"): _role,
    ("rbac.authorization.k8s.io", "ClusterRole"): _role,
    ("", "Event"): _event,
    ("batch", "Job"): _job,
    ("rbac.authorization.k8s.io", "RoleBinding"): _binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _binding,
    **{("apps", kind): _workload for kind in WORKLOADS},
}
CREATE_RULES: Final[dict[tuple[str, str], Callable[[Object], list[FieldError]]]] = {
    ("", "Namespace"): _new_namespace,
}
UPDATE_RULES: Final[dict[tuple[str, str], Callable[[Object, Object], list[FieldError]]]] = {
    ("", "Pod"): _pod_update,
    ("", "Node"): _node_update,
    ("", "Namespace"): _namespace_update,
    ("", "ConfigMap"): _config_update,
    ("", "Secret"): _secret_update,
    ("batch", "Job"): _job_update,
    ("node.k8s.io", "RuntimeClass"): lambda new, old: _same(new, old, "handler"),
    ("rbac.authorization.k8s.io", "RoleBinding"): _binding_update,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _binding_update,
    **{("apps", kind): _workload_update for kind in WORKLOADS},
}
