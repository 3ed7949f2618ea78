"""Sets of field paths, and what they say about objects: the algebra under managedFields.

A set is kept as the trie that FieldsV1 is on the wire:
`{"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}`. A node is a member when it is empty or holds "."; a
root is only a container, so `{}` is the empty set. Nothing here changes its arguments.

Source: structured-merge-diff v6, fieldpath/set.go, typed/{tofieldset,compare,remove,merge}.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from gpuready_sim.apiserver.schema import ATOMIC, GRANULAR, MAP, SET, Schema

FieldSet = dict[str, Any]

SELF: Final = "."


class SchemaMismatch(ValueError):
    """A list element that lacks every field which would identify it."""


class Difference(NamedTuple):
    """What a writer did to an object, as three field sets."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet


# --- the algebra ---


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    if not a or a is b:
        return b
    if not b:
        return a
    out = dict(a)
    for key, node in b.items():
        out[key] = _union_nodes(out[key], node) if key in out else node
    return out


def _union_nodes(a: FieldSet, b: FieldSet) -> FieldSet:
    if not a and not b:
        return {}
    merged = union(a, b)
    return merged if (a and b) or SELF in merged else {SELF: {}, **merged}


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """Members of `a` that are not members of `b`; a member's children stay."""
    if not b:
        return a
    return (
        _built(False, {k: _difference_nodes(n, b[k]) if k in b else n for k, n in a.items() if k != SELF})
        or {}
    )


def _difference_nodes(a: FieldSet, b: FieldSet) -> FieldSet | None:
    children = {k: _difference_nodes(n, b[k]) if k in b else n for k, n in a.items() if k != SELF}
    return _built(_is_member(a) and not _is_member(b), children)


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    return (
        _built(False, {k: _intersection_nodes(n, b[k]) for k, n in a.items() if k in b and k != SELF}) or {}
    )


def _intersection_nodes(a: FieldSet, b: FieldSet) -> FieldSet | None:
    children = {k: _intersection_nodes(n, b[k]) for k, n in a.items() if k in b and k != SELF}
    return _built(_is_member(a) and _is_member(b), children)


def is_subset(a: FieldSet, b: FieldSet) -> bool:
    """Whether every member of `a` is one of `b`."""
    for key, node in a.items():
        if key == SELF:
            continue
        other = b.get(key)
        if other is None or (_is_member(node) and not _is_member(other)) or not is_subset(node, other):
            return False
    return True


