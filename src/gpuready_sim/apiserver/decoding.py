"""How Go's JSON decoder fills Kubernetes' structs, and what it says of what it cannot read. Pure.

A value of the wrong type is noted and reading goes on; a type that reads itself (quantities, times, amounts
that may be a number or a text) ends it. So the words of the first such type are told, else the first note.

Source: sigs.k8s.io/json, internal/golang/encoding/json/decode.go; apimachinery pkg/api/resource/quantity.go,
pkg/apis/meta/v1/{time,micro_time}.go, pkg/util/intstr/intstr.go.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, replace
from typing import Any, Final

from gpuready_sim.apiserver import go_time, go_types, quantity
from gpuready_sim.apiserver.field_errors import FieldError
from gpuready_sim.apiserver.go_types import GoField
from gpuready_sim.apiserver.go_values import Number, kind_of, text_of
from gpuready_sim.apiserver.schema import INT_OR_STRING, QUANTITY, Schema

Object = dict[str, Any]

# What a null in a list of structs becomes: an empty struct. The kind's rules are asked once it is that.
NULL_ELEMENT: Final = "NullElement"
BASE64: Final = frozenset(string.ascii_letters + string.digits + "+/")
_INT32: Final = "int32"


@dataclass(frozen=True)
class _Place:
    """Where a value stands.

    path    as people read it: spec.volumes[0].configMap
    fields  as Go's decoder names it: spec.volumes.VolumeSource.configMap
    holder  the struct whose field it is in
    types   what Go calls its type, and those of its elements
    """

    path: str = ""
    fields: str = ""
    holder: str = ""
    types: tuple[str, ...] = ()

    def field(self, holder: Schema, name: str, found: GoField) -> _Place:
        steps = [step for step in (self.fields, *found.through, name) if step]
        path = f"{self.path}.{name}" if self.path else name
        return _Place(path, ".".join(steps), holder.ref.rpartition(".")[2], found.types)

    def element(self, index: int) -> _Place:
        return replace(self, path=f"{self.path}[{index}]", types=self.types[1:])

    def value(self, key: str) -> _Place:
        """Of a map, which Go names without its key."""
        return replace(self, path=f"{self.path}.{key}", types=self.types[1:])


class _Ended(Exception):
    """A type that reads itself has refused its value."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(error.detail)
        self.error = error


def shape_errors(value: Any, schema: Schema, *, strict: bool) -> list[FieldError]:
    """Everything wrong with the shape of an object: Unknown, Decode and NULL_ELEMENT."""
    errors: list[FieldError] = []
    try:
        _walk(value, schema, _Place(), errors, strict)
    except _Ended as exc:
        return [exc.error]
    return errors


def first_misread(value: Any, schema: Schema, path: str, holder: str = "") -> str:
    """What the decoder says of the first value that it cannot read; empty when there is none."""
    errors: list[FieldError] = []
    try:
        _walk(value, schema, _Place(path, path, holder), errors, strict=False)
    except _Ended as exc:
        return exc.error.message()
    return next((error.message() for error in errors if error.type == "Decode"), "")


def _walk(value: Any, schema: Schema, place: _Place, errors: list[FieldError], strict: bool) -> None:
    if value is None:
        return
    kind = schema.type
    if why := _refused_by_itself(value, schema, place):
        raise _Ended(FieldError(place.path, "Decode", value, why))
    if kind == "object":
        if isinstance(value, dict):
            _walk_object(value, schema, place, errors, strict)
        elif not _reads_itself(schema):
            errors.append(_mismatch(value, schema, place))
    elif kind == "array":
        if isinstance(value, list):
            _walk_list(value, schema, place, errors, strict)
        else:
            errors.append(_mismatch(value, schema, place))
    elif schema.node.get("format") == "byte":
        _walk_bytes(value, schema, place, errors)
    elif kind and not (fits(value, kind) and _is_in_range(value, schema)):
        errors.append(_mismatch(value, schema, place))


