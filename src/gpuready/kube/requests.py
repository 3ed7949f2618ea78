"""What a request is called: verb and resource as in RBAC and in the API server's audit log. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

# (verb, resource, code): told once for every request that was sent; "unreachable" where no answer came.
Observer = Callable[[str, str, str], None]
UNREACHABLE = "unreachable"
NO_RESOURCE = "other"  # /version, /healthz: paths that name no resource

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


def name_of(method: str, path: str, params: Mapping[str, str] | None = None) -> tuple[str, str]:
    """(verb, resource): ("patch", "nodes/status"), ("watch", "pods"). Names of objects are never in it."""
    resource, is_one = _resource_of(path)
    if method in _VERBS:
        return _VERBS[method], resource
    if method == "DELETE":
        return ("delete" if is_one else "deletecollection"), resource
    if (params or {}).get("watch") == "true":
        return "watch", resource
    return ("get" if is_one or resource == NO_RESOURCE else "list"), resource


def _resource_of(path: str) -> tuple[str, bool]:
    """The resource with its subresource, and whether the path names one object of it."""
    parts = path.strip("/").split("/")
    if parts[:1] == ["api"] and len(parts) > 2:
        rest = parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        rest = parts[3:]
    else:
        return NO_RESOURCE, False
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        rest = rest[2:]
    return "/".join(rest[:1] + rest[2:3]), len(rest) > 1
