"""Why a pod may not go to a node: taints, selectors, affinity, and what is left of a resource.

Pure, on plain objects. The rules are the scheduler's and the DaemonSet controller's; only hard ones count.

Source: kubernetes, component-helpers/scheduling/corev1 (nodeaffinity); for taints see kube/taints.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuready.kube import taints
from gpuready.kube.quantity import find_whole

Object = Mapping[str, Any]
# Of one node, by resource: ("namespace/name" of a pod, how many it holds).
Holders = dict[str, list[tuple[str, int]]]


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def labels_of(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def is_cordoned(node: Object) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


# --- taints -----------------------------------------------------------------------------------------------


def taints_against(node: Object, tolerations: Sequence[Object]) -> list[str]:
    """Taints of the node that keep a pod with these tolerations away, as "key=value:Effect"."""
    return taints.taints_against(_taints_of(node), tolerations)


def taints_against_daemonset(node: Object, daemonset: Object) -> list[str]:
    return taints.taints_against_daemonset(_taints_of(node), daemonset)


def _taints_of(node: Object) -> Sequence[Object]:
    return (node.get("spec") or {}).get("taints") or ()


# --- selectors --------------------------------------------------------------------------------------------


def unmatched_selector(node: Object, spec: Object) -> list[str]:
    """Parts of nodeSelector and required node affinity that the node does not meet, as text."""
    labels = labels_of(node)
    wanted = (spec.get("nodeSelector") or {}).items()
    missing = [f"{key}={value}" for key, value in wanted if labels.get(key) != value]
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = (affinity or {}).get("nodeSelectorTerms") or ()
    if terms and not any(_term_matches(term, labels, name_of(node)) for term in terms):
        missing.append("node affinity " + " or ".join(_term_text(term) for term in terms))
    return missing


def selected_by(spec: Object) -> tuple[set[str], bool]:
    """The labels that nodeSelector and required node affinity look at, and whether they name nodes."""
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = (affinity or {}).get("nodeSelectorTerms") or ()
    rows = [row for term in terms for row in term.get("matchExpressions") or ()]
    keys = {*(spec.get("nodeSelector") or ()), *(str(row.get("key")) for row in rows)}
    return keys, any(term.get("matchFields") for term in terms)


def _term_matches(term: Object, labels: Mapping[str, str], name: str) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    by_name = {"metadata.name": name}
    return all(_holds(row, labels) for row in expressions) and all(_holds(row, by_name) for row in fields)


def _holds(row: Object, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(str(row.get("key"))), row.get("values") or ()
    match row.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, values)
    return False


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    try:
        left, right = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


def _term_text(term: Object) -> str:
    rows = [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())]
    return ", ".join(_expression_text(row) for row in rows)


def _expression_text(row: Object) -> str:
    values = ",".join(row.get("values") or ())
    return f"{row.get('key')} {row.get('operator')} {values}".strip()


# --- resources --------------------------------------------------------------------------------------------


def requested(pod: Object, prefix: str = "nvidia.com/") -> dict[str, int]:
    """Extended resources of a pod as the scheduler counts them: a sidecar counts beside the containers, and
    beside each init container after it.

    Source: kubernetes, component-helpers/resource/helpers.go, PodRequests.
    """
    spec = pod.get("spec") or {}
    sidecars: dict[str, int] = {}
    start: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        now = _sum((sidecars, _amounts(container, prefix)))
        start = {name: max(start.get(name, 0), now.get(name, 0)) for name in start | now}
        if container.get("restartPolicy") == "Always":
            sidecars = now
    total = _sum((sidecars, *(_amounts(container, prefix) for container in spec.get("containers") or ())))
    return {name: max(total.get(name, 0), start.get(name, 0)) for name in total | start}


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


def _amounts(container: Object, prefix: str) -> dict[str, int]:
    resources = container.get("resources") or {}
    rows = (resources.get("limits") or resources.get("requests") or {}).items()
    return {name: _number(value) for name, value in rows if name.startswith(prefix)}


def allocatable(node: Object, prefix: str = "nvidia.com/") -> dict[str, int]:
    """Every resource under `prefix` of which something may be scheduled."""
    return quantities(node, "allocatable", prefix)


def quantities(node: Object, part: str, prefix: str = "nvidia.com/") -> dict[str, int]:
    """`part` is capacity or allocatable; what is 0 there is left out."""
    shown = (node.get("status") or {}).get(part) or {}
    found = {name: _number(value) for name, value in shown.items() if name.startswith(prefix)}
    return {name: count for name, count in found.items() if count}


def _number(value: Any) -> int:
    """A whole number of devices; 0 for what is none."""
    return find_whole(value) or 0


def holders_by_node(pods: Iterable[Object]) -> dict[str, Holders]:
    """Who holds what on each node, the most first; each pod is looked at once."""
    found: dict[str, Holders] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if not node or is_finished(pod):
            continue
        for resource, count in requested(pod).items():
            if count:
                row = (f"{pod['metadata'].get('namespace')}/{name_of(pod)}", count)
                found.setdefault(node, {}).setdefault(resource, []).append(row)
    for by_resource in found.values():
        for rows in by_resource.values():
            rows.sort(key=lambda row: (-row[1], row[0]))
    return found


def is_finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
