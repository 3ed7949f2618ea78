"""Whether an object of a built-in kind is acceptable: first its shape, then what its kind demands.

The shape is what a Go server finds while decoding (unknown fields, wrong types); the rest is validation
proper and lives in `kind_rules`. Pure.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from gpuready_sim.apiserver import go_types, kind_rules, names
from gpuready_sim.apiserver.decoding import NULL_ELEMENT, shape_errors
from gpuready_sim.apiserver.field_errors import FieldError
from gpuready_sim.apiserver.go_values import Number, plain, text_of
from gpuready_sim.apiserver.quantity import canonical_quantity, is_quantity
from gpuready_sim.apiserver.schema import QUANTITY, Schema

Object = dict[str, Any]

ZERO_VALUES: Final[dict[str, Any]] = {"string": "", "integer": 0, "boolean": False, QUANTITY: "0"}
# What a null in a map becomes: Go keeps its key.


# Whose metadata is checked by what all servers share, not by what Kubernetes' own kinds have.
GENERIC_KINDS: Final = ("CustomResourceDefinition",)


def validate(obj: Object, schema: Schema | None, *, strict: bool) -> list[FieldError]:
    """Everything wrong with an object; decoding errors hide the rest, as they do in the real server."""
    errors = shape_errors(obj, schema, strict=strict) if schema is not None else []
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
        if schema.node.get("format") == "byte":
            return base64.b64encode(bytes(one or 0 for one in value)).decode()
    elif schema.type == QUANTITY:
        written = text_of(value) if isinstance(value, float) else value
        return canonical_quantity(written) if is_quantity(written) else value
    elif isinstance(value, Number):
        return plain(value)
    return value


def without_empty(value: Any, schema: Schema) -> Any:
    """Without what Go leaves out when it writes an object: empty maps and lists, and zeros."""
    if isinstance(value, dict):
        return {
            name: without_empty(child, schema.child(name))
            for name, child in value.items()
            if child or not _goes_when_empty(child, name, schema)
        }
    if isinstance(value, list):
        element = schema.element()
        return [without_empty(child, element) for child in value]
    return value


def _goes_when_empty(value: Any, name: str, schema: Schema) -> bool:
    if isinstance(value, (dict, list)):
        return name not in schema.required and _is_collection(schema.child(name))
    return name in schema.properties and go_types.field_of(schema, name).omitted


def _is_collection(schema: Schema) -> bool:
    return schema.type == "array" or schema.additional is not None
