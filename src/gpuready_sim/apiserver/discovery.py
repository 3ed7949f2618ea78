"""What a client learns about the server: versions, groups, resources, OpenAPI.

Answers are made once and kept until the set of resources changes.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable

from gpuready_sim.apiserver import openapi, schemas
from gpuready_sim.apiserver.failures import Obj, not_acceptable
from gpuready_sim.apiserver.negotiation import YAML, media_ranges
from gpuready_sim.apiserver.registry import ACTION_KINDS, Registry, ResourceType
from gpuready_sim.apiserver.requests import JSON, Reply, Request
from gpuready_sim.apiserver.store import encode

VERSION = "v1.36.1"
_AGGREGATED = ("v2", "v2beta1")
_AGGREGATED_LIST = "APIGroupDiscoveryList"


def version_info() -> Obj:
    major, minor, _ = VERSION.removeprefix("v").split(".")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": minor,
        "gitVersion": VERSION,
        "gitCommit": "gpuready-sim",
        "gitTreeState": "clean",
        "buildDate": "2026-06-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "cpython",
        "platform": f"linux/{machine}",
    }


class Discovery:
    """Answers /version, /api, /apis and /openapi."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._cache: dict[str, tuple[int, bytes]] = {}

    def answer(self, request: Request) -> Reply | None:
        """None for a path that is none of ours."""
        parts = request.path.strip("/").split("/")
        match parts:
            case ["version"]:
                return Reply(200, encode(version_info()))
            case ["api"] | ["apis"]:
                return self._groups(request, parts[0])
            case ["api", "v1"]:
                return self._resources("", "v1", request.path)
            case ["apis", group]:
                return self._group(group)
            case ["apis", group, version]:
                return self._resources(group, version, request.path)
            case ["openapi", "v2"]:
                return self._openapi_v2(request)
            case ["openapi", "v3"]:
                return self._kept("openapi", self._openapi_index)
            case ["openapi", "v3", "api", version]:
                return self._openapi("", version, request)
            case ["openapi", "v3", "apis", group, version]:
                return self._openapi(group, version, request)
            case _:
                return None

    def _kept(self, key: str, make: Callable[[], Obj]) -> Reply:
        """The answer for a key, made anew after the resources changed."""
        generation, body = self._cache.get(key, (-1, b""))
        if generation != self._registry.generation:
            body = encode(make())
            self._cache[key] = (self._registry.generation, body)
        return Reply(200, body)

    # --- groups and resources ---

    def _groups(self, request: Request, root: str) -> Reply:
        for media, parameters in media_ranges(request.headers.get("accept", "")):
            version = parameters.get("v", "")
            if parameters.get("as") == _AGGREGATED_LIST and version in _AGGREGATED and media == JSON:
                reply = self._kept(f"{root} {version}", lambda: self._aggregated(root, version))  # noqa: B023
                reply.content_type = f"{JSON};g=apidiscovery.k8s.io;v={version};as={_AGGREGATED_LIST}"
                return reply
        if root == "api":
            return Reply(
                200, encode({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
            )
        return self._kept("groups", self._group_list)

    def _aggregated(self, root: str, version: str) -> Obj:
        groups = self._registry.groups()
        names = [""] if root == "api" else sorted(group for group in groups if group)
        items = [
            {
                "metadata": {"name": group, "creationTimestamp": None}
                if group
                else {"creationTimestamp": None},
                "versions": [self._aggregated_version(group, one) for one in groups[group]],
            }
            for group in names
        ]
        api_version = f"apidiscovery.k8s.io/{version}"
        return {"kind": _AGGREGATED_LIST, "apiVersion": api_version, "metadata": {}, "items": items}

    def _aggregated_version(self, group: str, version: str) -> Obj:
        resources = self._registry.of_group_version(group, version)
        return {
            "version": version,
            "resources": [_aggregated_resource(r) for r in resources],
            "freshness": "Current",
        }

    def _group_list(self) -> Obj:
        groups = self._registry.groups()
        items = [_group_entry(group, groups[group]) for group in sorted(groups) if group]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": items}

    def _group(self, group: str) -> Reply | None:
        versions = self._registry.groups().get(group)
        if not versions:
            return None
        return Reply(200, encode({"kind": "APIGroup", "apiVersion": "v1"} | _group_entry(group, versions)))

    def _resources(self, group: str, version: str, path: str) -> Reply | None:
        resources = self._registry.of_group_version(group, version)
        if not resources:
            return None
        return self._kept(path.rstrip("/"), lambda: _resource_list(group, version, resources))

    # --- OpenAPI ---

    def _openapi_index(self) -> Obj:
        paths = {}
        for group, versions in self._registry.groups().items():
            for version in versions:
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                digest = self._digest(group, version)
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}

    def _digest(self, group: str, version: str) -> str:
        """Changes whenever the document may have changed; cheaper than making all documents."""
        text = VERSION + group + version
        for resource in self._registry.of_group_version(group, version):
            if resource.crd is not None:
                text += resource.crd["metadata"]["uid"] + str(resource.crd["metadata"].get("generation"))
        return hashlib.sha256(text.encode()).hexdigest().upper()

    def _openapi(self, group: str, version: str, request: Request) -> Reply | None:
        resources = self._registry.of_group_version(group, version)
        if not resources:
            return None
        _require_json(request)
        reply = self._kept(f"openapi {group}/{version}", lambda: _document(group, version, resources))
        reply.headers = [("ETag", f'"{self._digest(group, version)}"'), ("Vary", "Accept")]
        if request.query.get("hash"):
            reply.headers.append(("Cache-Control", "public, immutable"))
        return reply

    def _openapi_v2(self, request: Request) -> Reply:
        """A valid document without paths: clients of today read version 3, and come here when that fails."""
        for media, _ in media_ranges(request.headers.get("accept", "") or JSON):
            if media == openapi.V2_PROTOBUF:
                return Reply(200, openapi.empty_v2_as_protobuf(VERSION), openapi.V2_ANSWERED)
            if media in (JSON, "*/*", "application/*"):
                break
        _require_json(request)
        info = {"title": "Kubernetes", "version": VERSION}
        return Reply(200, encode({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}))


def _require_json(request: Request) -> None:
    """
    raises  Failure 406 for clients that want the binary form only
    """
    ranges = media_ranges(request.headers.get("accept", "") or "*/*")
    if not any(media in (JSON, "*/*", "application/*", YAML) for media, _ in ranges):
        raise not_acceptable([JSON])


def _document(group: str, version: str, resources: list[ResourceType]) -> Obj:
    custom = [schemas.openapi_v3_of_crd(r.crd, version) for r in resources if r.crd is not None]
    if not custom:
        return schemas.openapi_v3(group, version)
    return openapi.merged(custom)


def _group_entry(group: str, versions: list[str]) -> Obj:
    entries = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def _resource_list(group: str, version: str, resources: list[ResourceType]) -> Obj:
    found: list[Obj] = []
    for resource in resources:
        found.append(_resource_entry(resource))
        found += [_subresource_entry(resource, name) for name in sorted(resource.subresources)]
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": found}


def _resource_entry(resource: ResourceType) -> Obj:
    entry: Obj = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if not resource.is_question:
        digest = hashlib.sha256(f"{resource.storage_version}/{resource.kind}".encode()).hexdigest()
        entry["storageVersionHash"] = digest[:11] + "="
    return entry


def _subresource_entry(resource: ResourceType, name: str) -> Obj:
    group, version, kind = _subresource_kind(resource, name)
    entry: Obj = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": _subresource_verbs(name),
    }
    if (group, version) != (resource.group, resource.version):
        entry |= {"group": group, "version": version}
    return entry


def _aggregated_resource(resource: ResourceType) -> Obj:
    entry: Obj = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            _aggregated_subresource(resource, name) for name in sorted(resource.subresources)
        ]
    return entry


def _aggregated_subresource(resource: ResourceType, name: str) -> Obj:
    group, version, kind = _subresource_kind(resource, name)
    return {
        "subresource": name,
        "responseKind": {"group": group, "version": version, "kind": kind},
        "verbs": _subresource_verbs(name),
    }


def _subresource_kind(resource: ResourceType, name: str) -> tuple[str, str, str]:
    if name in ("exec", "proxy"):
        return "", "v1", f"{resource.kind}{name.capitalize()}Options"
    return ACTION_KINDS.get(name, (resource.group, resource.version, resource.kind))


def _subresource_verbs(name: str) -> list[str]:
    match name:
        case "status" | "scale":
            return ["get", "patch", "update"]
        case "exec":
            return ["create", "get"]
        case "log":
            return ["get"]
        case "finalize":
            return ["update"]
        case "proxy":
            return ["create", "delete", "get", "patch", "update"]
        case _:
            return ["create"]
