"""An applied object must fit its schema exactly: nothing is pruned or converted on its way. Pure.

Source: structured-merge-diff v6, typed/{validate,helpers}.go, fieldpath/element.go; apimachinery
pkg/util/managedfields/internal/structuredmerge.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuready_sim.apiserver import fields, restoring
from gpuready_sim.apiserver.failures import Failure, Obj
from gpuready_sim.apiserver.go_values import printed, syntax, type_of
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.schema import INT_OR_STRING, MAP, QUANTITY, SET, Schema


def refuse_untypable(applied: Obj, resource: ResourceType) -> None:
    """
    raises  Failure 500, as really, with everything that does not fit
    """
    wrong = list(_misfits(applied, resource.schema, "")) if resource.schema is not None else []
    if not wrong:
        return
    why = wrong[0] if len(wrong) == 1 else "\n".join(["errors:", *(f"  {one}" for one in wrong)])
    raise Failure(500, "", f"failed to create typed patch object ({place(applied, resource)}): {why}")


def converted(merged: Obj, applied: Obj, resource: ResourceType) -> Obj:
    """What an apply has made, with its values as the structs of a built-in kind hold them.

    raises  Failure 500, as really, for a value that has no place in its struct
    """
    if resource.custom is not None or resource.schema is None:
        return merged
    try:
        made: Obj = restoring.restored(merged, resource.schema)
    except restoring.Unrestorable as exc:
        what = f"unable to convert unstructured object to {_gvk(resource)}: {exc}"
        where = f"failed to convert new object ({place(applied, resource)}) to proper version"
        raise Failure(500, "", f"{where}: {what}") from exc
    return made


def place(applied: Obj, resource: ResourceType) -> str:
    """Which object it is, as the errors of an apply say it: ns/name; apps/v1, Kind=Deployment"""
    meta = applied.get("metadata")
    named = meta if isinstance(meta, dict) else {}
    texts = [named[key] if isinstance(named.get(key), str) else "" for key in ("namespace", "name")]
    return f"{'/'.join(texts)}; {_gvk(resource)}"


def _gvk(resource: ResourceType) -> str:
    return f"{'' if resource.group else '/'}{resource.api_version}, Kind={resource.kind}"


def _misfits(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if value is None:
        return
    if schema.type == "object":
        if isinstance(value, dict):
            yield from _of_map(value, schema, path)
        else:
            yield f"{path}: expected map, got &{{{printed(value)}}}"
    elif schema.type == "array":
        if isinstance(value, list):
            yield from _of_list(value, schema, path)
        else:
            yield f"{path}: expected list, got &{{{printed(value)}}}"
    elif why := _scalar(value, schema):
        yield f"{path}: {why}"


def _of_map(value: Obj, schema: Schema, path: str) -> Iterator[str]:
    free = schema.preserve_unknown or (not schema.properties and schema.additional is None)
    for name, child in value.items():
        kind = schema.properties.get(name) or schema.additional
        if kind is not None:
            yield from _misfits(child, kind, f"{path}.{name}")
        elif not free and schema.node.get("additionalProperties") is not True:
            yield f"{path}.{name}: field not declared in schema"
            return  # nobody looks at the rest


def _of_list(value: list[Any], schema: Schema, path: str) -> Iterator[str]:
    element, seen = schema.element(), set[str]()
    for i, item in enumerate(value):
        at = f"[{i}]"
        if schema.relation in (MAP, SET):
            try:
                key = fields.element_key(item, schema)
            except fields.SchemaMismatch as exc:
                yield f"{path}: element {i}: {exc}"
                return  # what is below has no name
            at = fields.path_text((key,))
            if key in seen:
                yield f"{path}: duplicate entries for key {at}"
            seen.add(key)
        yield from _misfits(item, element, path + at)


def _scalar(value: Any, schema: Schema) -> str:
    kind = schema.type
    if not kind:
        return ""
    if kind in (INT_OR_STRING, QUANTITY) and schema.ref:
        return ""
    if kind == INT_OR_STRING or (kind == "string" and schema.node.get("format", "byte") != "byte"):
        return f"expected any scalar, got &{{{printed(value)}}}" if isinstance(value, (dict, list)) else ""
    if kind == "string":
        told = f"expected string, got &value.valueUnstructured{{Value:{syntax(value)}}}"
        return "" if isinstance(value, str) else told
    if kind == "boolean":
        return "" if isinstance(value, bool) else f"expected boolean, got &{{{printed(value)}}}"
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "" if is_number else f"expected numeric (int or float), got {type_of(value)}"