def members(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every member's path, those of one level before those below."""
    for key in sorted(fields):
        if key != SELF and _is_member(fields[key]):
            yield (*prefix, key)
    for key in sorted(fields):
        if key != SELF and fields[key]:
            yield from members(fields[key], (*prefix, key))


def from_paths(*paths: tuple[str, ...]) -> FieldSet:
    """The set of the given paths of plain field names."""
    out: FieldSet = {}
    for path in paths:
        node: FieldSet = {}
        for name in reversed(path):
            node = {f"f:{name}": node}
        out = union(out, node)
    return out


def sorted_fields(fields: FieldSet) -> FieldSet:
    """The same set with keys in the order in which the server writes them."""
    return {key: sorted_fields(fields[key]) for key in sorted(fields)}


def path_text(path: tuple[str, ...]) -> str:
    """A path as people read it: .spec.containers[name="a"].image"""
    return "".join(_element_text(element) for element in path)


def _element_text(element: str) -> str:
    kind, _, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        return "[" + ",".join(f"{key}={_shown(value)}" for key, value in json.loads(rest).items()) + "]"
    return f"[={rest}]" if kind == "v" else f"[{rest}]"


def _shown(value: Any) -> str:
    """A value as the paths of errors have it: a=1b="c", [1,2]"""
    if isinstance(value, dict):
        return "".join(f"{key}={_shown(value[key])}" for key in sorted(value))
    if isinstance(value, list):
        return "[" + ",".join(map(_shown, value)) + "]"
    return compact(value)


def _is_member(node: FieldSet) -> bool:
    return not node or SELF in node


def _built(member: bool, children: dict[str, FieldSet | None]) -> FieldSet | None:
    kept: FieldSet = {key: node for key, node in children.items() if node is not None}
    if not kept:
        return {} if member else None
    return {SELF: {}, **kept} if member else kept


# --- sets of objects ---


def field_set(value: dict[str, Any], schema: Schema) -> FieldSet:
    """The fields that whoever applies `value` claims."""
    return _claimed(value, schema) or {}


def _claimed(value: Any, schema: Schema) -> FieldSet | None:
    """The node of a value: {} for a leaf, None for a container that claims nothing by itself."""
    if isinstance(value, dict) and schema.relation == GRANULAR:
        return _claimed_map(value, schema)
    if isinstance(value, list) and schema.relation in (MAP, SET):
        element = schema.element()
        return {
            key: {} if len(items) > 1 else _with_self(_claimed(items[0], element))
            for key, items in _grouped(value, schema).items()
        } or None
    return {}


def _claimed_map(value: dict[str, Any], schema: Schema) -> FieldSet | None:
    properties = schema.properties
    out: FieldSet = {}
    for name, child in value.items():
        field = properties.get(name)
        node = _claimed(child, field or schema.child(name))
        if field is None or child is None or child == {}:
            node = _with_self(node)
        if node is not None:
            out[f"f:{name}"] = node
    return out or None


def _with_self(node: FieldSet | None) -> FieldSet:
    return {SELF: {}, **node} if node else {}


def element_key(item: Any, schema: Schema) -> str:
    """How a list element is called in a field set: k:{"name":"a"} or v:"a".

    raises   SchemaMismatch for one that cannot be told from others

    Source: structured-merge-diff v6, typed/helpers.go, listItemToPathElement.
    """
    if schema.relation == SET:
        return "v:" + compact(_told_apart(item))
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise SchemaMismatch(f"associative list with keys may not have {what}")
    found = {}
    for key in schema.list_map_keys:
        value = item.get(key)
        if value is None:
            value = schema.key_defaults.get(key)
        if value is not None:
            found[key] = value
    if not found:
        keys = " ".join(f'"{key}"' for key in schema.list_map_keys)
        raise SchemaMismatch(
            f"associative list with keys has an element that omits all key fields [{keys}] "
            "(and doesn't have default values for any key fields)"
        )
    return "k:" + compact(found)


def _told_apart(item: Any) -> Any:
    if isinstance(item, dict):
        raise SchemaMismatch("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise SchemaMismatch("not supported: associative list with lists as elements")
    if item is None:
        raise SchemaMismatch("associative list without keys has an element that's an explicit null")
    return item


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _indexed(items: list[Any], schema: Schema) -> list[tuple[str, Any]]:
    return [(element_key(item, schema), item) for item in items]


# --- two objects ---


def compare(old: dict[str, Any], new: dict[str, Any], schema: Schema) -> Difference:
    """What changed between two versions of an object."""
    added, modified, removed = _compared(old, new, schema)
    return Difference(added or {}, modified or {}, removed or {})


Nodes = tuple[FieldSet | None, FieldSet | None, FieldSet | None]
SAME: Final[Nodes] = (None, None, None)


def _compared(old: Any, new: Any, schema: Schema) -> Nodes:
    if old is new or (old == new and isinstance(old, bool) == isinstance(new, bool)):
        return SAME  # as 1 and 1.0 are
    if schema.relation == GRANULAR and _either(dict, old, new):
        return _compared_items(old or {}, new or {}, schema.child, "f:")
    if schema.relation in (MAP, SET) and _either(list, old, new):
        return _compared_lists(old or [], new or [], schema)
    return _inside(new, schema), {}, _inside(old, schema)


def _inside(value: Any, schema: Schema) -> FieldSet | None:
    """The fields below a value that turned into, or came from, a value of another kind."""
    return {key: node for key, node in _whole(value, schema).items() if key != SELF} or None


def _either(kind: type, old: Any, new: Any) -> bool:
    """Both are of the kind, or one is and the other is null, and not both are empty."""
    return bool(old or new) and all(one is None or isinstance(one, kind) for one in (old, new))


def _compared_lists(old: list[Any], new: list[Any], schema: Schema) -> Nodes:
    """Elements of one key are one leaf together.

    Source: structured-merge-diff v6, typed/compare.go, visitListItems.
    """
    element = schema.element()
    before, after = _grouped(old, schema), _grouped(new, schema)
    repeated = {key for side in (before, after) for key, items in side.items() if len(items) > 1}
    if not repeated:
        singles = [{key: items[0] for key, items in side.items()} for side in (before, after)]
        return _compared_items(singles[0], singles[1], lambda _: element, "")
    left = {key: items[0] for key, items in before.items() if key not in repeated}
    right = {key: items[0] for key, items in after.items() if key not in repeated}
    added, modified, removed = (
        dict(one or {}) for one in _compared_items(left, right, lambda _: element, "")
    )
    for key in repeated:
        was, is_now = before.get(key, []), after.get(key, [])
        if len(was) > 1 and len(is_now) > 1:
            modified |= {key: {}} if was != is_now else {}
        else:
            added |= _alone_or_together(key, is_now, element)
            removed |= _alone_or_together(key, was, element)
    return added or None, modified or None, removed or None


def _alone_or_together(key: str, items: list[Any], element: Schema) -> FieldSet:
    if not items:
        return {}
    return {key: {} if len(items) > 1 else _whole(items[0], element)}


def _grouped(items: list[Any], schema: Schema) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {}
    for key, item in _indexed(items, schema):
        out.setdefault(key, []).append(item)
    return out


def _compared_items(old: dict[str, Any], new: dict[str, Any], type_of: Any, prefix: str) -> Nodes:
    added: FieldSet = {}
    modified: FieldSet = {}
    removed: FieldSet = {}
    for name, value in new.items():
        if name not in old:
            added[prefix + name] = _whole(value, type_of(name))
            continue
        a, m, r = _compared(old[name], value, type_of(name))
        if a is not None:
            added[prefix + name] = a
        if m is not None:
            modified[prefix + name] = m
        if r is not None:
            removed[prefix + name] = r
    for name, value in old.items():
        if name not in new:
            removed[prefix + name] = _whole(value, type_of(name))
    return added or None, modified or None, removed or None


def _whole(value: Any, schema: Schema) -> FieldSet:
    """Every field of a value that came or went as a whole, containers included."""
    if isinstance(value, dict) and schema.relation == GRANULAR:
        items = {f"f:{name}": _whole(child, schema.child(name)) for name, child in value.items()}
        return _with_self(items)
    if isinstance(value, list) and schema.relation in (MAP, SET):
        element = schema.element()
        return _with_self(
            {
                key: {} if len(items) > 1 else _whole(items[0], element)
                for key, items in _grouped(value, schema).items()
            }
        )
    return {}


# --- taking fields out ---


def with_named_fields(fields: FieldSet, schema: Schema) -> FieldSet:
    """The set in which every struct field on the way to a member is a member too."""
    return {key: _named(key, node, schema) for key, node in fields.items()}


def _named(key: str, node: FieldSet, schema: Schema) -> FieldSet:
    if not node or key == SELF:
        return node
    name = key[2:]
    inner = with_named_fields(node, schema.child(name) if key.startswith("f:") else schema.element())
    if SELF in inner or not (key.startswith("f:") and name in schema.properties):
        return inner
    return {SELF: {}, **inner}


def without(value: dict[str, Any], fields: FieldSet, schema: Schema) -> dict[str, Any]:
    """The object with every member of `fields` taken out; a container that becomes empty becomes null."""
    return _without(value, fields, schema) or {} if fields else value


def _without(value: Any, fields: FieldSet, schema: Schema) -> Any:
    if isinstance(value, dict) and schema.relation == GRANULAR:
        return _without_keys(value, fields, schema)
    if isinstance(value, list) and schema.relation in (MAP, SET):
        return _without_elements(value, fields, schema)
    return None if schema.relation == ATOMIC and isinstance(value, (dict, list)) else value


def _without_keys(value: dict[str, Any], fields: FieldSet, schema: Schema) -> dict[str, Any] | None:
    out = {}
    for name, child in value.items():
        node = fields.get(f"f:{name}")
        if node is None:
            out[name] = child
        elif not _is_member(node):
            out[name] = _without(child, node, schema.child(name))
    return out or None


def _without_elements(value: list[Any], fields: FieldSet, schema: Schema) -> list[Any] | None:
    out = []
    for key, item in _indexed(value, schema):
        node = fields.get(key)
        if node is None:
            out.append(item)
        elif not _is_member(node):
            out.append(_without(item, node, schema.element()))
    return out or None
