"""An applied object must fit its schema exactly: nothing is pruned or converted on its way. Pure.

Source: structured-merge-diff v6, typed/{typed,tofieldset,validate}.go.
"""

from __future__ import annotations

from gpuready_sim.apiserver import fields, quantity, schemas
from gpuready_sim.apiserver.failures import Failure, Obj
from gpuready_sim.apiserver.field_errors import TypeName
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.schemas import FieldError


def refuse_untypable(applied: Obj, resource: ResourceType) -> None:
    """
    raises  Failure 500, as really, with the first field that does not fit
    """
    unconvertible: list[str] = []
    if resource.custom is not None:
        why = [f".{path}: field not declared in schema" for path in resource.custom.unknown_fields(applied)]
        found = resource.custom.validate(applied)
        misfits = [one for one in found if one.type == "TypeInvalid" and one.value != TypeName("null")]
        why += [_mistyped(error, applied) for error in misfits]
    else:
        # Quantities are text to the schema; what they say is read when the merged object is converted.
        found = schemas.validate_builtin(applied, strict=True)
        found = [one for one in found if one.type in _UNTYPED]
        unconvertible = [error.detail for error in found if error.detail == quantity.MESSAGE]
        why = [_untyped(error) for error in found if error.detail != quantity.MESSAGE]
    if not why and resource.schema is not None:
        try:
            twice = fields.repeated_element(applied, resource.schema)
        except fields.SchemaMismatch:
            twice = None  # told when it is merged
        if twice is not None:
            place, element = (fields.path_text(path) for path in (twice[0], (twice[1],)))
            why = [f"{place}: duplicate entries for key {element}"]
    if why:
        raise Failure(500, "", f"failed to create typed patch object ({_place(applied, resource)}): {why[0]}")
    if unconvertible:
        what = f"unable to convert unstructured object to {resource.api_version}, Kind={resource.kind}"
        place = _place(applied, resource)
        message = f"failed to convert new object ({place}) to proper version: {what}: {unconvertible[0]}"
        raise Failure(500, "", message)


def _place(applied: Obj, resource: ResourceType) -> str:
    meta = applied.get("metadata") or {}
    version = f"{'' if resource.group else '/'}{resource.api_version}"
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}; {version}, Kind={resource.kind}"


_UNTYPED = {"Unknown", "Decode"}


_TYPES = {"object": "map", "array": "list", "integer": "numeric (int or float)"}


def _mistyped(error: FieldError, applied: Obj) -> str:
    """.spec.driver.enabled: expected boolean, got &{yes}"""
    wanted = error.detail.partition("must be of type ")[2].partition(":")[0]
    value: object = applied
    for step in error.path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return f".{error.path}: expected {_TYPES.get(wanted, wanted)}, got &{{{_go_text(value)}}}"


def _untyped(error: FieldError) -> str:
    if error.type == "Unknown":
        return f".{error.path}: field not declared in schema"
    wanted = "string" if "of type string" in error.detail else error.detail.rpartition("of type ")[2]
    return f".{error.path}: expected {wanted}, got &value.valueUnstructured{{Value:{_go_text(error.value)}}}"


def _go_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
