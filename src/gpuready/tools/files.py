"""A ClusterPolicy and Nodes as people keep them in files. Pure; every refusal says what to give instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuready import names
from gpuready.errors import UsageError
from gpuready.given_files import name_of
from gpuready.shape import Shape, ShapeError, check
from gpuready.tools.shape import CONFIG_MAPS, NODES, POLICY_FILE
from gpuready.yaml_text import parse_yaml, parse_yaml_documents

Object = dict[str, Any]


def policy_in(text: str) -> Object:
    """The one ClusterPolicy among whatever else stands there: other documents, the items of a List.

    One without a name gets the one that the chart gives.
    raises  UsageError for a text that holds none or several
    """
    objects = list(_objects_in(text))
    policies = [each for each in objects if _type_of(each) == _POLICY]
    if not policies:
        raise _no_policy(objects, name_of(text, "the file"))
    if len(policies) > 1:
        raise UsageError(
            f"{name_of(text, 'the file')} holds {len(policies)} ClusterPolicies",
            why="a cluster follows one",
            next_step="give a file with one of them",
        )
    raw: Object = policies[0]
    metadata = raw.get("metadata")
    if metadata is None or isinstance(metadata, dict):
        metadata = {"name": "cluster-policy", **(metadata or {})}
    policy = {**raw, "metadata": metadata}
    _expect(policy, POLICY_FILE, _in("the policy", text))
    return policy


@dataclass(frozen=True)
class Beside:
    """What a file holds beside its policy, and is applied with it.

    configmaps   by name
    existing     kind -> names, of what pods may refer to
    """

    configmaps: Mapping[str, Object]
    existing: Mapping[str, frozenset[str]]


def beside_in(text: str, namespace: str) -> Beside:
    """Objects of the operator's namespace, or that leave theirs to whoever applies them.

    raises  UsageError for a ConfigMap that no API server would take
    """
    found = [
        each
        for each in _objects_in(text)
        if isinstance(each, dict) and _kind(each, "") and _is_in(each, namespace)
    ]
    configmaps = [each for each in found if _type_of(each) == "v1 ConfigMap"]
    _expect(configmaps, CONFIG_MAPS, _in("a ConfigMap beside the policy", text))
    kinds = {"ConfigMap": "v1", "Secret": "v1", "PriorityClass": "scheduling.k8s.io/v1"}
    existing = {
        kind: frozenset(each["metadata"]["name"] for each in found if _type_of(each) == f"{group} {kind}")
        for kind, group in kinds.items()
    }
    return Beside({each["metadata"]["name"]: each for each in configmaps}, existing)


def _in(what: str, text: str) -> str:
    name = name_of(text, "")
    return f"{what} in {name}" if name else what


def _is_in(obj: Mapping[str, Any], namespace: str) -> bool:
    return (obj["metadata"].get("namespace") or namespace) == namespace


_POLICY = f"{names.CLUSTER_POLICY_API} {names.CLUSTER_POLICY_KIND}"


def _objects_in(text: str) -> Iterator[Any]:
    for document in parse_yaml_documents(str(text), source=name_of(text, "the policy")):
        items = document.get("items") if isinstance(document, Mapping) else None
        yield from items if isinstance(items, list) else [document]


def _no_policy(objects: Sequence[Any], file: str) -> UsageError:
    types = ", ".join(filter(None, dict.fromkeys(map(_type_of, objects))))
    if types:
        return UsageError(
            f"{file} holds {types}, not {_POLICY}", next_step="give the file of a ClusterPolicy"
        )
    return UsageError(
        f"{file} holds no {_POLICY}",
        why="nothing in it says apiVersion and kind" if objects else "it is empty",
        next_step="give the file of a ClusterPolicy; of a chart's values, helm template makes one",
    )


def _type_of(obj: object) -> str:
    """ "v1 Pod"; empty for what does not say what it is."""
    if not isinstance(obj, Mapping):
        return "a list" if isinstance(obj, list) else "a bare value"
    if not (obj.get("apiVersion") and obj.get("kind")):
        return ""
    return f"{obj['apiVersion']} {obj['kind']}"


def nodes_in(text: str) -> list[Object]:
    """The Nodes of a NodeList or of a plain list, or the one Node; none in an empty text.

    raises  UsageError for a text that is something else
    """
    if not text.strip():
        return []
    loaded = parse_yaml(str(text), source=name_of(text, "the nodes"))
    file = f"{name_of(text, 'the file')} given with --nodes"
    items = loaded.get("items") if isinstance(loaded, dict) else loaded
    if isinstance(loaded, dict) and _kind(loaded) == "Node":
        items = [loaded]
    if not isinstance(items, list) or any(_kind(item) != "Node" for item in items):
        raise UsageError(f"{file} holds no list of Nodes", next_step=_AS_KUBECTL)
    _expect(items, NODES, file, next_step=_AS_KUBECTL)
    return items


_AS_KUBECTL = "make it with: kubectl get nodes -o yaml > nodes.yaml"


def _kind(item: object, default: str = "Node") -> str:
    if not isinstance(item, Mapping) or not isinstance(item.get("metadata"), Mapping):
        return ""
    return str(item.get("kind", default)) if item["metadata"].get("name") else ""


def _expect(value: Any, shape: Shape, what: str, *, next_step: str = "correct it there") -> None:
    try:
        check(value, shape)
    except ShapeError as exc:
        raise UsageError(f"{what} is not as the API has it", why=str(exc), next_step=next_step) from exc
