"""What a request asks for: its path, verb and query, read once.

Source: kubernetes, apiserver/pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from gpuready_sim.apiserver.failures import bad_request, invalid
from gpuready_sim.apiserver.field_errors import FieldError

JSON = "application/json"
_METHOD_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """The resource that a path names.

    rest     what follows a proxy subresource, with its leading slash
    watched  the path itself asks for a watch, as old clients do: /api/v1/watch/pods
    """

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    watched: bool = False


@dataclass
class Request:
    """One request, complete with its body."""

    method: str
    path: str
    query_text: str
    headers: Mapping[str, str]
    body: bytes = b""
    user: User = User("system:anonymous")
    target: Target | None = None
    query: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    created_name: str = ""  # of an object whose name was not in the path, for the audit

    def __post_init__(self) -> None:
        self.query = dict(parse_qsl(self.query_text, keep_blank_values=True))

    @property
    def agent(self) -> str:
        """The User-Agent's first word, by which clients are known in the audit and in managedFields."""
        return self.headers.get("user-agent", "unknown").split("/")[0].split(" ")[0][:128] or "unknown"

    @property
    def verb(self) -> str:
        if self.target is None:
            return self.method.lower()
        if self.method in ("GET", "HEAD"):
            if self.target.watched:
                return "watch"
            if self.target.name:
                return "get"
            return "watch" if self.flag("watch") else "list"
        if self.method == "DELETE" and not self.target.name:
            return "deletecollection"
        return _METHOD_VERBS.get(self.method, self.method.lower())

    @property
    def dry_run(self) -> bool:
        value = self.query.get("dryRun", "All")
        if value != "All":
            error = FieldError("dryRun", "NotSupported", [value], 'supported values: "All"')
            raise invalid(self.options_kind, "meta.k8s.io", "", [error])
        return "dryRun" in self.query

    @property
    def options_kind(self) -> str:
        """What the server calls what the query of a write says."""
        kind = {"POST": "CreateOptions", "PUT": "UpdateOptions", "DELETE": "DeleteOptions"}
        return kind.get(self.method, "PatchOptions")

    def flag(self, name: str) -> bool:
        value = self.query.get(name, "")
        return name in self.query and value.lower() not in ("0", "false")

    def number(self, name: str) -> int | None:
        """A number of the query, None when absent.

        raises  Failure 400 when it is no number
        """
        text = self.query.get(name, "")
        if text == "":
            return None
        try:
            return int(text)
        except ValueError:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


@dataclass
class Reply:
    """A complete answer."""

    code: int
    body: bytes
    content_type: str = JSON
    headers: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Stream:
    """An answer that goes on: a watch, a log that is followed, a proxied body."""

    chunks: AsyncIterator[bytes]
    content_type: str = JSON
    code: int = 200
    headers: list[tuple[str, str]] = field(default_factory=list)


def parse_path(path: str) -> Target | None:
    """The resource of an API path, None when the path names none (discovery, health, version)."""
    parts = path.split("/")[1:]
    if parts[-1] == "":
        parts.pop()
    match parts:
        case ["api", version, *rest] if rest:
            return _target("", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _target(group, version, rest)
        case _:
            return None


def _target(group: str, version: str, parts: list[str]) -> Target:
    namespace = ""
    watched = parts[0] == "watch" and len(parts) > 1
    parts = parts[watched:]
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
        namespace, parts = unquote(parts[1]), parts[2:]
    name = unquote(parts[1]) if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    rest = "/" + "/".join(parts[3:])
    if subresource != "proxy" and len(parts) > 3:
        subresource = "/".join(parts[2:])
    return Target(group, version, parts[0], namespace, name, subresource, rest, watched)
