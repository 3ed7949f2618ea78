"""Whether a value fits its structural schema: types, bounds, patterns, enums, list types.

Source: kube-openapi pkg/validation/validate, apiextensions-apiserver pkg/apiserver/validation.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from gpuready_sim.apiserver import formats_of_values
from gpuready_sim.apiserver.field_errors import NOWHERE, FieldError, TypeName, not_supported, shown
from gpuready_sim.apiserver.fields import SchemaMismatch, element_key
from gpuready_sim.apiserver.go_values import Whole
from gpuready_sim.apiserver.schema import ANY, INT_OR_STRING, MAP, SET, Node, Schema

NUMBERS: Final = (int, float)
GREATEST_FLOAT: Final = 3.4028234663852886e38  # of 32 bits
GREATEST_WHOLE: Final = 2**53 - 1  # of those in a float that are told apart
ABSENT: Final[Any] = object()


def validate_value(
    value: Any, schema: Schema, path: str, errors: list[FieldError], old: Any = ABSENT
) -> None:
    """Append everything wrong with the value at `path` and below it; what was there before may stay wrong.

    old  the value that it replaces, ABSENT for none

    Source: kubernetes, apiextensions-apiserver pkg/apiserver/validation/ratcheting.go.
    """
    found: list[FieldError] = []
    _validate(value, schema, path, found, old)
    if found and not (old is not ABSENT and is_same(value, old)):
        errors += found


def is_same(value: Any, old: Any) -> bool:
    return bool(value == old) and str(value) == str(old)  # to Python, False is 0


def _validate(value: Any, schema: Schema, path: str, errors: list[FieldError], old: Any) -> None:
    if value is None:
        if not schema.nullable and schema.type:
            errors += _mismatches(value, schema, path)
        return
    if not _fits(value, schema.type):
        errors += _mismatches(value, schema, path)
    errors += _junctors(value, schema, path)
    if isinstance(value, str) and schema.type in ("string", INT_OR_STRING, ANY):
        errors += _string(value, schema.node, path)
    elif isinstance(value, NUMBERS) and not isinstance(value, bool):
        errors += _number(value, schema, path)
    elif isinstance(value, list) and schema.type in ("array", ANY):
        _array(value, schema, path, errors, old)
    if "enum" in schema.node and value not in schema.node["enum"]:
        errors.append(_outside_enum(value, schema, path))
    if isinstance(value, dict) and schema.type in ("object", ANY):
        _object(value, schema, path, errors, old)


def _object(value: dict[str, Any], schema: Schema, path: str, errors: list[FieldError], old: Any) -> None:
    most, least = schema.node.get("maxProperties"), schema.node.get("minProperties")
    if most is not None and len(value) > most:
        errors.append(FieldError(path, "TooMany", len(value), _at_most(most)))
    if least is not None and len(value) < least:
        errors.append(
            FieldError(path, "Invalid", len(value), f"{path} in body should have at least {least} properties")
        )
    for name in schema.required:
        if name not in value:
            errors.append(FieldError(below(path, name), "Required"))
    properties, additional = schema.properties, schema.additional
    before = old if isinstance(old, dict) else {}
    for name, child in value.items():
        field = properties.get(name) or additional
        if field is not None:
            validate_value(child, field, below(path, name), errors, before.get(name, ABSENT))


def below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def correlated(old: Any, schema: Schema) -> dict[str, Any]:
    """Old elements by their key; elements of other lists have no known predecessor."""
    if schema.relation != MAP or not isinstance(old, list):
        return {}
    try:
        return {element_key(item, schema): item for item in old}
    except SchemaMismatch:
        return {}


def predecessor(item: Any, schema: Schema, before: dict[str, Any]) -> Any:
    """
    before  see `correlated`
    """
    try:
        return before.get(element_key(item, schema), ABSENT) if before else ABSENT
    except SchemaMismatch:
        return ABSENT


def _array(value: list[Any], schema: Schema, path: str, errors: list[FieldError], old: Any) -> None:
    element = schema.items
    if element is not None:
        before = correlated(old, schema)
        for i, item in enumerate(value):
            validate_value(item, element, f"{path}[{i}]", errors, predecessor(item, schema, before))
    most, least = schema.node.get("maxItems"), schema.node.get("minItems")
    if most is not None and len(value) > most:
        errors.append(FieldError(path, "TooMany", len(value), _at_most(most)))
    if least is not None and len(value) < least:
        errors.append(
            FieldError(path, "Invalid", len(value), f"{path} in body should have at least {least} items")
        )


def repeated_elements(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    """What sets and list maps hold twice, or cannot hold, at `path` and below it.

    Source: kubernetes, apiextensions-apiserver pkg/apiserver/schema/listtype/validation.go.
    """
    if isinstance(value, dict):
        for name, child in value.items():
            field = schema.properties.get(name) or schema.additional
            if field is not None and isinstance(child, (dict, list)):
                at = below(path, name) if name in schema.properties else f"{path}[{name}]"
                yield from repeated_elements(child, field, at)
    elif isinstance(value, list):
        if schema.relation == SET:
            yield from _duplicates(value, path)
        elif schema.relation == MAP:
            stray = next(_strays(value, path), None)
            yield from [stray] if stray else _duplicates(_identities(value, schema), path)
        if schema.items is not None:
            for i, item in enumerate(value):
                yield from repeated_elements(item, schema.items, f"{path}[{i}]")


def _duplicates(items: list[Any], path: str) -> Iterator[FieldError]:
    """The second occurrence of every repeated value; further ones say nothing new."""
    times: Counter[str] = Counter()
    for i, item in enumerate(items):
        key = json.dumps(item, sort_keys=True)
        times[key] += 1
        if times[key] == 2:
            yield FieldError(f"{path}[{i}]", "Duplicate", item)


def _strays(items: list[Any], path: str) -> Iterator[FieldError]:
    for i, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            detail = "must be an object for an array of list-type map"
            yield FieldError(f"{path}[{i}]", "Invalid", item, detail)


def _identities(items: list[Any], schema: Schema) -> list[dict[str, Any]]:
    """What tells the elements of a list map apart."""
    keys, defaults = schema.list_map_keys, schema.key_defaults
    return [
        {key: item.get(key, defaults.get(key)) for key in keys if key in item or key in defaults}
        if isinstance(item, dict)
        else {}
        for item in items
    ]


def _string(value: str, node: dict[str, Any], path: str) -> Iterator[FieldError]:
    if found := _wrong_text(value, node, path):
        yield found
    form = node.get("format")
    if form and not formats_of_values.fits(value, form):
        detail = f"{path} in body must be of type {form}: {shown(value)}"
        yield FieldError(path, "TypeInvalid", value, detail)


def _wrong_text(value: str, node: dict[str, Any], path: str) -> FieldError | None:
    """The first complaint about length and pattern; the server makes no second one."""
    most, least, pattern = node.get("maxLength"), node.get("minLength"), node.get("pattern")
    if most is not None and len(value) > most:
        return FieldError(path, "TooLong", detail=f"may not be more than {most} bytes")
    if least is not None and len(value) < least:
        return FieldError(path, "Invalid", value, f"{path} in body should be at least {least} chars long")
    if pattern is not None and not _compiled(pattern).search(value):
        return FieldError(path, "Invalid", value, f"{path} in body should match '{pattern}'")
    return None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Go's \\z and named groups apart, the patterns that CRDs use mean the same to Python; $ does not."""
    return re.compile(re.sub(r"(?<!\\)\$(?=$|\||\))", r"\\Z", pattern), re.ASCII)