def _walk_list(
    value: list[Any], schema: Schema, place: _Place, errors: list[FieldError], strict: bool
) -> None:
    element = schema.element()
    for i, item in enumerate(value):
        at = place.element(i)
        if item is None and element.type == "object":
            errors.append(FieldError(at.path, NULL_ELEMENT))
        _walk(item, element, at, errors, strict)


def _walk_object(
    value: Object, schema: Schema, place: _Place, errors: list[FieldError], strict: bool
) -> None:
    properties = schema.properties
    if not properties:
        if schema.additional is not None:
            for name, child in value.items():
                _walk(child, schema.additional, place.value(name), errors, strict)
        return
    for name, child in value.items():
        field = properties.get(name)
        if field is None:
            at = f"{place.path}.{name}" if place.path else name
            errors.append(FieldError(at, "Unknown", warning=not strict))
        else:
            _walk(child, field, place.field(schema, name, go_types.field_of(schema, name)), errors, strict)


def _walk_bytes(value: Any, schema: Schema, place: _Place, errors: list[FieldError]) -> None:
    """Base64, or one by one."""
    if isinstance(value, str):
        if (at := wrong_byte(value)) is not None:
            errors.append(FieldError(place.path, "Decode", value, f"illegal base64 data at input byte {at}"))
    elif not isinstance(value, list):
        errors.append(_mismatch(value, schema, place))
    else:
        one = replace(place, types=("uint8",))
        errors += [_mismatch(item, schema, one) for item in value if not _is_byte(item)]


def _is_byte(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 256)


# --- types that read themselves ---


def _reads_itself(schema: Schema) -> bool:
    """Types of any shape: FieldsV1, JSON, RawExtension."""
    return schema.type == "object" and not schema.properties and schema.additional is None


def _refused_by_itself(value: Any, schema: Schema, place: _Place) -> str:
    if schema.type == QUANTITY:
        return quantity.complaint(text_of(value) if isinstance(value, float) else value)
    if schema.type == INT_OR_STRING:
        if isinstance(value, str) or (_is_integer(value) and -(2**31) <= value < 2**31):
            return ""
        return _words(value, _INT32, place)
    form = schema.node.get("format")
    if form != "date-time":
        return ""
    if not isinstance(value, str):
        return _words(value, "string", place)
    return go_time.complaint(value, time_layout(schema))


def time_layout(schema: Schema) -> str:
    return go_time.MICROSECONDS if schema.ref.endswith(".MicroTime") else go_time.SECONDS


def wrong_byte(text: str) -> int | None:
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


# --- plain types ---


def fits(value: Any, kind: str) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in (INT_OR_STRING, QUANTITY):
        return True  # they have read themselves
    if kind == "integer":
        return _is_integer(value)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    """Written without a point or an exponent."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_in_range(value: Any, schema: Schema) -> bool:
    """Go reads whole numbers into 32 bits, or into 64."""
    if schema.type == "number":
        return not isinstance(value, Number) or abs(value) != float("inf")
    if schema.type != "integer":
        return True
    bits = 64 if schema.node.get("format") == "int64" else 32
    return bool(-(2 ** (bits - 1)) <= value < 2 ** (bits - 1))


def _mismatch(value: Any, schema: Schema, place: _Place) -> FieldError:
    wanted = place.types[0] if place.types else go_types.name_of(schema)
    return FieldError(place.path, "Decode", value, _words(value, wanted, place))


_TOLD_WITH_ITS_TEXT = ("int32", "int64", "uint8", "float64")


def _words(value: Any, wanted: str, place: _Place) -> str:
    given = kind_of(value)
    if given == "number" and wanted in _TOLD_WITH_ITS_TEXT:
        given = f"number {text_of(value)}"
    where = f"Go struct field {place.holder}.{place.fields}" if place.fields else "Go value"
    return f"json: cannot unmarshal {given} into {where} of type {wanted}"
