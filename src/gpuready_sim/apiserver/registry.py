"""Which resources are served: the built-in ones and those of custom resource definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuready_sim.apiserver import schemas
from gpuready_sim.apiserver.failures import Obj, qualified
from gpuready_sim.apiserver.selectors import selectable_fields
from gpuready_sim.apiserver.structural import CustomSchema

CRD_TABLE = "customresourcedefinitions.apiextensions.k8s.io"

_ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_ACTIONS: dict[str, frozenset[str]] = {
    "pods": frozenset({"binding", "eviction", "exec", "log", "proxy"}),
    "services": frozenset({"proxy"}),
    "nodes": frozenset({"proxy"}),
    "serviceaccounts": frozenset({"token"}),
    "namespaces": frozenset({"finalize"}),
    "deployments.apps": frozenset({"scale"}),
    "replicasets.apps": frozenset({"scale"}),
    "statefulsets.apps": frozenset({"scale"}),
    "replicationcontrollers": frozenset({"scale"}),
}
ACTION_KINDS = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "scale": ("autoscaling", "v1", "Scale"),
}


@dataclass(frozen=True)
class ResourceType:
    """One resource in one version, as the paths and the discovery show it.

    subresources  "status" and the actions of `_ACTIONS`
    table         the store's table; versions of one resource share it
    storage       (group, version) of the stored objects
    versions      of a custom resource the schemas of all versions, also of those that are not served
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    table: str = ""
    storage: tuple[str, str] = ("", "v1")
    crd: Obj | None = None
    custom: CustomSchema | None = None
    versions: Mapping[str, CustomSchema] = field(default_factory=dict)
    selectable: frozenset[str] = frozenset()
    builtin: schemas.BuiltinResource | None = None

    @property
    def qualified(self) -> str:
        return qualified(self.plural, self.group)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        names = self.crd["spec"]["names"] if self.crd is not None else {}
        return names.get("listKind") or f"{self.kind}List"

    @property
    def deprecation(self) -> str:
        """What a client of a deprecated version is warned with; empty for the others."""
        if self.crd is None:
            return ""
        one = next(one for one in self.crd["spec"]["versions"] if one["name"] == self.version)
        if not one.get("deprecated"):
            return ""
        return one.get("deprecationWarning") or _deprecation_warning(self)

    @property
    def storage_version(self) -> str:
        group, version = self.storage
        return f"{group}/{version}" if group else version

    @property
    def is_question(self) -> bool:
        """Posted and answered at once; nothing of it is stored."""
        return self.builtin is not None and not self.builtin.storage

    @property
    def verbs(self) -> tuple[str, ...]:
        if self.is_question:
            return ("create",)
        if self.qualified == "namespaces":  # each has its own content to go first
            return tuple(verb for verb in _ALL_VERBS if verb != "deletecollection")
        return _ALL_VERBS if self.custom is None else _CUSTOM_VERBS  # in the real one's order

    @property
    def schema(self) -> Any:
        """What apply and strategic merge need to know of the fields; None when nothing is known."""
        if self.custom is not None:
            return self.custom.schema
        return schemas.schema_of(self.group, self.version, self.kind)


