"""Strategic merge patch: a merge patch that knows which lists are maps. Pure; inputs are never changed.

Directives: `$patch: merge|replace|delete`, `$retainKeys`, `$deleteFromPrimitiveList/x`, `$setElementOrder/x`.

Source: kubernetes, apimachinery pkg/util/strategicpatch/patch.go.
"""

from __future__ import annotations

from typing import Any, Final

from gpuready_sim.apiserver.json_patch import PatchError, bad_request
from gpuready_sim.apiserver.schema import UNTYPED_ATOMIC, Schema

PATCH: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList/"
ELEMENT_ORDER: Final = "$setElementOrder/"


def strategic_merge(live: dict[str, Any], patch: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    """The live object after the patch; without a schema every list is replaced.

    raises   PatchError (400) for a directive that makes no sense
    """
    return _merge_map(live, patch, schema or UNTYPED_ATOMIC)


def _merge_map(live: dict[str, Any], patch: dict[str, Any], schema: Schema) -> dict[str, Any]:
    directive = patch.get(PATCH)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != PATCH}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchError(f"Unknown patch type found: {directive}", code=500, reason="")
    out = _retained(live, patch)
    for key, value in patch.items():
        if key in (PATCH, RETAIN_KEYS) or key.startswith((DELETE_PRIMITIVES, ELEMENT_ORDER)):
            continue
        if value is None:
            out.pop(key, None)
        elif key in out or not isinstance(value, dict):
            out[key] = _merge_value(out.get(key), value, schema.child(key))
        elif value.get(PATCH) not in (None, "merge", "replace"):
            out[key] = {}  # nothing is there to which an order could apply
        else:
            out[key] = _merge_value(None, value, schema.child(key))
    for key, value in patch.items():
        if key.startswith(DELETE_PRIMITIVES):
            _delete_primitives(out, key.removeprefix(DELETE_PRIMITIVES), value, patch)
    for key, value in patch.items():
        if key.startswith(ELEMENT_ORDER):
            _reorder(out, key.removeprefix(ELEMENT_ORDER), value, live, schema)
    return out


def _retained(live: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    keys = patch.get(RETAIN_KEYS)
    if keys is None:
        return dict(live)
    if not isinstance(keys, list):
        raise bad_request("invalid patch format of retainKeys")
    if any(key not in keys for key, value in patch.items() if value is not None and not key.startswith("$")):
        raise bad_request("retainKeys has inconsistent keys with the patch")
    return {key: value for key, value in live.items() if key in keys}


def _merge_value(live: Any, patch: Any, schema: Schema) -> Any:
    if isinstance(patch, dict):
        return _merge_map(live if isinstance(live, dict) else {}, patch, schema)
    if isinstance(patch, list) and "merge" in schema.patch_strategy.split(","):
        return _merge_list(live if isinstance(live, list) else [], patch, schema)
    if isinstance(patch, list):
        return [_without_directives(item) for item in patch]
    return patch


def _merge_list(live: list[Any], patch: list[Any], schema: Schema) -> list[Any]:
    """The joined list; elements of the patch take their order from it."""
    key = schema.patch_merge_key
    if not patch:
        return live
    if not all(isinstance(item, dict) for item in patch):
        joined = live + [item for item in dict.fromkeys(patch) if item not in live]
        return _ordered(joined, patch, live, "")
    if any(item.get(PATCH) == "replace" for item in patch) or not key:
        return [_without_directives(item) for item in patch if item.get(PATCH) != "replace"]
    out = list(live)
    for item in patch:
        _merge_element(out, item, key, schema)
    return _ordered(out, patch, live, key)


def _as_go_prints(value: Any) -> str:
    """map[image:nameless]"""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_as_go_prints(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_as_go_prints, value))}]"
    return str(value)


def _merge_element(out: list[Any], item: dict[str, Any], key: str, schema: Schema) -> None:
    if key not in item:
        raise PatchError(
            f"map: {_as_go_prints(item)} does not contain declared merge key: {key}", code=500, reason=""
        )
    at = next((i for i, one in enumerate(out) if isinstance(one, dict) and one.get(key) == item[key]), None)
    if item.get(PATCH) == "delete":
        out[:] = [one for one in out if not (isinstance(one, dict) and one.get(key) == item[key])]
    elif at is None:
        out.append(_merge_map({}, item, schema.element()))
    else:
        out[at] = _merge_map(out[at], item, schema.element())


def _delete_primitives(out: dict[str, Any], name: str, values: Any, patch: dict[str, Any]) -> None:
    if not isinstance(values, list):
        raise bad_request(f"invalid patch format of primitive list: {name}")
    added = patch.get(name) or []
    if isinstance(out.get(name), list):
        out[name] = [item for item in out[name] if item not in values or item in added]


def _reorder(out: dict[str, Any], name: str, order: Any, live: dict[str, Any], schema: Schema) -> None:
    items = out.get(name)
    if not isinstance(order, list):
        raise bad_request(f"invalid patch format of $setElementOrder list: {name}")
    if not isinstance(items, list):
        return
    out[name] = _ordered(items, order, live.get(name) or [], schema.child(name).patch_merge_key)


def _ordered(items: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """The elements that `order` names in its order, the others where they stood before.

    In lists of objects, new elements count as standing where deleted ones left room, as in the server.
    """

    def identity(item: Any) -> Any:
        return item.get(key) if isinstance(item, dict) else item

    wanted = {identity(item): i for i, item in enumerate(order)}
    known = [identity(item) for item in live]
    if key:
        present = {identity(item) for item in items}
        left = [one for one in known if one in present]
        known = (left + [one for one in wanted if one in present and one not in left])[: len(live)]
    before = {one: i for i, one in enumerate(known)}
    mine = sorted(
        (item for item in items if identity(item) in wanted), key=lambda item: wanted[identity(item)]
    )
    others = [item for item in items if identity(item) not in wanted]
    at = [[before.get(identity(item)) for item in group] for group in (others, mine)]
    return _interleaved(others, mine, at[0], at[1])


def _interleaved(
    left: list[Any], right: list[Any], left_at: list[int | None], right_at: list[int | None]
) -> list[Any]:
    """Both lists as one; an element of `left` goes first where it stood before in the live list."""
    out: list[Any] = []
    i = j = 0
    while i < len(left) and j < len(right):
        a, b = left_at[i], right_at[j]
        if a is not None and b is not None and a < b:
            out.append(left[i])
            i += 1
        else:
            out.append(right[j])
            j += 1
    return out + left[i:] + right[j:]


def _without_directives(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key: _without_directives(child) for key, child in value.items() if key != PATCH and child is not None
    }