def _number(value: int | float, schema: Schema, path: str) -> Iterator[FieldError]:
    node = schema.node
    most, least, step = (_bound(node.get(name), value) for name in ("maximum", "minimum", "multipleOf"))
    if schema.type == "integer":
        yield from _wrong_integer(value, node, path)
    if node.get("format") == "float" and abs(value) > GREATEST_FLOAT:
        yield _told(f"Checked value must be of type number with format float in {path}")
    if most is not None and (value > most or (node.get("exclusiveMaximum") and value == most)):
        words = "less than" if node.get("exclusiveMaximum") else "less than or equal to"
        yield FieldError(path, "Invalid", value, f"{path} in body should be {words} {shown(most)}")
    if least is not None and (value < least or (node.get("exclusiveMinimum") and value == least)):
        words = "greater than" if node.get("exclusiveMinimum") else "greater than or equal to"
        yield FieldError(path, "Invalid", value, f"{path} in body should be {words} {shown(least)}")
    if step and value % step:
        yield FieldError(path, "Invalid", value, f"{path} in body should be a multiple of {shown(step)}")


def _bound(bound: int | float | None, value: int | float) -> int | float | None:
    """The server compares integers with the whole part of a bound."""
    return int(bound) if bound is not None and not _is_float(value) else bound


