"""What a client learns about the server: versions, groups, resources, OpenAPI.

Answers are made once and kept until the set of resources changes.
"""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Callable
from typing import Final

from gpuready_sim.apiserver import health, openapi, protobuf, schemas
from gpuready_sim.apiserver.failures import Obj, not_acceptable, nothing_acceptable
from gpuready_sim.apiserver.negotiation import YAML, media_ranges, to_yaml
from gpuready_sim.apiserver.registry import ACTION_KINDS, Registry, ResourceType
from gpuready_sim.apiserver.requests import JSON, Reply, Request
from gpuready_sim.apiserver.store import encode

VERSION = "v1.36.3"
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
        "minCompatibilityMinor": str(int(minor) - 1),
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
            case [""]:
                return Reply(200, encode({"paths": self._paths()}))
            case ["version"]:
                return _formed(Reply(200, encode(version_info())), request, (JSON,))
            case ["api"] | ["apis"]:
                return self._groups(request, parts[0])
            case ["api", "v1"]:
                return _formed(self._resources("", "v1", request.path), request)
            case ["apis", group]:
                return _formed(self._group(group), request)
            case ["apis", group, version]:
                return _formed(self._resources(group, version, request.path), request)
            case ["openapi", *rest]:
                return self._described(request, rest)
            case _:
                return None

    def _described(self, request: Request, parts: list[str]) -> Reply | None:
        match parts:
            case ["v2"]:
                return self._openapi_v2(request)
            case ["v3"] if request.path.endswith("v3"):
                return self._kept("openapi", self._openapi_index)
            case ["v3", "api", version]:
                return self._openapi("", version, request) or Reply(404, b"")
            case ["v3", "apis", group, version]:
                return self._openapi(group, version, request) or Reply(404, b"")
            case ["v3", *_]:
                return Reply(404, b"")
            case _:
                return None

    def _paths(self) -> list[str]:
        """What a client that knows nothing can begin with."""
        found = [
            "/api",
            "/api/v1",
            "/apis",
            "/apis/",
            "/openapi/v2",
            "/openapi/v3",
            "/openapi/v3/",
            "/version",
        ]
        for group, versions in self._registry.groups().items():
            if group:
                found += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)]
        return sorted([*found, *health.paths()])

    def _kept(self, key: str, make: Callable[[], Obj]) -> Reply:
        """The answer for a key, made anew after the resources changed."""
        generation, body = self._cache.get(key, (-1, b""))
        if generation != self._registry.generation:
            body = encode(make())
            self._cache[key] = (self._registry.generation, body)
        return Reply(200, body)

    # --- groups and resources ---

    def _groups(self, request: Request, root: str) -> Reply | None:
        for media, parameters in media_ranges(request.headers.get("accept", "")):
            asked = (parameters.get("g"), parameters.get("v"), parameters.get("as"))
            if asked == ("apidiscovery.k8s.io", "v2", _AGGREGATED_LIST) and media == JSON:
                reply = self._kept(f"{root} aggregated", lambda: self._aggregated(root))
                reply.content_type = f"{JSON};g=apidiscovery.k8s.io;v=v2;as={_AGGREGATED_LIST}"
                headers = [("Vary", "Accept"), ("Cache-Control", "public")]
                return _tagged(reply, hashlib.sha512(reply.body).hexdigest().upper(), request, headers)
        if root == "apis":
            return _formed(self._kept("groups", self._group_list), request)
        address = {"clientCIDR": "0.0.0.0/0", "serverAddress": request.headers.get("host", "")}
        versions = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}
        return _formed(Reply(200, encode(versions)), request)

    def _aggregated(self, root: str) -> Obj:
        groups = self._registry.groups()
        names = [""] if root == "api" else sorted((group for group in groups if group), key=_group_rank)
        items = [
            {
                "metadata": {"name": group} if group else {},
                "versions": [self._aggregated_version(group, one) for one in groups[group]],
            }
            for group in names
        ]
        head = {"kind": _AGGREGATED_LIST, "apiVersion": "apidiscovery.k8s.io/v2"}
        return head | {"metadata": {}, "items": items}

    def _aggregated_version(self, group: str, version: str) -> Obj:
        resources = self._registry.of_group_version(group, version)
        return {
            "version": version,
            "resources": [_aggregated_resource(r) for r in resources],
            "freshness": "Current",
        }

    def _group_list(self) -> Obj:
        groups = self._registry.groups()
        # Custom groups by the names of the objects behind them: that of the version, then that of the group.
        names = sorted(filter(None, groups), key=lambda group: _group_rank(group, groups[group][0]))
        items = [_group_entry(group, groups[group]) for group in names]
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
        return hashlib.sha512(text.encode()).hexdigest().upper()

    def _openapi(self, group: str, version: str, request: Request) -> Reply | None:
        resources = self._registry.of_group_version(group, version)
        if not resources:
            return None
        if not _takes_json(request):
            return Reply(406, b"", headers=[("Vary", "Accept")])
        digest, asked = self._digest(group, version), request.query.get("hash")
        if asked and asked != digest:
            return Reply(301, b"", headers=[("Location", f"{request.path}?hash={digest}")])
        reply = self._kept(f"openapi {group}/{version}", lambda: _document(group, version, resources))
        headers = [("Vary", "Accept")] + ([("Cache-Control", "public, immutable")] if asked else [])
        return _tagged(reply, digest, request, headers)

    def _openapi_v2(self, request: Request) -> Reply:
        """A valid document without paths: clients of today read version 3, and come here when that fails."""
        for media, _ in media_ranges(request.headers.get("accept", "") or JSON):
            if media == openapi.V2_PROTOBUF:
                return Reply(200, openapi.empty_v2_as_protobuf(VERSION), openapi.V2_ANSWERED)
            if media in (JSON, "*/*", "application/*"):
                break
        if not _takes_json(request):
            return Reply(406, b"")
        info = {"title": "Kubernetes", "version": VERSION}
        return Reply(200, encode({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}))


