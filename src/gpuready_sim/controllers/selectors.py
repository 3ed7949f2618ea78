"""Does a label selector or a node selector match? Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Labels = Mapping[str, str]


def matches_labels(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """A LabelSelector (matchLabels, matchExpressions). Absent matches nothing, empty everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(rule, labels) for rule in selector.get("matchExpressions") or []
    )


def matches_node(pod_spec: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """nodeSelector and the required node affinity of a pod."""
    labels = node["metadata"].get("labels") or {}
    selector = pod_spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    terms = required_terms(pod_spec)
    return terms is None or any(_term_matches(term, labels, node["metadata"]["name"]) for term in terms)


def required_terms(pod_spec: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """The node selector terms that must hold, None when there are none."""
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else list(required.get("nodeSelectorTerms") or [])


def pinned_node(pod_spec: Mapping[str, Any]) -> str | None:
    """The one node that matchFields metadata.name allows, as the DaemonSet controller writes it."""
    names: set[str] = set()
    for term in required_terms(pod_spec) or []:
        fields = [f for f in term.get("matchFields") or [] if f["key"] == "metadata.name"]
        if not fields or fields[0]["operator"] != "In":
            return None
        names.update(fields[0]["values"])
    return names.pop() if len(names) == 1 else None


def _term_matches(term: Mapping[str, Any], labels: Labels, name: str) -> bool:
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not expressions and not fields:
        return False  # an empty term selects nothing
    return all(_holds(rule, labels) for rule in expressions) and all(
        _holds(rule, {"metadata.name": name}) for rule in fields
    )


def _holds(rule: Mapping[str, Any], labels: Labels) -> bool:
    key, operator = rule["key"], rule["operator"]
    values = rule.get("values") or []
    match operator:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt":
            return key in labels and _compares(operator, labels[key], values)
    return False


def _compares(operator: str, have: str, values: list[str]) -> bool:
    try:
        left, right = int(have), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right
