"""From a model to the structural OpenAPI v3 schema that a CRD needs.

Everything is inlined, objects list their properties, `int | str` is int-or-string, free maps keep unknown
fields. What `doc()` said of a field (description, default, enum …) goes beside its type.

Source of the rules: Kubernetes, "Specifying a structural schema".
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

Schema = dict[str, Any]


def schema_of(model: type[msgspec.Struct]) -> Schema:
    return _schema(inspect.type_info(model))


def _schema(kind: inspect.Type) -> Schema:
    if isinstance(kind, inspect.Metadata):
        extra = kind.extra_json_schema or {}
        inner = _schema(kind.type)
        # The field's description is closer to the reader than the one of its type.
        return _ordered({**inner, **extra})
    if isinstance(kind, inspect.StructType):
        return _struct(kind)
    if isinstance(kind, inspect.UnionType):
        return _union(kind)
    if isinstance(kind, inspect.ListType):
        return {"type": "array", "items": _schema(kind.item_type), "x-kubernetes-list-type": "atomic"}
    if isinstance(kind, inspect.DictType):
        return _map(kind)
    return _scalar(kind)


def _struct(kind: inspect.StructType) -> Schema:
    properties = {field.encode_name: _schema(field.type) for field in kind.fields}
    schema: Schema = {"type": "object", "properties": properties}
    required = [field.encode_name for field in kind.fields if field.required]
    if required:
        schema["required"] = required
    return schema


def _union(kind: inspect.UnionType) -> Schema:
    kinds = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    if len(kinds) == 1:
        return _schema(kinds[0])
    names = {type(each) for each in kinds}
    if names == {inspect.IntType, inspect.StrType}:
        return {"x-kubernetes-int-or-string": True}
    raise TypeError(f"a structural schema has no form for {kind}")


def _map(kind: inspect.DictType) -> Schema:
    value = kind.value_type
    if isinstance(value, inspect.AnyType):
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"type": "object", "additionalProperties": _schema(value)}


def _scalar(kind: inspect.Type) -> Schema:
    if isinstance(kind, inspect.BoolType):
        return {"type": "boolean"}
    if isinstance(kind, inspect.IntType):
        return {"type": "integer"}
    if isinstance(kind, inspect.FloatType):
        return {"type": "number"}
    if isinstance(kind, inspect.StrType):
        return {"type": "string"}
    raise TypeError(f"a structural schema has no form for {kind}")


_FIRST = ("description", "type", "default", "enum", "pattern", "minimum", "maximum")


def _ordered(schema: Schema) -> Schema:
    """Small facts first, nested ones last, so that the YAML reads well."""
    first = {key: schema[key] for key in _FIRST if key in schema}
    return first | {key: value for key, value in schema.items() if key not in first}
