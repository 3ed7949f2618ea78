"""Whether an object of a built-in kind is acceptable: first its shape, then what its kind demands.

The shape is what a Go server finds while decoding (unknown fields, wrong types); the rest is validation
proper and lives in `kind_rules`. Pure.
"""

from __future__ import annotations

import re
import string
from dataclasses import replace
from typing import Any, Final

from gpuready_sim.apiserver import kind_rules, names
from gpuready_sim.apiserver.field_errors import FieldError
from gpuready_sim.apiserver.quantity import MESSAGE, canonical_quantity, is_quantity
from gpuready_sim.apiserver.schema import INT_OR_STRING, QUANTITY, Schema

Object = dict[str, Any]

BASE64: Final = frozenset(string.ascii_letters + string.digits + "+/")
ZERO_VALUES: Final[dict[str, Any]] = {"string": "", "integer": 0, "boolean": False, QUANTITY: "0"}
# What a null in a map becomes: Go keeps its key.
NULL_ELEMENT: Final = "NullElement"
# A null among structs, which Go reads as an empty one: the kind's rules are asked once it is that.
TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


# Whose metadata is checked by what all servers share, not by what Kubernetes' own kinds have.
GENERIC_KINDS: Final = ("CustomResourceDefinition",)


def validate(obj: Object, schema: Schema | None, *, strict: bool) -> list[FieldError]:
    """Everything wrong with an object; decoding errors hide the rest, as they do in the real server."""
    errors: list[FieldError] = []
    if schema is not None:
        _walk(obj, schema, "", "", errors, strict)
    if any(error.type in ("Decode", NULL_ELEMENT) for error in errors):
        return [error for error in errors if error.type != NULL_ELEMENT]
    core = obj.get("kind") not in GENERIC_KINDS
    return errors + names.validate_metadata(obj, core=core) + kind_rules.validate(obj)


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Changes that the kind forbids."""
    return kind_rules.validate_update(new, old)


def decoded(value: Any, schema: Schema, *, keep_nulls: bool = False) -> Any:
    """As a typed server would decode it: no unknown fields, no nulls, quantities in canonical form."""
    if isinstance(value, dict):
        properties, values = schema.properties, schema.additional
        said = {name: child for name, child in value.items() if child is not None or keep_nulls}
        if properties:
            return {
                name: decoded(child, properties[name], keep_nulls=keep_nulls)
                for name, child in said.items()
                if name in properties
            }
        if values is not None:
            if not keep_nulls:
                said = value if values.type in ZERO_VALUES else said
                said = {
                    name: ZERO_VALUES[values.type] if child is None else child for name, child in said.items()
                }
            return {name: decoded(child, values, keep_nulls=keep_nulls) for name, child in said.items()}
    elif isinstance(value, list):
        element = schema.items
        if element is not None:
            empty: Any = None if keep_nulls or element.type != "object" else {}
            given = (empty if child is None else child for child in value)
            return [decoded(child, element, keep_nulls=keep_nulls) for child in given]
    elif schema.type == QUANTITY and is_quantity(value):
        return canonical_quantity(value)
    return value


def without_empty(value: Any, schema: Schema) -> Any:
    """Without the empty maps and lists that Go leaves out when it writes an object: all but required ones."""
    if isinstance(value, dict):
        return {
            name: without_empty(child, schema.child(name))
            for name, child in value.items()
            if child not in ({}, []) or name in schema.required or not _is_collection(schema.child(name))
        }
    if isinstance(value, list):
        element = schema.element()
        return [without_empty(child, element) for child in value]
    return value


def _is_collection(schema: Schema) -> bool:
    return schema.type == "array" or schema.additional is not None


def first_misread(value: Any, schema: Schema, path: str, holder: str = "") -> str:
    """What a Go server says of the first value that it cannot decode; empty when there is none."""
    errors: list[FieldError] = []
    _walk(value, schema, path, holder, errors, strict=False)
    return next((error.message() for error in errors if error.type == "Decode"), "")


def unrestorable(value: Any, schema: Schema) -> str:
    """What Go says when it cannot fill its structs from a map; empty when it can.

    Source: kubernetes, apimachinery/pkg/runtime/converter.go, fromUnstructured.
    """
    kind = schema.type
    if value is None or kind in ("", QUANTITY, INT_OR_STRING) or schema.node.get("format") == "date-time":
        return ""
    if kind == "object":
        return _unrestorable_map(value, schema)
    if kind == "array":
        return _unrestorable_list(value, schema)
    if schema.node.get("format") == "byte" or _fits(value, kind):
        return ""
    if kind == "string" and isinstance(value, int) and not isinstance(value, bool):
        return "cannot convert int64 to string"
    return f"unrecognized type: {_go_type(schema)}"


def _unrestorable_map(value: Any, schema: Schema) -> str:
    if not isinstance(value, dict):
        target = "struct from:" if schema.properties else "map from"
        return f"cannot restore {target} {_go_kind(value)}"
    found = (unrestorable(value[key], schema.child(key)) for key in sorted(value))
    return next((why for why in found if why), "")


def _unrestorable_list(value: Any, schema: Schema) -> str:
    if not isinstance(value, list):
        return f"cannot restore slice from {_go_kind(value)}"
    element = schema.element()
    return next((why for why in (unrestorable(one, element) for one in value) if why), "")


def _go_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    names = {dict: "map", list: "slice", str: "string", int: "int64"}
    return names.get(type(value), "float64")


def _walk(value: Any, schema: Schema, path: str, holder: str, errors: list[FieldError], strict: bool) -> None:
    if value is None:
        return
    kind = schema.type
    if kind == "object":
        if isinstance(value, dict):
            _walk_object(value, schema, path, holder, errors, strict)
        else:
            errors.append(_mismatch(value, schema, path, holder))
    elif kind == "array":
        if isinstance(value, list):
            element = schema.element()
            for i, item in enumerate(value):
                if item is None and element.type == "object":
                    errors.append(FieldError(f"{path}[{i}]", NULL_ELEMENT))
                _walk(item, element, f"{path}[{i}]", holder, errors, strict)
        else:
            errors.append(_mismatch(value, schema, path, holder))
    elif kind and not (_fits(value, kind) and _is_in_range(value, schema)):
        errors.append(_mismatch(value, schema, path, holder))
    else:
        text = _misread(value, schema)
        if text:
            errors.append(FieldError(path, "Decode", value, text))


def _walk_object(
    value: Object, schema: Schema, path: str, holder: str, errors: list[FieldError], strict: bool
) -> None:
    properties = schema.properties
    if not properties:
        if schema.additional is not None:
            for name, child in value.items():
                found: list[FieldError] = []
                _walk(child, schema.additional, path, holder, found, strict)  # Go names the map, not the key
                errors += [replace(e, path=f"{path}.{name}{e.path.removeprefix(path)}") for e in found]
        return
    holder = schema.ref.rpartition(".")[2]
    for name, child in value.items():
        at = f"{path}.{name}" if path else name
        field = properties.get(name)
        if field is None:
            errors.append(FieldError(at, "Unknown", warning=not strict))
        else:
            _walk(child, field, at, holder, errors, strict)


def _fits(value: Any, kind: str) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == INT_OR_STRING:
        return isinstance(value, (int, str)) and not isinstance(value, bool)
    if kind == QUANTITY:
        return isinstance(value, (int, float, str)) and not isinstance(value, bool)
    if kind == "integer":
        return _is_integer(value)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_in_range(value: Any, schema: Schema) -> bool:
    """Go reads whole numbers into 32 bits, or into 64."""
    if isinstance(value, str) or schema.type not in ("integer", INT_OR_STRING):
        return True
    bits = 64 if schema.node.get("format") == "int64" else 32
    return bool(-(2 ** (bits - 1)) <= value < 2 ** (bits - 1))


def _is_integer(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer()
    )


def _misread(value: Any, schema: Schema) -> str:
    """What Go's decoder says of a value of the right type that it cannot read, or nothing."""
    if schema.type == QUANTITY and not is_quantity(value):
        return MESSAGE
    form = schema.node.get("format")
    if form == "date-time" and not TIME.fullmatch(value):
        return f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"'
    if form == "byte" and (at := _wrong_byte(value)) is not None:
        return f"illegal base64 data at input byte {at}"
    return ""