def _takes_json(request: Request) -> bool:
    ranges = media_ranges(request.headers.get("accept", "") or "*/*")
    return any(media in (JSON, "*/*", "application/*", YAML) for media, _ in ranges)


def _formed(reply: Reply | None, request: Request, offered: tuple[str, ...] = (JSON, YAML)) -> Reply | None:
    """An answer as JSON or YAML.

    raises  Failure 406 for a client that takes neither
    """
    if reply is None:
        return None
    asked = False
    for media, parameters in media_ranges(request.headers.get("accept", "") or "*/*"):
        if media in ("*/*", "application/*", JSON):
            if "as" not in parameters:
                return reply
            asked = True
        if media == YAML and YAML in offered:
            return Reply(reply.code, to_yaml(reply.body), YAML, list(reply.headers))
    if YAML not in offered:
        raise nothing_acceptable(offered)
    refused = not_acceptable if request.path.startswith("/apis") or asked else nothing_acceptable
    raise refused([*offered, protobuf.MEDIA_TYPE])


def _tagged(reply: Reply, tag: str, request: Request, headers: list[tuple[str, str]]) -> Reply:
    """With its tag; without its body for a client that has it."""
    quoted = f'"{tag}"'
    headers = [("ETag", quoted), *headers]
    if request.headers.get("if-none-match") == quoted:
        return Reply(304, b"", reply.content_type, headers)
    reply.headers = headers
    return reply


# Built-in groups in the order of the real server's priorities; custom ones come after them.
# Source: kubernetes, pkg/controlplane/apiserver/aggregator.go.
_GROUPS: Final = (
    *("apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch"),
    *("certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io"),
    *("admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io"),
    *("node.k8s.io", "discovery.k8s.io", "resource.k8s.io"),
)


def _group_rank(group: str, version: str = "") -> tuple[int, str, str]:
    if group in _GROUPS:
        return _GROUPS.index(group), "", ""
    return len(_GROUPS), version, group


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
        # Those of custom resources come with the status first.
        names = sorted(resource.subresources, reverse=resource.custom is not None)
        found += [_subresource_entry(resource, name) for name in names]
    if not group:
        return {"kind": "APIResourceList", "groupVersion": version, "resources": found}
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{version}"}
    return head | {"resources": found}


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
        entry["storageVersionHash"] = _storage_hash(resource)
    return entry


def _storage_hash(resource: ResourceType) -> str:
    """
    Source: kubernetes, apiserver/pkg/endpoints/discovery/storageversionhash.go.
    """
    group, version = resource.storage
    if resource.qualified == "customresourcedefinitions.apiextensions.k8s.io":
        version = "v1beta1"  # in which the real one still keeps them
    digest = hashlib.sha256(f"{group}/{version}/{resource.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


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
        "responseKind": _response_kind(resource, (resource.group, resource.version, resource.kind)),
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
            _aggregated_subresource(resource, name)
            for name in sorted(resource.subresources, reverse=resource.custom is not None)
        ]
    return entry


def _aggregated_subresource(resource: ResourceType, name: str) -> Obj:
    return {
        "subresource": name,
        "responseKind": _response_kind(resource, _subresource_kind(resource, name)),
        "verbs": _subresource_verbs(name),
    }


def _response_kind(resource: ResourceType, kind: tuple[str, str, str]) -> Obj:
    """Built-in kinds of the group and version in which they are told do not name them again."""
    group, version, name = kind
    if resource.custom is None and (group, version) == (resource.group, resource.version):
        group = version = ""
    return {"group": group, "version": version, "kind": name}


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
