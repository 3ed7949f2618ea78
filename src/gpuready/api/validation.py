"""Every violation of a schema in one object, each with path, value and what is allowed; pure.

The decoder stops at the first; users want the list. Unknown fields are no violation: the API server drops
them, `find_unknown` lists them for whoever checks a file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuready.api.openapi import Schema


@dataclass(frozen=True)
class PolicyProblem:
    path: str  # spec.mig.strategy
    value: Any
    allowed: str  # "one of none, single, mixed"
    message: str  # a whole sentence with the three above

    def __str__(self) -> str:
        return self.message


def problem(path: str, value: Any, allowed: str, message: str = "") -> PolicyProblem:
    return PolicyProblem(path, value, allowed, message or f"{path}: {shown(value)} is not {allowed}")


def find_violations(value: Any, schema: Schema, path: str = "") -> Iterator[PolicyProblem]:
    if value is None:
        return  # the API server drops nulls
    if schema.get("x-kubernetes-int-or-string"):
        if not _is_int(value) and not isinstance(value, str):
            yield problem(path, value, "a whole number or a string")
        return
    if not _has_type(value, schema.get("type", "object")):
        yield problem(path, value, _TYPE_NAMES[schema.get("type", "object")])
        return
    yield from _limits(value, schema, path)
    if isinstance(value, Mapping):
        yield from _members(value, schema, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_violations(item, schema["items"], f"{path}[{index}]")


def find_unknown(value: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """Paths of the fields that the schema does not know; the API server drops them without a word."""
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from find_unknown(item, schema["items"], f"{path}[{index}]")
    if not isinstance(value, Mapping):
        return
    properties = schema.get("properties")
    for name, inner in value.items():
        if properties is None:
            continue
        if name in properties:
            yield from find_unknown(inner, properties[name], _join(path, name))
        else:
            yield _join(path, name)


def _members(value: Mapping[str, Any], schema: Schema, path: str) -> Iterator[PolicyProblem]:
    for name in schema.get("required", ()):
        if value.get(name) is None:
            where = _join(path, name)
            yield problem(where, None, "absent", f"{where}: is required")
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    for name, inner in value.items():
        if name in properties:
            yield from find_violations(inner, properties[name], _join(path, name))
        elif isinstance(others, dict):
            yield from find_violations(inner, others, _join(path, name))


def _limits(value: Any, schema: Schema, path: str) -> Iterator[PolicyProblem]:
    if "enum" in schema and value not in schema["enum"]:
        yield problem(path, value, one_of(schema["enum"]))
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield problem(path, value, f"text that matches {schema['pattern']}")
    if "minimum" in schema and value < schema["minimum"]:
        yield problem(path, value, f"{schema['minimum']} or more")
    if "maximum" in schema and value > schema["maximum"]:
        yield problem(path, value, f"{schema['maximum']} or less")


def _has_type(value: Any, name: str) -> bool:
    if name == "integer":
        return _is_int(value)
    if name == "number":
        return _is_int(value) or isinstance(value, float)
    return isinstance(value, _TYPES[name])


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": Mapping,
    "array": list,
    "string": str,
    "boolean": bool,
}
_TYPE_NAMES = {
    "object": "a map",
    "array": "a list",
    "string": "a string",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
}


def one_of(choices: Sequence[str]) -> str:
    return "one of " + ", ".join(each or '""' for each in choices)


def shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, float) and not math.isfinite(value):  # JSON has no word for these
        return str(value).replace("nan", ".nan").replace("inf", ".inf")
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_OBJECT_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_LONGEST_NAME = 253
OBJECT_NAME = f"a name that an object can have: a-z, 0-9, - and ., at most {_LONGEST_NAME}"
KEY = f"a key that a ConfigMap can have: letters, digits, -, _ and ., at most {_LONGEST_NAME}"


def is_object_name(text: str) -> bool:
    """Of a ConfigMap, Secret or PriorityClass, among others.

    Source: kubernetes, apimachinery/pkg/util/validation, IsDNS1123Subdomain.
    """
    return len(text) <= _LONGEST_NAME and bool(_OBJECT_NAME.fullmatch(text))


def is_key(text: str) -> bool:
    """Of a ConfigMap or Secret.

    Source: kubernetes, apimachinery/pkg/util/validation, IsConfigMapKey.
    """
    return len(text) <= _LONGEST_NAME and bool(_KEY.fullmatch(text)) and text != "." and text[:2] != ".."


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else str(name)
