"""What a container may say. Pure.

Source: kubernetes, pkg/apis/core/validation/validation.go, validateContainerCommon and what it calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from gpuready_sim.apiserver.container_parts import (
    lifecycle_and_probes,
    resize_errors,
    resource_errors,
    security_errors,
)
from gpuready_sim.apiserver.field_errors import FieldError, not_supported
from gpuready_sim.apiserver.names import (
    config_key_errors,
    label_errors,
    port_name_errors,
    qualified_name_errors,
    subdomain_errors,
)
from gpuready_sim.apiserver.value_rules import (
    PORT_RANGE,
    one_of,
    relative_path,
)

Object = dict[str, Any]
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
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
RESTARTS: Final = ("Always", "Never", "OnFailure")
_NO_SIDECAR: Final = "may not be set for init containers without restartPolicy=Always"


def every_container(
    spec: Object, path: str, volumes: frozenset[str], claims: frozenset[str]
) -> Iterator[FieldError]:
    """
    volumes  names of those that are whole
    claims   names of the pod's resourceClaims
    """
    ordinary = spec.get("containers") or []
    if not ordinary:
        yield FieldError(f"{path}.containers", "Required")
    names: set[str] = set()
    grace_s = spec.get("terminationGracePeriodSeconds", 30)
    for i, one in enumerate(ordinary):
        at = f"{path}.containers[{i}]"
        yield from _container(one, at, volumes, claims)
        yield from _twice(one, at, names)
        yield from lifecycle_and_probes(one, at, grace_s)
        yield from one_of(one, "restartPolicy", at, RESTARTS)
    yield from host_port_conflicts(ordinary, f"{path}.containers")
    for i, one in enumerate(spec.get("initContainers") or []):
        at = f"{path}.initContainers[{i}]"
        yield from _container(one, at, volumes, claims)
        yield from one_of(one, "restartPolicy", at, RESTARTS)
        yield from _twice(one, at, names)
        if one.get("restartPolicy") == "Always":
            yield from lifecycle_and_probes(one, at, grace_s)
        else:
            for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                if one.get(field) is not None:
                    yield FieldError(f"{at}.{field}", "Forbidden", detail=_NO_SIDECAR)


def _twice(container: Object, path: str, names: set[str]) -> Iterator[FieldError]:
    name = container.get("name") or ""
    if name in names:
        yield FieldError(f"{path}.name", "Duplicate", name)
    names.add(name)


def _container(
    container: Object, path: str, volumes: frozenset[str], claims: frozenset[str]
) -> Iterator[FieldError]:
    name, image = container.get("name") or "", container.get("image") or ""
    if not name:
        yield FieldError(f"{path}.name", "Required")
    else:
        yield from (FieldError(f"{path}.name", "Invalid", name, text) for text in label_errors(name))
    if not image:
        yield FieldError(f"{path}.image", "Required")
    yield from one_of(container, "terminationMessagePolicy", path, ("File", "FallbackToLogsOnError"))
    yield from _ports(container.get("ports") or [], f"{path}.ports")
    yield from _env(container.get("env") or [], f"{path}.env")
    yield from _env_from(container.get("envFrom") or [], f"{path}.envFrom")
    yield from _mounts(container, f"{path}.volumeMounts", volumes)
    for i, device in enumerate(container.get("volumeDevices") or []):
        if device.get("name") not in volumes:
            yield FieldError(f"{path}.volumeDevices[{i}].name", "NotFound", device.get("name", ""))
    yield from one_of(container, "imagePullPolicy", path, ("Always", "IfNotPresent", "Never"))
    yield from resource_errors(container.get("resources") or {}, f"{path}.resources", claims)
    yield from resize_errors(container.get("resizePolicy") or [], f"{path}.resizePolicy")
    yield from security_errors(container.get("securityContext") or {}, f"{path}.securityContext")


def padded_images(spec: Object, path: str) -> Iterator[FieldError]:
    """Of new pods only; templates may say so."""
    for group in ("initContainers", "containers"):
        for i, one in enumerate(spec.get(group) or []):
            image = one.get("image") or ""
            if image != image.strip():
                why = "must not have leading or trailing whitespace"
                yield FieldError(f"{path}.{group}[{i}].image", "Invalid", image, why)


# --- ports ---


def _ports(ports: Sequence[Object], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for i, port in enumerate(ports):
        at, name = f"{path}[{i}]", port.get("name") or ""
        wrong = port_name_errors(name) if name else []
        yield from (FieldError(f"{at}.name", "Invalid", name, text) for text in wrong)
        if not wrong and name in names:
            yield FieldError(f"{at}.name", "Duplicate", name)
        if name:
            names.add(name)
        number = port.get("containerPort") or 0
        if number == 0:
            yield FieldError(f"{at}.containerPort", "Required")
        elif not 0 < number < 65536:
            yield FieldError(f"{at}.containerPort", "Invalid", number, PORT_RANGE)
        if (host := port.get("hostPort") or 0) and not 0 < host < 65536:
            yield FieldError(f"{at}.hostPort", "Invalid", host, PORT_RANGE)
        yield from one_of(port, "protocol", at, PROTOCOLS)


def host_port_conflicts(containers: Sequence[Object], path: str) -> Iterator[FieldError]:
    taken: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports") or []):
            if not port.get("hostPort"):
                continue
            told = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if told in taken:
                yield FieldError(f"{path}[{i}].ports[{j}].hostPort", "Duplicate", told)
            taken.add(told)


# --- environment ---


def _variable_name(name: str, path: str) -> Iterator[FieldError]:
    if "=" in name or any(not " " <= letter <= "~" for letter in name):
        why = (
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
        yield FieldError(path, "Invalid", name, why)


def _env(variables: Sequence[Object], path: str) -> Iterator[FieldError]:
    for i, variable in enumerate(variables):
        at = f"{path}[{i}]"
        if not variable.get("name"):
            yield FieldError(f"{at}.name", "Required")
        else:
            yield from _variable_name(variable["name"], f"{at}.name")
        if variable.get("valueFrom") is not None:
            yield from _value_from(variable["valueFrom"], variable.get("value") or "", f"{at}.valueFrom")


def _value_from(source: Object, value: str, path: str) -> Iterator[FieldError]:
    sources = [name for name in _SOURCES if source.get(name) is not None]
    for name in sources:
        yield from _SOURCES[name](source[name], f"{path}.{name}")
    why = ""
    if not sources:
        why = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
            "`fileKeyRef`"
        )
    elif value:
        why = "may not be specified when `value` is not empty"
    elif len(sources) > 1:
        why = "may not have more than one field specified at a time"
    if why:
        yield FieldError(path, "Invalid", "", why)


def field_reference(
    reference: Object, path: str, allowed: Sequence[str] = OF_ENVIRONMENT
) -> Iterator[FieldError]:
    told = str(reference.get("fieldPath") or "")
    at, version = f"{path}.fieldPath", reference.get("apiVersion") or "v1"
    bare, _, key = told.partition("[")
    if not told:
        yield FieldError(at, "Required")
    elif version != "v1":
        yield FieldError(
            at, "Invalid", told, f"error converting fieldPath: unsupported pod version: {version}"
        )
    elif bare in ("metadata.labels", "metadata.annotations") and told.endswith("']"):
        key = key[1:-2]
        yield from (
            FieldError(path, "Invalid", key, text)
            for text in qualified_name_errors(key.lower() if bare == "metadata.annotations" else key)
        )
    elif told not in CONVERTIBLE:
        why = f"error converting fieldPath: field label not supported: {told}"
        yield FieldError(at, "Invalid", told, why)
    elif told not in allowed:
        yield not_supported(at, told, sorted(allowed))


_AMOUNTS: Final = (
    *("limits.cpu", "limits.ephemeral-storage", "limits.memory"),
    *("requests.cpu", "requests.ephemeral-storage", "requests.memory"),
)


def resource_reference(reference: Object, path: str) -> Iterator[FieldError]:
    told = str(reference.get("resource") or "")
    if not told:
        yield FieldError(f"{path}.resource", "Required")
    elif told not in _AMOUNTS and not told.startswith(("limits.hugepages-", "requests.hugepages-")):
        yield not_supported(f"{path}.resource", told, _AMOUNTS)


def _key_reference(reference: Object, path: str) -> Iterator[FieldError]:
    name, key = reference.get("name") or "", reference.get("key") or ""
    yield from (FieldError(f"{path}.name", "Invalid", name, text) for text in subdomain_errors(name))
    if not key:
        yield FieldError(f"{path}.key", "Required")
    yield from (
        FieldError(f"{path}.key", "Invalid", key, text) for text in (config_key_errors(key) if key else ())
    )


_SOURCES: Final[Mapping[str, Callable[[Object, str], Iterator[FieldError]]]] = {
    "fieldRef": field_reference,
    "resourceFieldRef": resource_reference,
    "configMapKeyRef": _key_reference,
    "secretKeyRef": _key_reference,
    "fileKeyRef": lambda reference, path: iter(()),
}


def _env_from(sources: Sequence[Object], path: str) -> Iterator[FieldError]:
    for i, source in enumerate(sources):
        if source.get("prefix"):
            yield from _variable_name(source["prefix"], f"{path}[{i}].prefix")
        named = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in named:
            at, told = f"{path}[{i}].{name}.name", source[name].get("name") or ""
            if not told:
                yield FieldError(at, "Required")
            else:
                yield from (FieldError(at, "Invalid", told, text) for text in subdomain_errors(told))
        if not named:
            yield FieldError(path, "Invalid", "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(named) > 1:
            yield FieldError(path, "Invalid", "", "may not have more than one field specified at a time")


# --- mounts ---


def _mounts(container: Object, path: str, volumes: frozenset[str]) -> Iterator[FieldError]:
    """Some errors name no index, as really."""
    mounted: set[str] = set()
    for i, mount in enumerate(container.get("volumeMounts") or []):
        at, name, place = f"{path}[{i}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield FieldError(f"{at}.name", "Required")
        if name not in volumes:
            yield FieldError(f"{at}.name", "NotFound", name)
        if not place:
            yield FieldError(f"{at}.mountPath", "Required")
        if place in mounted:
            yield FieldError(f"{at}.mountPath", "Invalid", place, "must be unique")
        mounted.add(place)
        yield from _paths_below(mount, at, path)
        yield from _propagation(mount, container, path)


def _paths_below(mount: Object, at: str, path: str) -> Iterator[FieldError]:
    plain, pattern = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    yield from relative_path(plain, f"{path}.subPath")
    if pattern and plain:
        why = "subPathExpr and subPath are mutually exclusive"
        yield FieldError(f"{at}.subPathExpr", "Invalid", pattern, why)
    yield from relative_path(pattern, f"{path}.subPathExpr")


def _propagation(mount: Object, container: Object, path: str) -> Iterator[FieldError]:
    yield from one_of(mount, "mountPropagation", path, ("Bidirectional", "HostToContainer", "None"))
    way = mount.get("mountPropagation") or "None"
    if way == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        why = "Bidirectional mount propagation is available only to privileged containers"
        yield FieldError(f"{path}.mountPropagation", "Forbidden", detail=why)
    at = f"{path}.recursiveReadOnly"
    yield from one_of(mount, "recursiveReadOnly", path, ("Disabled", "Enabled", "IfPossible"))
    if mount.get("recursiveReadOnly") in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield FieldError(at, "Forbidden", detail="may only be specified when readOnly is true")
        if way != "None":
            why = "may only be specified when mountPropagation is None or not specified"
            yield FieldError(at, "Forbidden", detail=why)
