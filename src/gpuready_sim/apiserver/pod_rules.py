"""What the specification of a pod may say: its volumes, and all but its containers. Pure.

Source: kubernetes, pkg/apis/core/validation/validation.go, ValidatePodSpec and what it calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from gpuready_sim.apiserver.container_parts import app_armor, seccomp
from gpuready_sim.apiserver.container_rules import (
    every_container,
    field_reference,
    padded_images,
    resource_reference,
)
from gpuready_sim.apiserver.field_errors import FieldError, InOrder, not_supported
from gpuready_sim.apiserver.names import (
    label_errors,
    label_map_errors,
    label_value_errors,
    qualified_name_errors,
    subdomain_errors,
)
from gpuready_sim.apiserver.quantity import is_quantity, parse_quantity
from gpuready_sim.apiserver.value_rules import (
    NOT_AN_ADDRESS,
    is_address,
    no_way_up,
    one_of,
    relative_path,
    required,
    within,
)

Object = dict[str, Any]
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_HOST_PATHS: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate"),
    *("File", "FileOrCreate", "Socket"),
)
_OF_VOLUMES: Final = (
    *("metadata.annotations", "metadata.labels", "metadata.name"),
    *("metadata.namespace", "metadata.uid"),
)
_ONE_TYPE: Final = "may not specify more than 1 volume type"


def new_pod(pod: Object) -> list[FieldError]:
    """What is asked of a pod only when it is created."""
    spec = pod.get("spec") or {}
    errors = list(padded_images(spec, "spec"))
    if spec.get("ephemeralContainers"):
        errors.append(FieldError("spec.ephemeralContainers", "Forbidden", detail="cannot be set on create"))
    return errors


def pod_spec(spec: Object, path: str) -> Iterator[FieldError]:
    whole: set[str] = set()
    yield from _volumes(spec.get("volumes") or [], f"{path}.volumes", whole)
    claims = spec.get("resourceClaims") or []
    yield from _claims(claims, f"{path}.resourceClaims")
    names = frozenset(str(claim.get("name") or "") for claim in claims)
    yield from every_container(spec, path, frozenset(whole), names)
    yield from _host_network(spec, path)
    yield from one_of(spec, "restartPolicy", path, ("Always", "OnFailure", "Never"))
    yield from one_of(spec, "dnsPolicy", path, ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"))
    yield from label_map_errors(spec.get("nodeSelector"), f"{path}.nodeSelector")
    yield from _security(spec, path)
    yield from _node_affinity(spec, f"{path}.affinity.nodeAffinity")
    yield from _dns(spec, f"{path}.dnsConfig")
    yield from _gates(spec, path)
    yield from _spread(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    yield from _named(spec, "serviceAccountName", path, subdomain_errors)
    yield from _named(spec, "nodeName", path, subdomain_errors)
    yield from within(spec, "activeDeadlineSeconds", path, 1)
    yield from _named(spec, "hostname", path, label_errors)
    yield from _named(spec, "subdomain", path, label_errors)
    for i, toleration in enumerate(spec.get("tolerations") or []):
        yield from toleration_errors(toleration, f"{path}.tolerations[{i}]")
    yield from _aliases(spec.get("hostAliases") or [], f"{path}.hostAliases")
    yield from _named(spec, "runtimeClassName", path, subdomain_errors)
    yield from one_of(spec, "preemptionPolicy", path, ("PreemptLowerPriority", "Never"))
    if (system := (spec.get("os") or {}).get("name")) not in (None, "linux", "windows"):
        yield not_supported(f"{path}.os", system, ("linux", "windows"))


def _named(spec: Object, field: str, path: str, rule: Any) -> Iterator[FieldError]:
    value = spec.get(field)
    if value:
        yield from (FieldError(f"{path}.{field}", "Invalid", value, text) for text in rule(value))


# --- volumes ---


def _volumes(volumes: Sequence[Object], path: str, whole: set[str]) -> Iterator[FieldError]:
    """`whole` gets the names of those that can be mounted."""
    for i, volume in enumerate(volumes):
        at, name = f"{path}[{i}]", volume.get("name") or ""
        errors = list(_source(volume, at))
        if not name:
            errors.append(FieldError(f"{at}.name", "Required"))
        else:
            errors += [FieldError(f"{at}.name", "Invalid", name, text) for text in label_errors(name)]
        if name in whole:
            errors.append(FieldError(f"{at}.name", "Duplicate", name))
        if not errors:
            whole.add(name)
        yield from errors


def _source(volume: Object, path: str) -> Iterator[FieldError]:
    limit = (volume.get("emptyDir") or {}).get("sizeLimit")
    if limit is not None and is_quantity(limit) and parse_quantity(limit) < 0:
        why = "SizeLimit field must be a valid resource quantity"
        yield FieldError(f"{path}.emptyDir.sizeLimit", "Forbidden", detail=why)
    named = [name for name in _KINDS if volume.get(name) is not None]
    for name in named[1:]:
        yield FieldError(f"{path}.{name}", "Forbidden", detail=_ONE_TYPE)
    if named:
        yield from _KINDS[named[0]](volume[named[0]], f"{path}.{named[0]}")


def _host_path(source: Object, path: str) -> Iterator[FieldError]:
    yield from required(source, path, "path")
    if source.get("path"):
        yield from no_way_up(source["path"], f"{path}.path")
        yield from one_of(source, "type", path, _HOST_PATHS)


def _mode(source: Object, field: str, path: str) -> Iterator[FieldError]:
    mode = source.get(field)
    if mode is not None and not 0 <= mode <= 0o777:
        why = "must be a number between 0 and 0777 (octal), both inclusive"
        yield FieldError(f"{path}.{field}", "Invalid", mode, why)


def _items(source: Object, path: str) -> Iterator[FieldError]:
    for i, item in enumerate(source.get("items") or []):
        at = f"{path}.items[{i}]"
        yield from required(item, at, "key", "path")
        yield from _file_path(item.get("path") or "", f"{at}.path")
        yield from _mode(item, "mode", at)


def _file_path(value: str, path: str) -> Iterator[FieldError]:
    yield from relative_path(value, path)
    if value.startswith("..") and not value.startswith("../"):
        yield FieldError(path, "Invalid", value, "must not start with '..'")


def _config_map(source: Object, path: str) -> Iterator[FieldError]:
    yield from required(source, path, "name")
    yield from _mode(source, "defaultMode", path)
    yield from _items(source, path)


def _secret(source: Object, path: str) -> Iterator[FieldError]:
    yield from required(source, path, "secretName")
    yield from _mode(source, "defaultMode", path)
    yield from _items(source, path)


def _downward(source: Object, path: str) -> Iterator[FieldError]:
    """Of its items no index is told, as really."""
    yield from _mode(source, "defaultMode", path)
    for item in source.get("items") or []:
        yield from required(item, path, "path")
        yield from _file_path(item.get("path") or "", f"{path}.path")
        if item.get("fieldRef") is not None:
            yield from field_reference(item["fieldRef"], f"{path}.fieldRef", _OF_VOLUMES)
        elif item.get("resourceFieldRef") is not None:
            yield from resource_reference(item["resourceFieldRef"], f"{path}.resourceFieldRef")
        else:
            why = "one of fieldRef and resourceFieldRef is required"
            yield FieldError(path, "Required", detail=why)


def _projected(source: Object, path: str) -> Iterator[FieldError]:
    yield from _mode(source, "defaultMode", path)
    for i, part in enumerate(source.get("sources") or []):
        at = f"{path}.sources[{i}]"
        for name in ("secret", "configMap"):
            if part.get(name) is not None:
                yield from required(part[name], f"{at}.{name}", "name")
                yield from _items(part[name], f"{at}.{name}")
        if part.get("downwardAPI") is not None:
            yield from _downward(part["downwardAPI"], f"{at}.downwardAPI")
        if (token := part.get("serviceAccountToken")) is not None:
            if token.get("expirationSeconds", 3600) < 600:
                where = f"{at}.serviceAccountToken.expirationSeconds"
                why = "may not specify a duration less than 10 minutes"
                yield FieldError(where, "Invalid", token["expirationSeconds"], why)
            yield from required(token, path, "path")


def _nfs(source: Object, path: str) -> Iterator[FieldError]:
    yield from required(source, path, "server", "path")
    if not (source.get("path") or "").startswith("/"):
        yield FieldError(f"{path}.path", "Invalid", source.get("path") or "", "must be an absolute path")


_KINDS: Final[dict[str, Any]] = {
    "emptyDir": lambda source, path: (),
    "hostPath": _host_path,
    "secret": _secret,
    "nfs": _nfs,
    "persistentVolumeClaim": lambda source, path: required(source, path, "claimName"),
    "downwardAPI": _downward,
    "configMap": _config_map,
    "projected": _projected,
    "csi": lambda source, path: required(source, path, "driver"),
    "ephemeral": lambda source, path: required(source, path, "volumeClaimTemplate"),
    "image": lambda source, path: required(source, path, "reference"),
}


def _claims(claims: Sequence[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, claim in enumerate(claims):
        at, name = f"{path}[{i}]", claim.get("name") or ""
        if not name:
            yield FieldError(f"{at}.name", "Required")
        elif name in seen:
            yield FieldError(f"{at}.name", "Duplicate", name)
        else:
            yield from (FieldError(f"{at}.name", "Invalid", name, text) for text in label_errors(name))
        seen.add(name)
        sources = [claim.get(field) for field in ("resourceClaimName", "resourceClaimTemplateName")]
        if sources.count(None) != 1:
            shown = {"Name": name, "ResourceClaimName": sources[0], "ResourceClaimTemplateName": sources[1]}
            why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            if None not in sources:
                why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield FieldError(at, "Invalid", InOrder(shown), why)
        yield from _named(claim, "resourceClaimName", at, subdomain_errors)
        yield from _named(claim, "resourceClaimTemplateName", at, subdomain_errors)


# --- where and how ---


def _host_network(spec: Object, path: str) -> Iterator[FieldError]:
    if not spec.get("hostNetwork"):
        return
    for i, container in enumerate(spec.get("containers") or []):
        for j, port in enumerate(container.get("ports") or []):
            if (host := port.get("hostPort") or 0) and host != port.get("containerPort"):
                at = f"{path}.containers[{i}].ports[{j}].hostPort"
                why = "must match `containerPort` when `hostNetwork` is true"
                yield FieldError(at, "Invalid", host, why)


def _security(spec: Object, path: str) -> Iterator[FieldError]:
    context, at = spec.get("securityContext") or {}, f"{path}.securityContext"
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from within(context, field, at, 0)
    for i, group in enumerate(context.get("supplementalGroups") or []):
        yield from within({f"supplementalGroups[{i}]": group}, f"supplementalGroups[{i}]", at, 0)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield FieldError(f"{at}.shareProcessNamespace", "Invalid", True, why)
    for i, control in enumerate(context.get("sysctls") or []):
        yield from required(control, f"{at}.sysctls[{i}]", "name")
    yield from one_of(context, "fsGroupChangePolicy", at, ("Always", "OnRootMismatch"))
    yield from seccomp(context.get("seccompProfile") or {}, f"{at}.seccompProfile")
    yield from app_armor(context.get("appArmorProfile") or {}, f"{at}.appArmorProfile")
    yield from one_of(context, "supplementalGroupsPolicy", at, ("Merge", "Strict"))


def _dns(spec: Object, path: str) -> Iterator[FieldError]:
    config = spec.get("dnsConfig")
    if config is None:
        if spec.get("dnsPolicy") == "None":
            why = "must provide `dnsConfig` when `dnsPolicy` is None"
            yield FieldError(path, "Required", detail=why)
        return
    servers = config.get("nameservers") or []
    if len(servers) > 3:
        yield FieldError(f"{path}.nameservers", "Invalid", servers, "must not have more than 3 nameservers")
    for i, server in enumerate(servers):
        if not is_address(server):
            yield FieldError(f"{path}.nameservers[{i}]", "Invalid", server, NOT_AN_ADDRESS)


def _gates(spec: Object, path: str) -> Iterator[FieldError]:
    for i, gate in enumerate(spec.get("readinessGates") or []):
        name, at = gate.get("conditionType") or "", f"{path}.readinessGates[{i}].conditionType"
        yield from (FieldError(at, "Invalid", name, text) for text in qualified_name_errors(name))
    seen: set[str] = set()
    for i, gate in enumerate(spec.get("schedulingGates") or []):
        name, at = gate.get("name") or "", f"{path}.schedulingGates[{i}]"
        yield from (FieldError(at, "Invalid", name, text) for text in qualified_name_errors(name))
        if name in seen:
            yield FieldError(at, "Duplicate", name)
        seen.add(name)


def _spread(constraints: Sequence[Object], path: str) -> Iterator[FieldError]:
    for i, one in enumerate(constraints):
        at, skew = f"{path}[{i}]", one.get("maxSkew") or 0
        if skew <= 0:
            yield FieldError(f"{at}.maxSkew", "Invalid", skew, "must be greater than zero")
        if not one.get("topologyKey"):
            yield FieldError(f"{at}.topologyKey", "Required", detail="can not be empty")
        ways = ("DoNotSchedule", "ScheduleAnyway")
        if one.get("whenUnsatisfiable") not in ways:
            yield not_supported(f"{at}.whenUnsatisfiable", one.get("whenUnsatisfiable") or "", ways)


def _aliases(aliases: Sequence[Object], path: str) -> Iterator[FieldError]:
    for i, alias in enumerate(aliases):
        if not is_address(alias.get("ip") or ""):
            yield FieldError(f"{path}[{i}].ip", "Invalid", alias.get("ip", ""), NOT_AN_ADDRESS)
        for j, name in enumerate(alias.get("hostnames") or []):
            at = f"{path}[{i}].hostnames[{j}]"
            yield from (FieldError(at, "Invalid", name, text) for text in subdomain_errors(name))


def toleration_errors(toleration: Object, path: str) -> Iterator[FieldError]:
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    at = f"{path}.operator"
    if key:
        yield from (FieldError(f"{path}.key", "Invalid", key, text) for text in qualified_name_errors(key))
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield FieldError(at, "Invalid", operator, detail)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield FieldError(f"{path}.effect", "Invalid", effect, detail)
    if operator in ("", "Equal"):
        if wrong := label_value_errors(value):
            yield FieldError(at, "Invalid", value, ";".join(wrong))
    elif operator == "Exists":
        if value:
            yield FieldError(at, "Invalid", value, "value must be empty when `operator` is 'Exists'")
    else:
        comparing = ("Lt", "Gt") if operator in ("Lt", "Gt") else ()
        yield not_supported(at, operator, ("Equal", "Exists", *comparing))
    if effect:
        yield from one_of(toleration, "effect", path, EFFECTS)


def _node_affinity(spec: Object, path: str) -> Iterator[FieldError]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    must, may = (f"{way}DuringSchedulingIgnoredDuringExecution" for way in ("required", "preferred"))
    if affinity.get(must) is not None:
        terms, at = affinity[must].get("nodeSelectorTerms") or [], f"{path}.{must}.nodeSelectorTerms"
        if not terms:
            why = "must have at least one node selector term"
            yield FieldError(at, "Required", detail=why)
        for i, term in enumerate(terms):
            yield from _term(term, f"{at}[{i}]")
    for i, wish in enumerate(affinity.get(may) or []):
        weight = wish.get("weight") or 0
        if not 1 <= weight <= 100:
            yield FieldError(f"{path}.{may}[{i}].weight", "Invalid", weight, "must be in the range 1-100")
        yield from _term(wish.get("preference") or {}, f"{path}.{may}[{i}].preference")


def _term(term: Object, path: str) -> Iterator[FieldError]:
    for i, wish in enumerate(term.get("matchExpressions") or []):
        yield from _expression(wish, f"{path}.matchExpressions[{i}]")


def _expression(wish: Object, path: str) -> Iterator[FieldError]:
    operator, values = wish.get("operator") or "", wish.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            yield FieldError(f"{path}.values", "Required", detail=detail)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield FieldError(f"{path}.values", "Forbidden", detail=detail)
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield FieldError(f"{path}.values", "Required", detail=detail)
    else:
        yield FieldError(f"{path}.operator", "Invalid", operator, "not a valid selector operator")
    key = wish.get("key") or ""
    yield from (FieldError(f"{path}.key", "Invalid", key, text) for text in qualified_name_errors(key))
