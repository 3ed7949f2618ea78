"""What Go calls the types of Kubernetes' fields, where refusals name them.

`data/go_types.json.gz` has them by definition and field: the embedded structs on the way, whether a zero is
left out, the field's type, and that of its elements.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from gpuready_sim.apiserver.schema import INT_OR_STRING, QUANTITY, Schema


class GoField(NamedTuple):
    """
    through  names of the embedded structs that hold it, outermost first
    omitted  left out when it is zero: "", 0 or false
    types    its type, that of its elements, that of theirs …
    """

    through: tuple[str, ...] = ()
    omitted: bool = False
    types: tuple[str, ...] = ()


UNKNOWN = GoField()


def field_of(holder: Schema, name: str) -> GoField:
    """A field of a struct; UNKNOWN for one that no published Go source has."""
    found = _table().get(holder.ref, {}).get(name)
    return GoField(tuple(found[0]), found[1], tuple(found[2:])) if found else UNKNOWN


def name_of(schema: Schema) -> str:
    """The type of a value as far as its schema tells it: int32, []string, v1.Probe."""
    if schema.type == "array":
        return "[]" + name_of(schema.element())
    if schema.additional is not None:
        return "map[string]" + name_of(schema.additional)
    if schema.type == "integer":
        return str(schema.node.get("format", "int"))
    if schema.node.get("format") == "byte":
        return "[]uint8"
    if schema.type == "object":
        package, _, name = schema.ref.rpartition(".")
        return f"{package.rpartition('.')[2] or 'v1'}.{name or 'object'}"
    named = {"boolean": "bool", "number": "float64", INT_OR_STRING: "intstr.IntOrString"}
    return named.get(schema.type, "resource.Quantity" if schema.type == QUANTITY else schema.type)


@cache
def _table() -> dict[str, dict[str, Any]]:
    raw = files(__package__).joinpath("data", "go_types.json.gz").read_bytes()
    table: dict[str, dict[str, Any]] = json.loads(gzip.decompress(raw))
    return table
