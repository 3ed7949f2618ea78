"""Of what a server tells of itself, that which the embedded one serves: all else may be absent there."""

from __future__ import annotations

from typing import Any

from gpuready_sim.apiserver.registry import Registry

SERVED = Registry.with_builtins()
KINDS = {(group, version, plural): one for (group, version, plural), one in SERVED.resources.items()}
GROUPS = {group for group, _, _ in KINDS} | {"nvidia.com", "gpuready.dev"}


def only(body: Any) -> Any:
    """A list of groups, of resources, of paths, or the aggregated list, without the others."""
    kind = body.get("kind")
    if kind == "APIGroupList":
        return body | {"groups": [one for one in body["groups"] if one["name"] in GROUPS and _is_whole(one)]}
    if kind == "APIResourceList":
        group, _, version = body["groupVersion"].rpartition("/")
        found = [one for one in body["resources"] if _is_served(group, version, *_parts(one["name"]))]
        return body | {"resources": found}
    if kind == "APIGroupDiscoveryList":
        return body | {"items": [_group(one) for one in body["items"] if _name(one) in GROUPS]}
    return body


def _is_whole(group: dict[str, Any]) -> bool:
    """Of other groups the embedded server has not all versions."""
    return group["name"] != "autoscaling"


def _parts(name: str) -> tuple[str, str]:
    plural, _, subresource = name.partition("/")
    return plural, subresource


def _is_served(group: str, version: str, plural: str, subresource: str = "") -> bool:
    resource = KINDS.get((group, version, plural))
    if resource is None:
        return group not in {one for one, _, _ in KINDS}
    return not subresource or subresource in resource.subresources


def _name(group: dict[str, Any]) -> str:
    name: str = group["metadata"].get("name", "")
    return name


def _group(group: dict[str, Any]) -> dict[str, Any]:
    return group | {"versions": [_version(_name(group), one) for one in group["versions"]]}


def _version(group: str, version: dict[str, Any]) -> dict[str, Any]:
    found = []
    for one in version["resources"]:
        if not _is_served(group, version["version"], one["resource"]):
            continue
        parts = [
            part
            for part in one.get("subresources", ())
            if _is_served(group, version["version"], one["resource"], part["subresource"])
        ]
        found.append({**one, "subresources": parts} if "subresources" in one else one)
    return version | {"resources": found}
