"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386). Pure: inputs are never changed.

Errors carry the status that the API server answers with. Source: RFCs; kubernetes, apiserver
pkg/endpoints/handlers/patch.go; evanphx/json-patch for what it tolerates.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any

from gpuready_sim.apiserver.go_values import Number, json_text

REJECTED = "the server rejected our request due to an error in our request"


class PatchError(Exception):
    """A patch that cannot be read (400 BadRequest) or does not fit the object (422 Invalid)."""

    def __init__(
        self, message: str, *, code: int = 422, reason: str = "Invalid", status_message: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.status_message = status_message or message  # what Status.message says


def bad_request(message: str) -> PatchError:
    return PatchError(message, code=400, reason="BadRequest")


def merge_patch(obj: Any, patch: Any) -> Any:
    """The object after a merge patch: null deletes, objects merge, anything else replaces.

    The keys of what it touches are in order then, in which they are decoded.
    """
    return _merged(obj, patch) if isinstance(patch, dict) else _without_nulls(patch)


def _merged(obj: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch if isinstance(obj, dict) else _without_nulls(patch)
    out = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = _merged(out.get(key), value)
    return dict(sorted(out.items()))


def _without_nulls(value: Any) -> Any:
    """Of the objects in lists, too."""
    if isinstance(value, dict):
        return {key: _without_nulls(value[key]) for key in sorted(value) if value[key] is not None}
    return [_without_nulls(child) for child in value] if isinstance(value, list) else value


def json_patch(obj: Any, ops: Sequence[dict[str, Any]]) -> Any:
    """The object after all operations; one that fails fails the whole patch.

    raises   PatchError
    """
    if not isinstance(ops, list) or not all(isinstance(op, dict | None) for op in ops):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    doc = copy.deepcopy(obj)
    for op in ops:
        doc = _operation(op or {})(doc, op)
    return doc


def _operation(op: dict[str, Any]) -> Callable[[Any, dict[str, Any]], Any]:
    name = op.get("op")
    if not isinstance(name, str) or name not in OPERATIONS:
        raise _misfit(f"unexpected kind: {name}")
    if not isinstance(op.get("path"), str):
        raise _misfit(f"{name} operation without a path")
    return OPERATIONS[name]


def _add(doc: Any, op: dict[str, Any]) -> Any:
    """Not to the whole document, which only `replace` replaces; without a value it adds null."""
    path = _pointer(op["path"])
    return _put(doc, path, copy.deepcopy(op.get("value")), "add")


def _remove(doc: Any, op: dict[str, Any]) -> Any:
    _taken(doc, _pointer(op["path"]), "remove")
    return doc


def _replace(doc: Any, op: dict[str, Any]) -> Any:
    """Of a key that is not there, too: the library behind the real server lets it pass."""
    path = _pointer(op["path"])
    value = copy.deepcopy(_value(op))
    if not path:
        return value
    parent = _parent(doc, path, "replace")
    if isinstance(parent, list):
        parent[_index(path[-1], len(parent), "replace")] = value
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise _missing("replace", path)
    return doc


def _move(doc: Any, op: dict[str, Any]) -> Any:
    """What is moved is away before its destination is looked for."""
    value = _taken(doc, _pointer(_from(op)), "move")
    return _put(doc, _pointer(op["path"]), value, "move")


def _copy(doc: Any, op: dict[str, Any]) -> Any:
    """Of a key that is not there it copies null, as the library behind the real server."""
    path = _pointer(_from(op))
    if not path:
        raise _missing("copy", path)
    parent = _parent(doc, path, "copy")
    missing = isinstance(parent, dict) and path[-1] not in parent
    value = None if missing else copy.deepcopy(_found(doc, path, "copy"))
    return _put(doc, _pointer(op["path"]), value, "copy")


def _test(doc: Any, op: dict[str, Any]) -> Any:
    wanted, path = op.get("value"), _pointer(op["path"])
    parent = _parent(doc, path, "test") if path else None
    missing = isinstance(parent, dict) and path[-1] not in parent
    actual = None if missing else _found(doc, path, "test")
    if not _same(actual, wanted):
        raise _misfit(f"testing value {op['path']} failed: test failed")
    return doc


OPERATIONS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _misfit(message: str) -> PatchError:
    return PatchError(message, status_message=REJECTED)


def _value(op: dict[str, Any]) -> Any:
    if "value" not in op:
        raise _misfit(f"{op['op']} operation without a value")
    return op["value"]


def _from(op: dict[str, Any]) -> str:
    if not isinstance(op.get("from"), str):
        raise _misfit(f"{op['op']} operation without from")
    return str(op["from"])


def _pointer(path: str) -> list[str]:
    """What stands before the first slash is passed over, whatever it is."""
    if path == "":
        return []
    if "/" not in path:
        raise _misfit(f"{path!r} is not a JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _put(doc: Any, path: list[str], value: Any, op: str) -> Any:
    if not path:
        raise _missing(op, path)
    parent = _parent(doc, path, op)
    if isinstance(parent, list):
        at = len(parent) if path[-1] == "-" else _index(path[-1], len(parent) + 1, op)
        parent.insert(at, value)
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise _missing(op, path)
    return doc


def _taken(doc: Any, path: list[str], op: str) -> Any:
    if not path:
        raise _misfit(f"{op} operation does not apply to the whole document")
    parent = _parent(doc, path, op)
    _existing(parent, path[-1], op, "/" + "/".join(path))
    return parent.pop(_index(path[-1], len(parent), op) if isinstance(parent, list) else path[-1])


def _found(doc: Any, path: list[str], op: str) -> Any:
    if not path:
        return doc
    parent = _parent(doc, path, op)
    _existing(parent, path[-1], op, "/" + "/".join(path))
    return parent[_index(path[-1], len(parent), op)] if isinstance(parent, list) else parent[path[-1]]


def _parent(doc: Any, path: list[str], op: str) -> Any:
    for part in path[:-1]:
        if isinstance(doc, list):
            doc = doc[_index(part, len(doc), op)]
        elif isinstance(doc, dict) and part in doc:
            doc = doc[part]
        else:
            raise _missing(op, path)
    return doc


def _existing(parent: Any, name: str, op: str, path: str) -> None:
    there = name in parent if isinstance(parent, dict) else isinstance(parent, list)
    if not there:
        raise _misfit(f"{op} operation does not apply: doc is missing key: {path}: missing value")


_GO_NUMBER = re.compile(r"[+-]?[0-9]+")


def _index(text: str, length: int, op: str) -> int:
    """As Go reads a number; a negative one counts from the end."""
    if not _GO_NUMBER.fullmatch(text):
        raise _misfit(f"{op} operation does not apply: {text!r} is not an array index")
    index = int(text)
    if not -length <= index < length:
        raise _misfit(f"{op} operation does not apply: index {text} is out of bounds")
    return index if index >= 0 else index + length


def _missing(op: str, path: list[str]) -> PatchError:
    return _misfit(f"{op} operation does not apply: doc is missing path: /{'/'.join(path)}: missing value")


def _same(a: Any, b: Any) -> bool:
    """Equal as JSON texts: neither true nor 1.0 is 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return _as_written(a) == _as_written(b)
    return bool(a == b)


def _as_written(value: Any) -> str:
    if isinstance(value, Number):
        return value.text
    return json_text(value) if isinstance(value, (int, float)) else ""
