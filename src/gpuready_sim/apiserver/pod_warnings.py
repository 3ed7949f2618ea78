"""What is taken of pods and of the templates of pods, but not without a word. Pure.

Of volumes only the kind is looked at, not whether paths within them overlap; nor how addresses are written.

Source: kubernetes, pkg/api/{pod/warnings,node/util}.go, pkg/registry/{core,apps,batch}/*/strategy.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from gpuready_sim.apiserver.go_values import quoted
from gpuready_sim.apiserver.names import label_errors
from gpuready_sim.apiserver.quantity import canonical_quantity, is_quantity, parse_quantity

Object = dict[str, Any]

# Where a kind has its template, and whether pods bear its name.
_TEMPLATES: Final = {
    ("apps", "DaemonSet"): (("spec", "template"), False),
    ("apps", "Deployment"): (("spec", "template"), True),
    ("apps", "ReplicaSet"): (("spec", "template"), True),
    ("apps", "StatefulSet"): (("spec", "template"), False),
    ("batch", "CronJob"): (("spec", "jobTemplate", "spec", "template"), True),
    ("batch", "Job"): (("spec", "template"), True),
}
_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_SYSCTLS: Final = 'non-functional in v1.11+; use the "sysctls" field instead'
_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": _SYSCTLS,
    "security.alpha.kubernetes.io/unsafe-sysctls": _SYSCTLS,
}
_NULL_SELECTOR: Final = "a null labelSelector results in matching no pod"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def warnings_of(new: Object, old: Object | None) -> list[str]:
    """The texts of a write's Warning headers: of a pod when it is made, of a template whenever it changes."""
    kind = str(new.get("apiVersion", "")).rpartition("/")[0], str(new.get("kind", ""))
    if kind == ("", "Pod"):
        return [*_of_name(new, "the Pod's hostname"), *_of_pod(new, "")] if old is None else []
    if kind not in _TEMPLATES:
        return []
    path, is_named = _TEMPLATES[kind]
    template = _at(new, *path)
    if old is not None and _is_untouched(new, old, kind[1]):
        return []
    named = _of_name(new, "Pod names and hostnames") if old is None and is_named else []
    return [*named, *_of_pod(template, ".".join(path))]


def _is_untouched(new: Object, old: Object, kind: str) -> bool:
    if kind == "DaemonSet":  # which counts the generations of its template
        return bool(_at(new, "spec", "template") == _at(old, "spec", "template"))
    return bool(_at(new, "metadata").get("generation") == _at(old, "metadata").get("generation"))


def _of_name(obj: Object, what: str) -> Iterator[str]:
    if found := label_errors(_at(obj, "metadata").get("name") or ""):
        yield (
            f"metadata.name: this is used in {what}, which can result in surprising behavior; "
            f"a DNS label is recommended: [{' '.join(found)}]"
        )


def _of_pod(pod: Object, path: str) -> Iterator[str]:
    """
    path  of the template; "" for a pod itself
    """
    before = f"{path}." if path else ""
    spec, at = pod.get("spec") or {}, f"{before}spec"
    yield from _of_scheduling(spec, at)
    annotations = _at(pod, "metadata").get("annotations") or {}
    for name, text in _ANNOTATIONS.items():
        if name in annotations:
            yield f"{before}metadata.annotations[{name}]: {text}"
    for i, volume in enumerate(spec.get("volumes") or []):
        for kind, text in _VOLUMES.items():
            if volume.get(kind) is not None:
                yield f"{at}.volumes[{i}].{kind}: {text}"
    yield from _repeated(spec.get("hostAliases") or [], "ip", f"{at}.hostAliases")
    secrets = spec.get("imagePullSecrets") or []
    yield from _repeated(secrets, "name", f"{at}.imagePullSecrets")
    for i, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{at}.imagePullSecrets[{i}].name: invalid empty name ""'
    yield from _fractions(spec.get("overhead") or {}, f"{at}.overhead")
    containers = list(_containers(spec, at))
    for container, place in containers:
        yield from _of_container(container, place)
    yield from _of_ports(containers)
    yield from _of_port_names(containers)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{at}.terminationGracePeriodSeconds: {text}"
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _of_affinity(_at(spec, "affinity", kind), f"{at}.affinity.{kind}")


def _of_scheduling(spec: Object, path: str) -> Iterator[str]:
    for name in spec.get("nodeSelector") or {}:
        if name in _NODE_LABELS:
            yield f"{path}.nodeSelector[{name}]: {_NODE_LABELS[name]}"
    affinity, at = _at(spec, "affinity", "nodeAffinity"), f"{path}.affinity.nodeAffinity"
    for i, term in enumerate(_at(affinity, _REQUIRED).get("nodeSelectorTerms") or []):
        yield from _of_term(term, f"{at}.{_REQUIRED}.nodeSelectorTerms[{i}]")
    for i, weighted in enumerate(affinity.get(_PREFERRED) or []):
        yield from _of_term(weighted.get("preference") or {}, f"{at}.{_PREFERRED}[{i}].preference")
    for i, one in enumerate(spec.get("topologySpreadConstraints") or []):
        key, place = one.get("topologyKey") or "", f"{path}.topologySpreadConstraints[{i}]"
        if key in _NODE_LABELS:
            yield f"{place}.topologyKey: {key} is {_NODE_LABELS[key]}"
        if one.get("labelSelector") is None:
            yield f"{place}.labelSelector: {_NULL_SELECTOR}"


