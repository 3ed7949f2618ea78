"""How Go fills its structs from maps, where no text is decoded: after a strategic merge and after an apply.

Whole floats become integers here, and integers that are too large are cut off. Pure.

Source: kubernetes, apimachinery/pkg/runtime/converter.go, fromUnstructured.
"""

from __future__ import annotations

from typing import Any

from gpuready_sim.apiserver import go_time, go_types, quantity
from gpuready_sim.apiserver.decoding import time_layout, wrong_byte
from gpuready_sim.apiserver.go_values import json_text, kind_of, reflect_kind
from gpuready_sim.apiserver.schema import INT_OR_STRING, QUANTITY, Schema

_KINDS = {"boolean": "bool", "number": "float64"}


class Unrestorable(ValueError):
    """A value that has no place in its struct; what Go says of it."""


def restored(value: Any, schema: Schema, types: tuple[str, ...] = ()) -> Any:
    """The value as its struct holds it.

    types   what Go calls its type, and those of its elements
    raises  Unrestorable with the first that does not fit, by the names of fields
    """
    if value is None or not schema.type:
        return value
    if schema.type == "object":
        return _map(value, schema, types)
    if schema.type == "array":
        return _list(value, schema, types)
    if schema.node.get("format") == "byte":
        return _bytes(value)
    if schema.type in (QUANTITY, INT_OR_STRING) or schema.node.get("format") == "date-time":
        return _by_itself(value, schema)
    return _plain(value, schema, types)


def _map(value: Any, schema: Schema, types: tuple[str, ...]) -> Any:
    if not schema.properties and schema.additional is None:
        return value
    if not isinstance(value, dict):
        target = "struct from:" if schema.properties else "map from"
        raise Unrestorable(f"cannot restore {target} {reflect_kind(value)}")
    out = dict(value)
    for name in sorted(value):
        if schema.additional is not None and not schema.properties:
            out[name] = restored(value[name], schema.additional, types[1:])
        elif name in schema.properties:
            found = go_types.field_of(schema, name)
            out[name] = restored(value[name], schema.properties[name], found.types)
    return out


def _list(value: Any, schema: Schema, types: tuple[str, ...]) -> Any:
    if not isinstance(value, list):
        raise Unrestorable(f"cannot restore slice from {reflect_kind(value)}")
    element = schema.element()
    return [restored(item, element, types[1:]) for item in value]


def _bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_byte(one) for one in value]
    if not isinstance(value, str):
        raise Unrestorable(f"cannot restore slice from {reflect_kind(value)}")
    if (at := wrong_byte(value)) is not None:
        raise Unrestorable(f"error decoding from json: illegal base64 data at input byte {at}")
    return value


def _byte(value: Any) -> Any:
    if value is None:
        return 0
    if reflect_kind(value) not in ("int64", "float64"):
        raise Unrestorable("unrecognized type: uint8")
    if not float(value).is_integer():
        raise Unrestorable("cannot convert float64 to uint8")
    return int(value) % 256


def _by_itself(value: Any, schema: Schema) -> Any:
    """What is written as JSON and read again."""
    why = ""
    number = json_text(value) if kind_of(value) == "number" else ""
    if schema.type == QUANTITY:
        why = quantity.complaint(number or value)
        return number if number and not why else _unless(why, value)
    if schema.type == INT_OR_STRING and not isinstance(value, str):
        if number.lstrip("-").isdigit() and -(2**31) <= int(number) < 2**31:
            return int(number)
        why = _unmarshalled(f"number {number}" if number else kind_of(value), "int32")
    elif schema.type != INT_OR_STRING:
        is_text = isinstance(value, str)
        why = (
            go_time.complaint(value, time_layout(schema))
            if is_text
            else _unmarshalled(kind_of(value), "string")
        )
    return _unless(why, value)


def _unless(why: str, value: Any) -> Any:
    if why:
        raise Unrestorable(why)
    return value


def _unmarshalled(given: str, wanted: str) -> str:
    return f"json: cannot unmarshal {given} into Go value of type {wanted}"


def _plain(value: Any, schema: Schema, types: tuple[str, ...]) -> Any:
    """Bools, texts and numbers: only between numbers values are converted."""
    kind, given = schema.type, reflect_kind(value)
    bits = 64 if schema.node.get("format") == "int64" else 32
    if given == {"boolean": "bool"}.get(kind, kind):
        return value
    if kind == "integer" and given == "int64":
        return _cut(value, bits)
    if kind == "integer" and given == "float64" and float(value).is_integer():
        return _cut(int(value) if abs(value) < 2**63 else -(2**63), bits)
    if kind == "number" and given in ("int64", "float64"):
        return value
    if (kind, given) in (("integer", "float64"), ("string", "int64")):
        raise Unrestorable(f"cannot convert {given} to {types[0] if types else go_types.name_of(schema)}")
    raise Unrestorable(f"unrecognized type: {_KINDS.get(kind, f'int{bits}' if kind == 'integer' else kind)}")


def _cut(value: int, bits: int) -> int:
    """As many bits as its type has."""
    half: int = 1 << (bits - 1)
    return (value + half) % (2 * half) - half