@dataclass
class Registry:
    """All served resources by (group, version, plural).

    kept  of each custom resource the version in which it is stored, also where that is not served
    """

    resources: dict[tuple[str, str, str], ResourceType] = field(default_factory=dict)
    kept: dict[str, ResourceType] = field(default_factory=dict)
    generation: int = 0  # moves with every change, so that discovery can be cached

    @classmethod
    def with_builtins(cls) -> Registry:
        registry = cls()
        for resource in builtin_types():
            registry.resources[resource.group, resource.version, resource.plural] = resource
        return registry

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        return self.resources.get((group, version, plural))

    def of_kind(self, group: str, version: str, kind: str) -> ResourceType | None:
        for resource in self.resources.values():
            if (resource.group, resource.version, resource.kind) == (group, version, kind):
                return resource
        return None

    def of_table(self, table: str) -> ResourceType:
        """The storage version of a table's resource."""
        if table in self.kept:
            return self.kept[table]
        candidates = [r for r in self.resources.values() if r.table == table]
        return next((r for r in candidates if (r.group, r.version) == r.storage), candidates[0])

    def tables(self, *, namespaced: bool) -> list[str]:
        """Tables that hold objects of namespaced (or cluster-scoped) resources."""
        every = (*self.resources.values(), *self.kept.values())
        return sorted({r.table for r in every if r.namespaced is namespaced and not r.is_question})

    def serve_crd(self, crd: Obj) -> None:
        """Serve what an established definition describes, instead of what it described before."""
        self.drop_crd(crd)
        versions = {version["name"]: version for version in crd["spec"]["versions"]}
        for resource in custom_types(crd):
            if versions[resource.version].get("served"):
                self.resources[resource.group, resource.version, resource.plural] = resource
            if versions[resource.version].get("storage"):
                self.kept[resource.table] = resource
        self.generation += 1

    def drop_crd(self, crd: Obj) -> None:
        table = crd["metadata"]["name"]
        self.resources = {k: r for k, r in self.resources.items() if r.table != table or r.crd is None}
        self.kept.pop(table, None)
        self.generation += 1

    def groups(self) -> dict[str, list[str]]:
        """Versions of each group, the preferred first; the core group is ""."""
        found: dict[str, set[str]] = {}
        for group, version, _ in self.resources:
            found.setdefault(group, set()).add(version)
        return {group: sorted(versions, key=version_rank) for group, versions in found.items()}

    def of_group_version(self, group: str, version: str) -> list[ResourceType]:
        found = [r for (g, v, _), r in self.resources.items() if (g, v) == (group, version)]
        return sorted(found, key=lambda r: r.plural)


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sort key that puts v2 before v1 before v1beta2 before v1alpha1, as the real server does.

    Source: kubernetes, apimachinery/pkg/version/helpers.go.
    """
    number, _, rest = version.removeprefix("v").partition("beta")
    stage, minor = 1, rest
    if not rest:
        number, _, minor = version.removeprefix("v").partition("alpha")
        stage = 2 if minor else 0
    if not number.isdigit():
        return (3, 0, 0, version)
    return (stage, -int(number), -int(minor) if minor.isdigit() else 0, version)


def _deprecation_warning(resource: ResourceType) -> str:
    """
    Source: kubernetes, apiextensions-apiserver pkg/apiserver/customresource_handler.go.
    """
    assert resource.crd is not None
    kind, own = resource.crd["spec"]["names"]["kind"], version_rank(resource.version)
    others = [
        one["name"]
        for one in resource.crd["spec"]["versions"]
        if one.get("served") and not one.get("deprecated") and version_rank(one["name"]) < own
    ]
    text = f"{resource.api_version} {kind} is deprecated"
    if not others:
        return text
    return f"{text}; use {resource.group}/{min(others, key=version_rank)} {kind}"


def builtin_types() -> Iterable[ResourceType]:
    for builtin in schemas.BUILTINS:
        name = qualified(builtin.plural, builtin.group)
        table = "events" if name == "events.events.k8s.io" else name
        yield ResourceType(
            group=builtin.group,
            version=builtin.version,
            kind=builtin.kind,
            plural=builtin.plural,
            singular=builtin.singular,
            namespaced=builtin.namespaced,
            short_names=builtin.short_names,
            categories=builtin.categories,
            subresources=frozenset({"status"} & set(builtin.subresources)) | _ACTIONS.get(name, frozenset()),
            table=table,
            storage=("", "v1") if table == "events" else (builtin.group, builtin.version),
            selectable=selectable_fields(table),
            builtin=builtin,
        )


def custom_types(crd: Obj) -> Iterable[ResourceType]:
    """Every version of a custom resource definition, under the names that it got."""
    spec = crd["spec"]
    names = crd["status"]["acceptedNames"]
    storage = next(v["name"] for v in spec["versions"] if v.get("storage"))
    versions = {version["name"]: CustomSchema(version) for version in spec["versions"]}
    for version in spec["versions"]:
        fields = [f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or []]
        yield ResourceType(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=frozenset({"status", "scale"} & set(version.get("subresources") or {})),
            table=crd["metadata"]["name"],
            storage=(spec["group"], storage),
            crd=crd,
            custom=versions[version["name"]],
            versions=versions,
            selectable=selectable_fields("", frozenset(fields)),
        )