def _of_term(term: Object, path: str) -> Iterator[str]:
    for i, expression in enumerate(term.get("matchExpressions") or []):
        key = expression.get("key") or ""
        if key in _NODE_LABELS:
            yield f"{path}.matchExpressions[{i}].key: {key} is {_NODE_LABELS[key]}"


def _of_affinity(affinity: Object, path: str) -> Iterator[str]:
    for i, term in enumerate(affinity.get(_REQUIRED) or []):
        if term.get("labelSelector") is None:
            yield f"{path}.{_REQUIRED}[{i}].labelSelector: {_NULL_SELECTOR}"
    for i, weighted in enumerate(affinity.get(_PREFERRED) or []):
        if _at(weighted, "podAffinityTerm").get("labelSelector") is None:
            yield f"{path}.{_PREFERRED}[{i}].podAffinityTerm.labelSelector: {_NULL_SELECTOR}"


# --- containers ---


def _containers(spec: Object, path: str) -> Iterator[tuple[Object, str]]:
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(group) or []):
            yield container, f"{path}.{group}[{i}]"


def _of_container(container: Object, path: str) -> Iterator[str]:
    for name in ("memory", "ephemeral-storage"):
        for group in ("limits", "requests"):
            amounts = _at(container, "resources", group)
            yield from _fractions({name: amounts.get(name)}, f"{path}.resources.{group}")
    seen = set()
    for i, variable in enumerate(container.get("env") or []):
        name, value = variable.get("name") or "", variable.get("value") or ""
        own = f"$({name})"
        extends = variable.get("valueFrom") is None and own in value and value != own
        if name in seen and not extends:
            told = f"hides previous definition of {quoted(name)}, which may be dropped when using apply"
            yield f"{path}.env[{i}]: {told}"
        seen.add(name)


def _fractions(amounts: Object, path: str) -> Iterator[str]:
    """Bytes that are no whole ones."""
    for name in ("memory", "ephemeral-storage"):
        amount = amounts.get(name)
        if amount is not None and is_quantity(amount) and math.ceil(parse_quantity(amount) * 1000) % 1000:
            shown = quoted(canonical_quantity(amount))
            yield f"{path}[{name}]: fractional byte value {shown} is invalid, must be an integer"


def _of_ports(containers: list[tuple[Object, str]]) -> Iterator[str]:
    found: dict[tuple[Any, Any], list[tuple[Object, str]]] = {}
    for port, at in _ports(containers):
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{at}: hostIP set without hostPort: {_printed(port)}"
        others = found.setdefault((port.get("containerPort"), port.get("protocol")), [])
        for other, place in others:
            if clash := _clash(port, other):
                yield f"{at}: {clash} port definition with {place}"
        others.append((port, at))


def _clash(port: Object, other: Object) -> str:
    number, address = port.get("hostPort") or 0, port.get("hostIP") or ""
    others_number, others_address = other.get("hostPort") or 0, other.get("hostIP") or ""
    if (number, address) == (others_number, others_address):
        return "duplicate"
    if not (number and others_number):
        return "overlapping"
    if number == others_number and not (address and others_address):
        return "dangerously ambiguous"
    return ""


def _of_port_names(containers: list[tuple[Object, str]]) -> Iterator[str]:
    first: dict[str, str] = {}
    for port, at in _ports(containers):
        name = port.get("name")
        if name and (there := first.setdefault(name, at)) != at:
            told = f"duplicate port name {quoted(name)} with {there}"
            yield f"{at}: {told}, services and probes that select ports by name will use {there}"


def _ports(containers: list[tuple[Object, str]]) -> Iterator[tuple[Object, str]]:
    for container, path in containers:
        for i, port in enumerate(container.get("ports") or []):
            yield port, f"{path}.ports[{i}]"


def _printed(port: Object) -> str:
    """As Go prints its struct."""
    said = {"name": "", "hostPort": 0, "containerPort": 0, "protocol": "", "hostIP": ""} | port
    return "{" + " ".join(f"{name[0].upper()}{name[1:]}:{value}" for name, value in said.items()) + "}"


# --- shapes ---


def _repeated(items: list[Object], field: str, path: str) -> Iterator[str]:
    seen = set()
    for i, item in enumerate(items):
        value = item.get(field) or ""
        if value in seen:
            yield f"{path}[{i}].{field}: duplicate {field} {quoted(value)}"
        seen.add(value)


def _at(obj: Object, *path: str) -> Object:
    for name in path:
        obj = obj.get(name) or {}
    return obj
