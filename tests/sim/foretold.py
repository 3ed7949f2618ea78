"""What a plan speaks of, as it is in a cluster before and after, and the plan held against what happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.sim.operator_cluster import GPU_NODES, NAMESPACE, labels

from gpuready.controller.caches import OWNED_KINDS
from gpuready_sim.client import NAMESPACES, NODES, PODS, Resource
from gpuready_sim.cluster.handle import Cluster

Object = dict[str, Any]
# What every write changes, and what other programs write into our objects.
_NOT_OURS = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")
NOTHING: Object = {
    "objects": {"created": [], "changed": [], "pruned": []},
    "nodeLabels": [],
    "gpuNodes": [],
    "pods": {"starts": [], "stops": [], "restarts": [], "outdated": []},
}


@dataclass(frozen=True)
class Seen:
    """What a plan speaks of, as it is in the cluster."""

    objects: Mapping[tuple[str, str], Object] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    gpu_nodes: Mapping[str, Object] = field(default_factory=dict)
    pods: Mapping[tuple[str, str], str] = field(default_factory=dict)
    namespace: Mapping[str, str] = field(default_factory=dict)


async def look(cluster: Cluster) -> Seen:
    client = cluster.client
    objects = {}
    for kind in OWNED_KINDS:
        resource = Resource(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced)
        found, _ = await client.list(resource, None, label_selector="gpuready.dev/operand")
        objects.update({(kind.kind, obj["metadata"]["name"]): _what_we_say(obj) for obj in found})
    nodes, _ = await client.list(NODES)
    gpu_nodes, _ = await client.list(GPU_NODES)
    pods, _ = await client.list(PODS, NAMESPACE, label_selector="gpuready.dev/operand")
    return Seen(
        objects,
        {node["metadata"]["name"]: labels(node) for node in nodes},
        {obj["metadata"]["name"]: obj["spec"] for obj in gpu_nodes},
        {_place_of(pod): pod["metadata"]["uid"] for pod in pods},
        labels(await client.get(NAMESPACES, NAMESPACE)),
    )


def _place_of(pod: Object) -> tuple[str, str]:
    """(DaemonSet, node)"""
    return pod["metadata"]["ownerReferences"][0]["name"], str(pod["spec"].get("nodeName"))


def _what_we_say(obj: Object) -> Object:
    meta = {key: value for key, value in obj["metadata"].items() if key not in _NOT_OURS}
    notes = {
        key: value
        for key, value in (meta.get("annotations") or {}).items()
        if key not in ("gpuready.dev/digest", "deprecated.daemonset.template.generation")
    }
    return {**{k: v for k, v in obj.items() if k != "status"}, "metadata": {**meta, "annotations": notes}}


def expect_objects(planned: Object, before: Seen, after: Seen) -> None:
    def keys(fate: str) -> set[tuple[str, str]]:
        return {(row["kind"], row["name"]) for row in planned[fate]}

    same("created", keys("created"), after.objects.keys() - before.objects.keys())
    same("pruned", keys("pruned"), before.objects.keys() - after.objects.keys())
    both = before.objects.keys() & after.objects.keys()
    same("changed", keys("changed"), {key for key in both if before.objects[key] != after.objects[key]})
    for row in planned["changed"]:
        key = (row["kind"], row["name"])
        happened = _leaves(before.objects[key], after.objects[key])
        told = {each["path"] for each in row["fields"]}
        silent = [
            path
            for path in happened
            if not any(_is_below(path, each) for each in told) and not path.endswith(_FILLED_IN)
        ]
        same(f"fields of {key} that change and are not told", [], silent)
        vain = [each for each in told if not any(_is_below(path, each) for path in happened)]
        same(f"fields of {key} that are told and do not change", vain, [])


# What an API server fills in by itself when a Service becomes one of nodes' ports.
_FILLED_IN = ("externalTrafficPolicy", "nodePort")


def same(what: str, planned: Any, happened: Any) -> None:
    if isinstance(planned, set):
        planned, happened = sorted(planned - happened), sorted(happened - planned)
    assert planned == happened, f"{what}: planned {planned}, happened {happened}"


def _leaves(old: Any, new: Any, path: str = "") -> list[str]:
    """Paths of what differs; entries of a list by their name, as the plan spells them."""
    if isinstance(old, list) and isinstance(new, list):
        old, new = _by_name(old), _by_name(new)
        if old is None or new is None:
            return [path]
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in {*old, *new}:
            if old.get(key) != new.get(key):
                step = key if key.startswith("[") else f".{key}" if path else key
                found += _leaves(old.get(key), new.get(key), f"{path}{step}")
        return found
    return [path]


def _by_name(rows: list[Any]) -> Object | None:
    for key in ("mountPath", "name"):
        if all(isinstance(row, dict) and key in row for row in rows):
            return {f"[{key}={row[key]}]": row for row in rows}
    return None


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith((f"{top}.", f"{top}[")) or top.startswith((f"{path}.", f"{path}["))


def planned_labels(planned: Object) -> Object:
    found: Object = {}
    for row in planned["nodeLabels"]:
        found.setdefault(row["node"], {}).update(row["labels"])
    return found


def changes_of_labels(before: Seen, after: Seen) -> Object:
    found = {}
    for name, now in after.labels.items():
        was = before.labels[name]
        changed = {key: now.get(key) for key in {*was, *now} if was.get(key) != now.get(key)}
        if changed:
            found[name] = changed
    return found


def expect_gpu_nodes(planned: list[Object], before: Seen, after: Seen) -> None:
    every = before.gpu_nodes.keys() | after.gpu_nodes.keys()
    changed = {name for name in every if before.gpu_nodes.get(name) != after.gpu_nodes.get(name)}
    same("GPUNodes", {row["node"] for row in planned}, changed)
    for row in planned:
        for each in row["fields"]:
            steps = each["path"].split(".")[1:]
            old, new = (_value_at(seen.gpu_nodes.get(row["node"]), steps) for seen in (before, after))
            same(f"{row['node']} {each['path']}", (each["old"], each["new"]), (old, new))


def _value_at(value: Any, steps: list[str]) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def planned_pods(planned: Object) -> dict[str, set[tuple[str, str]]]:
    return {
        fate: {(row["daemonSet"], row["node"]) for row in planned["pods"][fate]}
        for fate in ("starts", "stops", "restarts")
    }


def changes_of_pods(before: Seen, after: Seen) -> dict[str, set[tuple[str, str]]]:
    both = before.pods.keys() & after.pods.keys()
    return {
        "starts": after.pods.keys() - before.pods.keys(),
        "stops": before.pods.keys() - after.pods.keys(),
        "restarts": {key for key in both if before.pods[key] != after.pods[key]},
    }
