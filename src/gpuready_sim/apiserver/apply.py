"""Server-side apply and managedFields: who owns which field, and what a writer may change.

Pure: objects in, new objects out, `now` is handed in. Results share unchanged parts with their inputs, so
treat both as read-only.

Source: structured-merge-diff v6 merge/update.go; apimachinery pkg/util/managedfields/internal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from gpuready_sim.apiserver import fields as fieldsets
from gpuready_sim.apiserver.fields import FieldSet, SchemaMismatch
from gpuready_sim.apiserver.schema import UNTYPED, Schema
from gpuready_sim.apiserver.typed_merge import merged
from gpuready_sim.apiserver.validation import ZERO_VALUES
from gpuready_sim.apiserver.validation import decoded as decoded_value

Object = dict[str, Any]

APPLY: Final = "Apply"
UPDATE: Final = "Update"
BEFORE_FIRST_APPLY: Final = "before-first-apply"
ANCIENT_CHANGES: Final = "ancient-changes"
MOST_UPDATERS: Final = 10

NEVER_OWNED: Final = fieldsets.from_paths(
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    *(
        ("metadata", name)
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)
NEVER_APPLIED: Final = (
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "selfLink",
)
# Fields of the metadata that an apply carries along at most as a precondition.


class ManagerId(NamedTuple):
    """What tells two entries of managedFields apart; the version counts for updates only."""

    manager: str
    operation: str
    subresource: str
    api_version: str

    def __str__(self) -> str:
        text = json.dumps(self.manager)
        if self.subresource:
            text += f" with subresource {json.dumps(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


@dataclass(frozen=True)
class Owner:
    """One entry of managedFields; `raw` is kept so that an untouched entry is written back as it came."""

    fields: FieldSet
    api_version: str
    time: str
    raw: Object | None = None

    def owning(self, fields: FieldSet) -> Owner:
        return self if fields == self.fields else replace(self, fields=fields, raw=None)


Owners = dict[ManagerId, Owner]


class Conflict(NamedTuple):
    """A field that somebody else owns; `manager` as people read it: "kubectl" using v1."""

    manager: str
    path: str


class ApplyConflict(Exception):
    """An apply that would change what others own: HTTP 409, reason Conflict."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        self.conflicts = conflicts
        super().__init__(_conflict_message(conflicts))

    def causes(self) -> list[dict[str, str]]:
        """status.details.causes of the answer."""
        return [
            {"reason": "FieldManagerConflict", "message": f"conflict with {one.manager}", "field": one.path}
            for one in self.conflicts
        ]


class Untypable(ValueError):
    """An object that another version's schema, in which somebody owns fields of it, does not know."""


class ApplyInvalid(ValueError):
    """An applied object that cannot be merged at all: HTTP 400, or 422 for lists without keys."""


def apply(
    live: Object | None,
    applied: Object,
    manager: str,
    *,
    force: bool,
    schema: Schema | None,
    api_version: str,
    subresource: str = "",
    keep_nulls: bool = False,
    reset: Sequence[str] = (),
    versions: Mapping[str, Schema] | None = None,
    now: str,
) -> Object:
    """The object after `manager` applied `applied`: merged, its former fields dropped, managedFields kept.

    live         None when the object does not exist yet
    api_version  of the request; recorded in the entry
    keep_nulls   leave null where all content of a map went: a custom resource is then refused for it
    reset        top-level fields that belong to no writer of this path, nor to those before the first apply
    versions     schemas by apiVersion, of a kind that has several
    now          RFC 3339, seconds; used only if something changed
    returns      an object equal to `live` when the apply changes nothing
    raises       ApplyConflict unless `force`; ApplyInvalid; Untypable
    """
    schema = schema or UNTYPED
    before, owners = _taken_apart(live or {})
    wanted = _appliable(applied, schema)
    me = ManagerId(manager, APPLY, subresource, "")
    try:
        if live is not None and not owners:
            tracked = {name: value for name, value in before.items() if name not in reset}
            owners = _first_owner(tracked, schema, api_version, subresource, now)
        owners = _of_known_versions(owners, versions)
        _refuse_untypable(before, owners, api_version, versions)
        said = fieldsets.field_set(wanted, schema)
        claimed = fieldsets.difference(said, NEVER_OWNED)
        after = merged(before, wanted, schema) if before else wanted
        after = _without_former_fields(after, owners, owners.get(me), said, schema)
        change = fieldsets.compare(before, after, schema)
        _refuse_untypable(after, owners, api_version, versions, "failed to convert new object: ")
    except SchemaMismatch as exc:
        raise ApplyInvalid(str(exc)) from exc
    untouched = before == after
    after = after if keep_nulls else _without_emptied(after, schema)
    others = {key: owner for key, owner in owners.items() if key != me}
    conflicts = _conflicts(others, change)
    if conflicts and not force:
        raise ApplyConflict(conflicts)
    result = _moved(others, change)
    former = owners.get(me)
    same = former is not None and (former.fields, former.api_version) == (claimed, api_version)
    if claimed and former and same and untouched:
        result[me] = former
    elif claimed:
        # An apply that changes only who owns what leaves the time alone, or unset.
        unchanged = former.time if former else ""
        result[me] = Owner(claimed, api_version, unchanged if untouched else now)
    return _put_together(after, result)