def _wrong_byte(text: str) -> int | None:
    """Where Go stops reading base64; None when it reads it to its end.

    Source: Go, encoding/base64/base64.go, decodeQuantum.
    """
    read = text.replace("\r", "").replace("\n", "")
    for start in range(0, len(read), 4):
        part = read[start : start + 4]
        wrong = next((i for i, char in enumerate(part) if char not in BASE64), None)
        if wrong is None:
            if len(part) < 4:
                return start
        elif part[wrong] != "=" or wrong < 2:
            return start + wrong
        elif wrong == 2 and part[3:] != "=":
            return len(read) if len(part) < 4 else start + wrong
        else:
            return start + 4 if len(read) > start + 4 else None
    return None


def _mismatch(value: Any, schema: Schema, path: str, holder: str) -> FieldError:
    where = re.sub(r"\[\d+\]", "", path)
    whole = schema.type in ("integer", INT_OR_STRING)
    given = f"number {value}" if whole and _json_kind(value) == "number" else _json_kind(value)
    kind = "int32" if schema.type == INT_OR_STRING else _go_type(schema)
    text = f"json: cannot unmarshal {given} into Go struct field {holder}.{where}"
    return FieldError(path, "Decode", value, f"{text} of type {kind}")


def _json_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _go_type(schema: Schema) -> str:
    if schema.type == "array":
        return "[]" + _go_type(schema.element())
    if schema.additional is not None:
        return "map[string]" + _go_type(schema.additional)
    if schema.type == "integer":
        return str(schema.node.get("format", "int"))
    if schema.type == "object":
        package, _, name = schema.ref.rpartition(".")
        return f"{package.rpartition('.')[2] or 'v1'}.{name or 'object'}"
    return {"boolean": "bool", "number": "float64", INT_OR_STRING: "intstr.IntOrString"}.get(
        schema.type, schema.type
    )
