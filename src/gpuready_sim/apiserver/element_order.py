"""In which order a strategic merge leaves the elements of a list, and how it tells them apart. Pure.

Source: kubernetes, apimachinery pkg/util/strategicpatch/patch.go, pkg/util/mergepatch/errors.go.
"""

from __future__ import annotations

from typing import Any, Final

from gpuready_sim.apiserver.go_values import printed, reflect_kind, type_of
from gpuready_sim.apiserver.json_patch import REJECTED, PatchError

PATCH: Final = "$patch"
ELEMENT_ORDER: Final = "$setElementOrder"

Object = dict[str, Any]


def check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """The elements of the patch stand in its order, too."""
    if not order or not patch:
        return
    kept = [item for item in patch if not key or _map(item).get(PATCH) != "delete"]
    i = j = 0
    while i < len(kept) and j < len(order):
        if isinstance(kept[i], dict) and PATCH in kept[i]:
            i += 1
            continue
        if _is_the_same_element(kept[i], order[j], key):
            i += 1
        j += 1
    if i < len(kept):
        raise failed(
            f"The order in patch list:\n{printed(patch)}\n doesn't match {ELEMENT_ORDER} list:\n"
            f"{printed(order)}\n"
        )


def _is_the_same_element(left: Any, right: Any, key: str) -> bool:
    if not key:
        return same(left, right)
    for item in (_map(left), _map(right)):
        if key not in item:
            raise keyless(item, key)
    return same(left[key], right[key])


def ordered(
    items: list[Any],
    order: list[Any],
    live: list[Any],
    key: str,
    *,
    of_maps: bool | None = None,
    sample: tuple[list[Any], list[Any]] = ([], []),
) -> list[Any]:
    """What `order` names in its order, the others in that of the live list, both as one.

    of_maps   what the elements are; where it is not known, the sample tells
    """
    named: tuple[list[Any], list[Any]] = ([], [])
    for item in items:
        named[0 if _is_named(item, order, key) else 1].append(item)
    if of_maps is None:
        of_maps = holds_maps(*sample)
    mine = _sorted(named[0], order, key, of_maps)
    others = _sorted(named[1], live, key, of_maps)
    return _interleaved(others, mine, live, key if of_maps else "")


def _is_named(item: Any, order: list[Any], key: str) -> bool:
    if not key:
        return holds(order, item)
    if key not in _map(item):
        raise keyless(item, key)
    return find(order, key, item[key]) is not None


def _sorted(items: list[Any], order: list[Any], key: str, of_maps: bool) -> list[Any]:
    """Sorted by insertion: an element that the order does not name moves before those in front of it."""
    if of_maps:
        for item in (*items, *order):
            if key not in _map(item):
                raise keyless(item, key)
    out = [item for item in items if not (of_maps and item.get(PATCH) == "delete")]
    for end in range(1, len(out)):
        for at in range(end, 0, -1):
            places = [_index(order, item, key if of_maps else "") for item in (out[at], out[at - 1])]
            if places[0] >= 0 and places[1] >= 0 and places[0] >= places[1]:
                break
            out[at], out[at - 1] = out[at - 1], out[at]
    return out + [item for item in items if of_maps and item.get(PATCH) == "delete"]


def _interleaved(left: list[Any], right: list[Any], live: list[Any], key: str) -> list[Any]:
    """An element of `left` goes first where both stand in the live list, and it in front."""
    out: list[Any] = []
    i = j = 0
    while i < len(left) and j < len(right):
        a, b = _index(live, left[i], key), _index(live, right[j], key)
        if 0 <= a < b:
            out.append(left[i])
            i += 1
        else:
            out.append(right[j])
            j += 1
    return out + left[i:] + right[j:]


# --- elements ---


def holds_maps(*lists: list[Any]) -> bool:
    """
    raises  PatchError for lists of several kinds of values, of lists, or of nothing
    """
    kinds = {reflect_kind(item) if item is not None else "nil" for items in lists for item in items}
    if not kinds:
        raise failed("no elements in any of the given slices")
    if len(kinds) > 1:
        shown = " ".join(map(printed, lists))
        raise failed(f"list element types are not identical: [{shown}]")
    if "slice" in kinds:
        raise PatchError("lists of lists are not supported", status_message=REJECTED)
    return "map" in kinds


def _map(value: Any) -> Object:
    if not isinstance(value, dict):
        raise failed(f"expected a map[string]interface {{}}, but received a {type_of(value)}")
    return value


def keyless(item: Object, key: str) -> PatchError:
    return failed(f"map: {printed(item)} does not contain declared merge key: {key}")


def find(items: list[Any], key: str, value: Any) -> int | None:
    for at, item in enumerate(items):
        if not isinstance(item, dict):
            raise failed(f"value for key {at} is not a map")
        if key in item and same(item[key], value):
            return at
    return None


def _index(items: list[Any], wanted: Any, key: str) -> int:
    """-1 when it is not there."""

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    return next((at for at, item in enumerate(items) if same(identity(item), identity(wanted))), -1)


def holds(items: list[Any], wanted: Any) -> bool:
    return any(same(item, wanted) for item in items)


def same(left: Any, right: Any) -> bool:
    """As Go compares what it knows no type of: 1 is neither 1.0 nor true."""
    return type(left) is type(right) and bool(left == right)


def as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise failed(f"expected a []interface {{}}, but received a {type_of(value)}")
    return value


def failed(message: str) -> PatchError:
    """An error that the server did not expect of a client."""
    return PatchError(message, code=500, reason="")