def _wrong_integer(value: int | float, node: dict[str, Any], path: str) -> Iterator[FieldError]:
    bits = {"int32": 31, "int64": 63}.get(node.get("format", ""), 63)
    if not _is_integer(value) or not -(2**bits) <= value < 2**bits:
        form = f"with format {node['format']}" if node.get("format") else "(default format)"
        yield _told(f"Checked value must be of type integer {form} in {path}")


def _outside_enum(value: Any, schema: Schema, path: str) -> FieldError:
    allowed = schema.node["enum"]
    if all(isinstance(one, str) for one in allowed):
        return not_supported(path, value, allowed)
    detail = "supported values: " + ", ".join(
        f'"{one}"' if not isinstance(one, str) else shown(one) for one in allowed
    )
    return FieldError(path, "NotSupported", value, detail)


def _junctors(value: Any, schema: Schema, path: str) -> list[FieldError]:
    """anyOf, oneOf, allOf and not: a sentence each, followed by what the first alternative missed."""
    node, named = schema.node, json.dumps(path)
    errors: list[FieldError] = []
    if node.get("anyOf"):
        tried = [_wrong(part, value, path) for part in node["anyOf"]]
        if all(tried):
            errors += [_told(f"{named} must validate at least one schema (anyOf)"), *tried[0]]
    if node.get("oneOf"):
        tried = [_wrong(part, value, path) for part in node["oneOf"]]
        fitting = sum(not one for one in tried)
        if fitting != 1:
            found = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
            errors.append(_told(f"{named} must validate one and only one schema (oneOf). {found}"))
            errors += [] if fitting else tried[0]
    if node.get("allOf"):
        tried = [_wrong(part, value, path) for part in node["allOf"]]
        errors += [error for one in tried for error in one]
        if any(tried):
            none = ". None validated" if all(tried) else ""
            errors.append(_told(f"{named} must validate all the schemas (allOf){none}"))
    if "not" in node and not _wrong(node["not"], value, path):
        errors.append(_told(f"{named} must not validate the schema (not)"))
    return errors


def _wrong(node: Node, value: Any, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    validate_value(value, Schema(node), path, found)
    return found


def _told(text: str) -> FieldError:
    return FieldError(NOWHERE, "Invalid", "", text)


def _at_most(most: int) -> str:
    return f"must have at most {most} item{'' if most == 1 else 's'}"


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
    if _is_float(value):
        return float(value).is_integer() and abs(value) <= GREATEST_WHOLE
    return isinstance(value, int) and not isinstance(value, bool)


def _is_float(value: Any) -> bool:
    """As Go has read it: what does not fit into 64 bits is no whole number."""
    if isinstance(value, (float, Whole)):
        return True
    return isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63


def json_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if _is_float(value):
        return "number"
    names = {int: "integer", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _mismatches(value: Any, schema: Schema, path: str) -> list[FieldError]:
    kind = json_kind(value)
    form = schema.node.get("format")
    if schema.type == "integer" and form in ("int32", "int64") and _is_float(value):
        detail = f'{path} in body must be of type {form}: "float64"'
        return [FieldError(path, "TypeInvalid", TypeName("float64"), detail)]
    wanted = "integer,string" if schema.type == INT_OR_STRING else schema.type
    detail = f'{path} in body must be of type {wanted}: "{kind}"'
    return [FieldError(path, "TypeInvalid", TypeName(kind), detail)]