def track_update(
    old: Object | None,
    new: Object,
    manager: str,
    operation: str = UPDATE,
    *,
    schema: Schema | None,
    api_version: str,
    subresource: str = "",
    reset: Sequence[str] = (),
    owning: bool = True,
    versions: Mapping[str, Schema] | None = None,
    now: str,
) -> Object:
    """The object `new` with managedFields after a create, update or patch: what changed is the writer's now.

    old    None for a create
    reset  top-level fields that writers of this path never own
    owning False when the writer owns nothing by this write, and nothing any more
    versions schemas by apiVersion, of a kind that has several; what one does not know ends all tracking
    new    as it will be stored; managedFields that it brings replace the old ones ([{}] forgets them all)
    """
    schema = schema or UNTYPED
    before, owners = _taken_apart(old) if old is not None else ({}, {})
    after, brought = _taken_apart(new)
    if not _is_readable(_raw_entries(new)):
        brought = {}
    zero = _zero(schema)
    before = {name: zero[name] for name in zero if name in after} | before if old is not None else zero
    raw = _raw_entries(new)
    if brought or raw == [{}]:
        owners = brought
    me = ManagerId(manager, operation, subresource, api_version)
    owners = _of_known_versions(owners, versions)
    try:
        for one in (before, after):
            _refuse_untypable(one, owners, api_version, versions)
        change = fieldsets.compare(before, after, schema)
    except SchemaMismatch:
        return _put_together(after, owners)
    except Untypable:
        return _put_together(after, {})
    mine = owners.pop(me, None)
    result = _moved(owners, change)
    taken = fieldsets.difference(fieldsets.union(change.added, change.modified), NEVER_OWNED)
    taken = {key: node for key, node in taken.items() if key[2:] not in reset}
    held = fieldsets.difference(mine.fields, change.removed) if mine else {}
    if not owning:
        return _put_together(after, result)
    if taken:
        result[me] = Owner(fieldsets.union(held, taken), api_version, now)
    elif mine and held:
        result[me] = mine.owning(held)
    return _put_together(after, _capped(result))


def _of_known_versions(owners: Owners, versions: Mapping[str, Schema] | None) -> Owners:
    """Owners of fields in a version that is no more own nothing."""
    if versions is None:
        return owners
    return {key: owner for key, owner in owners.items() if owner.api_version in versions}


def _refuse_untypable(
    obj: Object,
    owners: Owners,
    api_version: str,
    versions: Mapping[str, Schema] | None,
    before: str = "",
) -> None:
    """
    raises  Untypable when somebody owns fields in another version, in which the object could not be written
    """
    others = {owner.api_version for owner in owners.values()} - {api_version}
    for version in sorted(others) if versions is not None else ():
        assert versions is not None
        found = [f"{path}: field not declared in schema" for path in undeclared(obj, versions[version])]
        if found:
            raise Untypable(before + (found[0] if len(found) == 1 else "\n  ".join(["errors:", *found])))


