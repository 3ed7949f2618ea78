"""Whether a value fits its structural schema: types, bounds, patterns, enums, list types.

Source: kube-openapi pkg/validation/validate, apiextensions-apiserver pkg/apiserver/validation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from gpuready_sim.apiserver import formats_of_values
from gpuready_sim.apiserver.field_errors import FieldError, TypeName, not_supported, shown
from gpuready_sim.apiserver.schema import INT_OR_STRING, MAP, SET, Schema

NUMBERS: Final = (int, float)


def validate_value(value: Any, schema: Schema, path: str, errors: list[FieldError]) -> None:
    """Append everything wrong with the value at `path` and below it."""
    if value is None:
        if not schema.nullable and schema.type:
            errors.append(_mismatch(value, schema, path))
        return
    if not _fits(value, schema.type):
        errors.append(_mismatch(value, schema, path))
        return
    if isinstance(value, dict):
        _object(value, schema, path, errors)
    elif isinstance(value, list):
        _array(value, schema, path, errors)
    elif isinstance(value, str):
        errors += _string(value, schema.node, path)
    elif isinstance(value, NUMBERS) and not isinstance(value, bool):
        errors += _number(value, schema.node, path)
    if "enum" in schema.node and value not in schema.node["enum"]:
        errors.append(_outside_enum(value, schema, path))
    if any(key in schema.node for key in JUNCTORS):
        errors += _junctors(value, schema, path)


def _object(value: dict[str, Any], schema: Schema, path: str, errors: list[FieldError]) -> None:
    for name in schema.required:
        if name not in value:
            errors.append(FieldError(f"{path}.{name}", "Required"))
    properties, additional = schema.properties, schema.additional
    for name, child in value.items():
        field = properties.get(name) or additional
        if field is not None:
            validate_value(child, field, f"{path}.{name}" if name in properties else _key(path, name), errors)
    most, least = schema.node.get("maxProperties"), schema.node.get("minProperties")
    if most is not None and len(value) > most:
        errors.append(FieldError(path, "TooMany", len(value), f"must have at most {most} items"))
    if least is not None and len(value) < least:
        errors.append(
            FieldError(path, "Invalid", len(value), f"{path} in body should have at least {least} properties")
        )
    if schema.node.get("x-kubernetes-embedded-resource"):
        errors += _embedded(value, path)


def _key(path: str, name: str) -> str:
    return f"{path}.{name}"


def _embedded(value: dict[str, Any], path: str) -> Iterator[FieldError]:
    for name in ("apiVersion", "kind"):
        if not value.get(name):
            yield FieldError(f"{path}.{name}", "Required", detail="must not be empty")


def _array(value: list[Any], schema: Schema, path: str, errors: list[FieldError]) -> None:
    element = schema.items
    if element is not None:
        for i, item in enumerate(value):
            validate_value(item, element, f"{path}[{i}]", errors)
    most, least = schema.node.get("maxItems"), schema.node.get("minItems")
    if most is not None and len(value) > most:
        errors.append(FieldError(path, "TooMany", len(value), f"must have at most {most} items"))
    if least is not None and len(value) < least:
        errors.append(
            FieldError(path, "Invalid", len(value), f"{path} in body should have at least {least} items")
        )
    if schema.relation == SET or schema.node.get("uniqueItems"):
        errors += _duplicates(value, [json.dumps(item, sort_keys=True) for item in value], path)
    elif schema.relation == MAP:
        errors += _duplicate_keys(value, schema, path)


def _duplicates(items: list[Any], keys: list[str], path: str) -> Iterator[FieldError]:
    seen = set()
    for i, (item, key) in enumerate(zip(items, keys, strict=True)):
        if key in seen:
            yield FieldError(f"{path}[{i}]", "Duplicate", item)
        seen.add(key)


def _duplicate_keys(items: list[Any], schema: Schema, path: str) -> Iterator[FieldError]:
    found = [
        {key: item.get(key, schema.key_defaults.get(key)) for key in schema.list_map_keys}
        for item in items
        if isinstance(item, dict)
    ]
    identities = [{key: value for key, value in one.items() if value is not None} for one in found]
    return _duplicates(identities, [json.dumps(one, sort_keys=True) for one in identities], path)


def _string(value: str, node: dict[str, Any], path: str) -> Iterator[FieldError]:
    most, least, pattern = node.get("maxLength"), node.get("minLength"), node.get("pattern")
    if most is not None and len(value) > most:
        yield FieldError(path, "TooLong", detail=f"may not be more than {most} bytes")
    if least is not None and len(value) < least:
        yield FieldError(path, "Invalid", value, f"{path} in body should be at least {least} chars long")
    if pattern is not None and not _compiled(pattern).search(value):
        yield FieldError(path, "Invalid", value, f"{path} in body should match '{pattern}'")
    form = node.get("format")
    if form and not formats_of_values.fits(value, form):
        yield FieldError(path, "Invalid", value, f"{path} in body must be of type {form}: {shown(value)}")


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Go's \\z and named groups apart, the patterns that CRDs use mean the same to Python; $ does not."""
    return re.compile(re.sub(r"(?<!\\)\$(?=$|\||\))", r"\\Z", pattern), re.ASCII)


