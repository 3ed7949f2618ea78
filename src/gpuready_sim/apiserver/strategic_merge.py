"""Strategic merge patch: a merge patch that knows which lists are maps. Pure; inputs are never changed.

Directives: `$patch: replace|delete`, `$retainKeys`, `$deleteFromPrimitiveList/x`, `$setElementOrder/x`.

The real one works on Go slices in place: an element that is deleted leaves its cell to the next one that is
added, and whoever still looks at the whole slice sees that one where the other stood. `_Cells` does so, too.

Source: kubernetes, apimachinery pkg/util/strategicpatch/{patch,meta}.go, pkg/util/mergepatch/errors.go.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gpuready_sim.apiserver.element_order import (
    ELEMENT_ORDER,
    PATCH,
    as_list,
    check_order,
    failed,
    find,
    holds,
    holds_maps,
    keyless,
    ordered,
    same,
)
from gpuready_sim.apiserver.go_values import printed, reflect_kind
from gpuready_sim.apiserver.json_patch import PatchError, bad_request
from gpuready_sim.apiserver.schema import UNTYPED_ATOMIC, Schema

RETAIN_KEYS: Final = "$retainKeys"
DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList"
_MISSING: Final = object()

Object = dict[str, Any]


class Merged(NamedTuple):
    """
    rest   what the merge left of the patch, which the server prints when the object is refused
    """

    object: Object
    rest: Object


def strategic_merge(live: Object, patch: Object, schema: Schema | None) -> Object:
    """The live object after the patch; without a schema every list is replaced.

    raises   PatchError (400, 422, 500) for a directive or a list that makes no sense
    """
    return merged(live, patch, schema).object


def merged(live: Object, patch: Object, schema: Schema | None) -> Merged:
    """As strategic_merge, with the rest of the patch."""
    rest = _copied(patch)
    return Merged(_merge_map(_copied(live), rest, schema or UNTYPED_ATOMIC), rest)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(child) for key, child in value.items()}
    return [_copied(child) for child in value] if isinstance(value, list) else value


# --- maps ---


def _merge_map(live: Object, patch: Object, schema: Schema) -> Object:
    """Edits both, and returns what becomes of the live one."""
    if PATCH in patch:
        return _directed(patch)
    _retain_keys(live, patch)
    for key in [key for key in patch if key.startswith(ELEMENT_ORDER)]:
        _merge_in_order(live, patch, key, schema)
    for key in [key for key in patch if key.startswith(DELETE_PRIMITIVES)]:
        _delete_primitives(live, _named(key, DELETE_PRIMITIVES, "primitive"), patch[key], schema)
    for key, value in patch.items():
        if not key.startswith(DELETE_PRIMITIVES):
            _merge_key(live, key, value, schema)
    return live


def _directed(patch: Object) -> Object:
    directive = patch[PATCH]
    if directive == "replace":
        del patch[PATCH]
        return patch
    if directive == "delete":
        return {}
    raise _unknown_directive(patch)


def _named(key: str, directive: str, kind: str) -> str:
    """What a directive is about: $setElementOrder/containers

    raises  PatchError 400
    """
    first, slash, name = key.partition("/")
    if not slash or first != directive:
        raise bad_request(f"invalid patch format of {kind} list")
    return name


def _unknown_directive(patch: Object) -> PatchError:
    directive = patch[PATCH]
    shown = (
        directive if isinstance(directive, str) else f"%!s({reflect_kind(directive)}={printed(directive)})"
    )
    if directive is None:
        shown = "%!s(<nil>)"
    return failed(f"unknown patch type: {shown} in map: {printed(patch)}")


def _retain_keys(live: Object, patch: Object) -> None:
    if RETAIN_KEYS not in patch:
        return
    keys = patch.pop(RETAIN_KEYS)
    said = (
        key
        for key, value in patch.items()
        if value is not None and not key.startswith((DELETE_PRIMITIVES, ELEMENT_ORDER))
    )
    if not isinstance(keys, list) or any(key not in keys for key in said):
        raise bad_request("invalid patch format of retainKeys")
    for key in [key for key in live if key not in keys]:
        del live[key]


def _merge_key(live: Object, key: str, value: Any, schema: Schema) -> None:
    if value is None:
        live.pop(key, None)
        return
    there = live.get(key, _MISSING)
    if there is _MISSING or there is None or reflect_kind(there) != reflect_kind(value):
        _discard_nulls(value)
        kept = _without_directives(value)
        if kept is _MISSING:
            live.pop(key, None)
        else:
            live[key] = kept
    elif isinstance(value, dict):
        child, strategy = _child_map(schema, key)
        live[key] = value if strategy == "replace" else _merge_map(there, value, child)
    elif isinstance(value, list):
        live[key] = _merge_list(there, value, _lookup_list(schema, key))
    else:
        live[key] = value


def _discard_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for key in [key for key, child in value.items() if child is None]:
            del value[key]
        value = list(value.values())
    if isinstance(value, list):
        for child in value:
            _discard_nulls(child)


def _without_directives(value: Any) -> Any:
    """_MISSING for a map with a directive: nothing is there to which it could apply."""
    if isinstance(value, dict):
        if PATCH in value:
            return _MISSING
        for key, child in list(value.items()):
            if (kept := _without_directives(child)) is _MISSING:
                del value[key]
            else:
                value[key] = kept
        return value
    if isinstance(value, list):
        kept = (_without_directives(child) for child in value)
        return [child for child in kept if child is not _MISSING]
    return value


# --- what the types say ---


class _ListType(NamedTuple):
    """How a list merges: what its elements are, "merge" or not, and by which key."""

    element: Schema
    strategy: str
    key: str


def _child(schema: Schema, key: str) -> Schema:
    """The type of a field that is there and in the patch.

    raises  PatchError 500 for one that the type does not have
    """
    if schema is UNTYPED_ATOMIC or not schema.type:
        return UNTYPED_ATOMIC
    if not schema.properties:
        kind = {"object": "map", "array": "slice", "boolean": "bool"}.get(schema.type, schema.type)
        raise failed(f"merging an object in json but data type is not struct, instead is: {kind}")
    if key not in schema.properties:
        name = schema.ref.rpartition(".")[2]
        raise failed(f'unable to find api field in struct {name} for the json field "{key}"')
    return schema.properties[key]


def _child_map(schema: Schema, key: str) -> tuple[Schema, str]:
    child = _child(schema, key)
    return child, _strategy(child)


def _lookup_list(schema: Schema, key: str) -> _ListType:
    child = _child(schema, key)
    if child.type == "object":
        raise failed("expected slice or array type, but got: struct")
    return _ListType(child.element(), _strategy(child), child.patch_merge_key)


def _strategy(schema: Schema) -> str:
    named = [one for one in schema.patch_strategy.split(",") if one != "retainKeys"]
    return named[0] if named else ""


# --- lists ---


class _Cells:
    """A Go slice: so many cells of an array that others see, too."""

    def __init__(self, array: list[Any]) -> None:
        self._array = array
        self._length = len(array)

    def items(self) -> list[Any]:
        return self._array[: self._length]

    def delete(self, at: int) -> None:
        self._array[at : self._length - 1] = self._array[at + 1 : self._length]
        self._length -= 1

    def replace(self, at: int, item: Any) -> None:
        self._array[at] = item

    def append(self, item: Any) -> None:
        """Into the next cell; where there is none, the old array is left to the others."""
        if self._length == len(self._array):
            self._array = [*self._array, item]
        else:
            self._array[self._length] = item
        self._length += 1


def _merge_list(live: list[Any], patch: list[Any], kind: _ListType) -> list[Any]:
    """The joined list; `live` is left as the real one leaves it."""
    if kind.strategy != "merge":
        return patch
    return _joined(live, patch, kind)


def _joined(live: list[Any], patch: list[Any], kind: _ListType) -> list[Any]:
    if not live and not patch:
        return live
    if not holds_maps(live, patch):
        both = _each_once(live + patch)
        return ordered(both, patch, live, kind.key, of_maps=False)
    if not kind.key:
        raise failed("cannot merge lists without merge key for struct")
    cells, rest = _without_special(live, patch, kind.key)
    before = cells.items()
    for item in rest:
        _merge_element(cells, item, kind)
    return ordered(cells.items(), rest, before, kind.key, of_maps=True)


def _without_special(live: list[Any], patch: list[Any], key: str) -> tuple[_Cells, list[Any]]:
    """The live list after the elements that delete or replace, and the rest of the patch."""
    cells, rest, replaced = _Cells(live), [], False
    for item in patch:
        if PATCH not in item:
            rest.append(item)
        elif item[PATCH] == "delete":
            _delete_element(cells, item, key)
        elif item[PATCH] == "replace":
            replaced = True
        elif item[PATCH] == "merge":
            raise failed("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(item)
    return (_Cells(rest), []) if replaced else (cells, rest)


def _delete_element(cells: _Cells, item: Object, key: str) -> None:
    if key not in item:
        raise keyless(item, key)
    while (at := find(cells.items(), key, item[key])) is not None:
        cells.delete(at)


def _merge_element(cells: _Cells, item: Object, kind: _ListType) -> None:
    if kind.key not in item:
        raise keyless(item, kind.key)
    items = cells.items()
    at = find(items, kind.key, item[kind.key])
    if at is None:
        cells.append(item)
    else:
        cells.replace(at, _merge_map(items[at], item, kind.element))


def _delete_primitives(live: Object, name: str, values: Any, schema: Schema) -> None:
    """From a list of the same kind of values; where they are maps, it merges them, as the real one."""
    if values is None:
        live.pop(name, None)
    there = live.get(name)
    if not isinstance(there, (dict, list)) or reflect_kind(there) != reflect_kind(values):
        return
    if isinstance(there, dict):
        _merge_key(live, name, values, schema)
        return
    kind = _lookup_list(schema, name)
    if (there or values) and not holds_maps(there, values):
        live[name] = [item for item in there if not holds(values, item)]
    else:
        live[name] = _joined(there, values, kind)


def _each_once(items: list[Any]) -> list[Any]:
    """Without repetitions, whose places the last ones take."""
    out, i = list(items), 0
    while i < len(out) - 1:
        j = i + 1
        while j < len(out):
            if same(out[i], out[j]):
                out[j] = out[-1]
                out.pop()
            else:
                j += 1
        i += 1
    return out


# --- the order of elements ---


def _merge_in_order(live: Object, patch: Object, directive: str, schema: Schema) -> None:
    """Merge a list, and give its elements the order that the patch tells."""
    order = as_list(patch.pop(directive))
    name = _named(directive, ELEMENT_ORDER, "setElementOrder")
    there = as_list(live[name]) if name in live else None
    given = as_list(patch[name]) if name in patch else None
    kind = _lookup_list(schema, name)
    check_order(given or [], order, kind.key)
    if given is None and there is None:
        return
    if given is None:
        both = there or []
    elif there is None:
        both = _without_directives(given)
    else:
        both = _merge_list(there, given, kind)
    live[name] = ordered(both, order, there or [], kind.key, sample=(there or [], given or []))
    patch.pop(name, None)