def undeclared(value: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """Fields that a schema does not have, as .spec.a"""
    if isinstance(value, dict):
        for name, child in value.items():
            field = schema.properties.get(name) or schema.additional
            if field is not None:
                yield from undeclared(child, field, f"{path}.{name}")
            elif schema.type == "object" and schema.properties and not schema.preserve_unknown:
                yield f"{path}.{name}"
    elif isinstance(value, list) and schema.items is not None:
        for i, item in enumerate(value):
            yield from undeclared(item, schema.items, f"{path}[{i}]")


def _taken_apart(obj: Object) -> tuple[Object, Owners]:
    """The object without managedFields, and its owners."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj, {}
    bare = {key: value for key, value in metadata.items() if key != "managedFields"}
    return obj | {"metadata": bare}, decoded(_raw_entries(obj))


def _raw_entries(obj: Object) -> list[Object]:
    return (obj.get("metadata") or {}).get("managedFields") or []


def _is_readable(entries: list[Object]) -> bool:
    """Whether what a writer says of owners counts; if not, those of the live object stay."""
    return all(
        entry.get("operation") in (APPLY, UPDATE)
        and entry.get("apiVersion")
        and entry.get("fieldsType") == "FieldsV1"
        for entry in entries
    )


def decoded(entries: list[Object]) -> Owners:
    """managedFields as owners by identity; entries without a manager or operation are dropped."""
    owners: Owners = {}
    for raw in entries:
        operation, version = raw.get("operation", ""), raw.get("apiVersion", "")
        if operation not in (APPLY, UPDATE):
            continue
        counted = version if operation == UPDATE else ""
        key = ManagerId(raw.get("manager", ""), operation, raw.get("subresource", ""), counted)
        owners[key] = Owner(raw.get("fieldsV1") or {}, version, raw.get("time", ""), raw)
    return owners


def encoded(owners: Mapping[ManagerId, Owner]) -> list[Object]:
    """Owners as managedFields, in the server's order: appliers first, then by time and name."""
    ordered = sorted(
        owners.items(), key=lambda one: (one[0].operation, one[1].time, one[0].manager, one[1].api_version)
    )
    return [owner.raw if owner.raw is not None else _entry(key, owner) for key, owner in ordered]


def _entry(key: ManagerId, owner: Owner) -> Object:
    entry = {
        "manager": key.manager,
        "operation": key.operation,
        "apiVersion": owner.api_version,
        **({"time": owner.time} if owner.time else {}),
        "fieldsType": "FieldsV1",
        "fieldsV1": fieldsets.sorted_fields(owner.fields),
    }
    return entry | {"subresource": key.subresource} if key.subresource else entry


def _put_together(obj: Object, owners: Owners) -> Object:
    metadata = dict(obj.get("metadata") or {})
    entries = encoded({key: owner for key, owner in owners.items() if owner.fields})
    if entries:
        metadata["managedFields"] = entries
    return obj | {"metadata": metadata}


def _appliable(applied: Object, schema: Schema) -> Object:
    """What an apply may say; of built-in kinds without unknown fields. A null is said, and owned."""
    wanted: Object = decoded_value(applied, schema, keep_nulls=True) if schema.ref else applied
    metadata = wanted.get("metadata") or {}
    return wanted | {"metadata": {key: value for key, value in metadata.items() if key not in NEVER_APPLIED}}


def _first_owner(live: Object, schema: Schema, api_version: str, subresource: str, now: str) -> Owners:
    """An object that nobody tracked belongs to "before-first-apply" until it is applied."""
    change = fieldsets.compare(_zero(schema), live, schema)
    held = fieldsets.difference(fieldsets.union(change.added, change.modified), NEVER_OWNED)
    first = ManagerId(BEFORE_FIRST_APPLY, UPDATE, subresource, api_version)
    return {first: Owner(held, api_version, now)} if held else {}


def _without_former_fields(
    after: Object, owners: Owners, former: Owner | None, claimed: FieldSet, schema: Schema
) -> Object:
    """Drop what this applier owned before, does not claim now, and nobody else who applied owns."""
    if former is None or fieldsets.is_subset(former.fields, claimed):
        return after
    last = fieldsets.with_named_fields(former.fields, schema)
    held = claimed
    for owner in owners.values():
        if owner is not former:
            held = fieldsets.union(held, owner.fields)
    everything = fieldsets.with_named_fields(fieldsets.field_set(after, schema), schema)

    def left(obj: Object) -> FieldSet:
        return fieldsets.with_named_fields(fieldsets.field_set(obj, schema), schema)

    pruned = fieldsets.without(after, last, schema)
    kept = fieldsets.union(left(pruned), fieldsets.with_named_fields(held, schema))
    pruned = fieldsets.without(after, fieldsets.difference(everything, kept), schema)
    gone = fieldsets.intersection(fieldsets.difference(everything, left(pruned)), last)
    return fieldsets.without(after, gone, schema)


def _without_emptied(value: Any, schema: Schema) -> Any:
    """Nulls that pruning left behind, gone where null is not a value of the type.

    Those in maps of plain values were applied, and become empty values.
    """
    if isinstance(value, dict):
        if schema.additional is not None and schema.additional.type in ZERO_VALUES:
            return value
        out = {}
        for name, child in value.items():
            kind = schema.child(name)
            if child is not None or kind.nullable or not kind.type:
                out[name] = _without_emptied(child, kind) if isinstance(child, (dict, list)) else child
        return out
    if isinstance(value, list) and schema.items is not None:
        element = schema.items
        return [_without_emptied(item, element) for item in value]
    return value


def _conflicts(others: Owners, change: fieldsets.Difference) -> list[Conflict]:
    touched = fieldsets.union(change.added, change.modified)
    return [
        Conflict(str(key), fieldsets.path_text(path))
        for key, owner in sorted(others.items(), key=lambda one: str(one[0]))
        for path in fieldsets.members(fieldsets.intersection(owner.fields, touched))
    ]


def _moved(others: Owners, change: fieldsets.Difference) -> Owners:
    """The other owners without what was just taken from them or removed from the object."""
    lost = fieldsets.union(fieldsets.union(change.added, change.modified), change.removed)
    if not lost:
        return dict(others)
    result = {key: owner.owning(fieldsets.difference(owner.fields, lost)) for key, owner in others.items()}
    return {key: owner for key, owner in result.items() if owner.fields}


def _capped(owners: Owners) -> Owners:
    """At most ten updaters; the oldest become one entry per version."""
    updaters = sorted((k for k in owners if k.operation == UPDATE), key=lambda k: (owners[k].time, k.manager))
    for key in updaters[: max(0, len(updaters) - MOST_UPDATERS)]:
        owner = owners.pop(key)
        bucket = ManagerId(ANCIENT_CHANGES, UPDATE, "", owner.api_version)
        held = owners.get(bucket, Owner({}, owner.api_version, owner.time))
        owners[bucket] = Owner(fieldsets.union(held.fields, owner.fields), owner.api_version, owner.time)
    return owners


def _conflict_message(conflicts: list[Conflict]) -> str:
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: conflict with {conflicts[0].manager}: {conflicts[0].path}"
    lines = []
    for manager in sorted({one.manager for one in conflicts}):
        lines.append(f"conflicts with {manager}:")
        lines.extend(f"- {one.path}" for one in conflicts if one.manager == manager)
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


ALWAYS_WRITTEN: Final = (
    "metadata",
    "spec",
    "status",
    "template",
    "jobTemplate",
    "strategy",
    "updateStrategy",
    "roleRef",
    "nodeInfo",
    "daemonEndpoints",
    "kubeletEndpoint",
    "loadBalancer",
)
# Structs that Go holds by value, so that even an empty object has them: a create does not add them.
_ZERO_VALUES: Final[Mapping[str, Any]] = {"string": "", "integer": 0, "boolean": False, "number": 0}


def _zero(schema: Schema) -> Object:
    return _zero_of(schema.ref, schema) if schema.ref else {}


@lru_cache(maxsize=256)
def _zero_of(_ref: str, schema: Schema) -> Object:
    """An empty object as Go writes it: fields without `omitempty` (required ones) are there."""
    structs = {
        name: _zero_of(child.ref, child)
        for name, child in schema.properties.items()
        if name in ALWAYS_WRITTEN and child.type == "object" and child.properties
    }
    required = {name: schema.properties[name] for name in schema.required if name in schema.properties}
    return {name: _ZERO_VALUES.get(child.type) for name, child in required.items()} | structs