def _number(value: int | float, node: dict[str, Any], path: str) -> Iterator[FieldError]:
    most, least, step = node.get("maximum"), node.get("minimum"), node.get("multipleOf")
    if most is not None and (value > most or (node.get("exclusiveMaximum") and value == most)):
        words = "less than" if node.get("exclusiveMaximum") else "less than or equal to"
        yield FieldError(path, "Invalid", value, f"{path} in body should be {words} {shown(most)}")
    if least is not None and (value < least or (node.get("exclusiveMinimum") and value == least)):
        words = "greater than" if node.get("exclusiveMinimum") else "greater than or equal to"
        yield FieldError(path, "Invalid", value, f"{path} in body should be {words} {shown(least)}")
    if step and value % step:
        yield FieldError(path, "Invalid", value, f"{path} in body should be a multiple of {shown(step)}")
    bits = {"int32": 31, "int64": 63}.get(node.get("format", ""))
    if bits and node.get("type") == "integer" and not -(2**bits) <= value < 2**bits:
        detail = f"Checked value must be of type integer with format {node['format']} in {path}"
        yield FieldError(path, "Invalid", value, detail)


def _outside_enum(value: Any, schema: Schema, path: str) -> FieldError:
    allowed = schema.node["enum"]
    if all(isinstance(one, str) for one in allowed):
        return not_supported(path, value, allowed)
    detail = "supported values: " + ", ".join(
        f'"{one}"' if not isinstance(one, str) else shown(one) for one in allowed
    )
    return FieldError(path, "NotSupported", value, detail)


JUNCTORS: Final = ("allOf", "anyOf", "oneOf", "not")


def _junctors(value: Any, schema: Schema, path: str) -> list[FieldError]:
    def wrong(node: dict[str, Any]) -> list[FieldError]:
        found: list[FieldError] = []
        validate_value(value, Schema(node), path, found)
        return found

    errors: list[FieldError] = []
    node = schema.node
    for part in node.get("allOf", ()):
        errors += wrong(part)
    if "anyOf" in node and not any(not wrong(part) for part in node["anyOf"]):
        errors.append(_invalid(value, path, f"{path} in body must validate at least one schema (anyOf)"))
    if "oneOf" in node:
        fitting = sum(not wrong(part) for part in node["oneOf"])
        if fitting != 1:
            text = f"{path} in body must validate one and only one schema (oneOf)."
            if fitting:
                text += f" Found {fitting} valid alternatives"
            else:
                text += " Found none valid"
            errors.append(_invalid(value, path, text))
    if "not" in node and not wrong(node["not"]):
        errors.append(_invalid(value, path, f"{path} in body must not validate the schema (not)"))
    return errors


def _invalid(value: Any, path: str, text: str) -> FieldError:
    return FieldError(
        path, "Invalid", value if isinstance(value, (str, int, float)) else TypeName(json_kind(value)), text
    )


def _fits(value: Any, kind: str) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if kind == "object":
        return isinstance(value, dict)
    if kind == "array":
        return isinstance(value, list)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "integer":
        return _is_integer(value)
    if kind == "number":
        return isinstance(value, NUMBERS) and not isinstance(value, bool)
    if kind == INT_OR_STRING:
        return isinstance(value, str) or _is_integer(value)
    return True


def _is_integer(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def json_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float) and not value.is_integer():
        return "number"
    names = {int: "integer", float: "integer", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _mismatch(value: Any, schema: Schema, path: str) -> FieldError:
    kind = json_kind(value)
    wanted = "integer,string" if schema.type == INT_OR_STRING else schema.type
    detail = f'{path} in body must be of type {wanted}: "{kind}"'
    return FieldError(path, "TypeInvalid", TypeName(kind), detail)
