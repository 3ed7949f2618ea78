"""Custom resources: pruning, defaulting and validation by the structural schema in their CRD.

A `CustomSchema` is made once per CRD version and used for every object. Messages are worded as the API
server's. `crd_rules` judges the CRDs themselves. Pure.

Source: kubernetes, apiextensions-apiserver pkg/apiserver/schema/{pruning,defaulting,listtype,cel},
kube-openapi pkg/validation.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuready_sim.apiserver import embedded_objects, go_values, schemas
from gpuready_sim.apiserver.field_errors import NOWHERE, FieldError, TypeName
from gpuready_sim.apiserver.names import validate_metadata
from gpuready_sim.apiserver.rules import RuleSet
from gpuready_sim.apiserver.schema import UNTYPED, Node, Schema
from gpuready_sim.apiserver.values import ABSENT, below, repeated_elements, validate_value

__all__ = ["CustomSchema"]

Object = dict[str, Any]

METADATA = {"$ref": schemas.META + "ObjectMeta"}
KEPT = ("apiVersion", "kind", "metadata")


class CustomSchema:
    """One version of a CRD, ready to treat objects.

    crd_version   the entry of spec.versions
    schema        the type of the whole object, with metadata typed; for merging and ownership
    """

    def __init__(self, crd_version: Mapping[str, Any]) -> None:
        node: Node = (crd_version.get("schema") or {}).get("openAPIV3Schema") or {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
        }
        self._own = Schema(node)
        properties = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}} | node.get(
            "properties", {}
        )
        properties = {name: _with_heads(child) for name, child in properties.items()}
        whole = node | {"properties": properties | {"metadata": METADATA}}
        self.schema = Schema(whole, schemas.definitions())
        self._rules = RuleSet(self._own)
        self._scale: Mapping[str, Any] = (crd_version.get("subresources") or {}).get("scale") or {}

    def prune(self, obj: Object) -> Object:
        """The object without fields that the schema does not specify."""
        return _pruned_root(obj, self._own, _Dropped())

    def misfit(self, obj: Object) -> str:
        """What cannot even be read; empty when there is nothing."""
        return embedded_objects.misfit(obj, self._own)

    def unknown_fields(self, obj: Object) -> list[str]:
        """Paths of what `prune` would drop, for warnings and fieldValidation=Strict."""
        found = _Dropped()
        _pruned_root(obj, self._own, found)
        return found.own + sorted(found.fields) + sorted(found.heads)

    def default(self, obj: Object, *, keep_nulls: bool = False) -> Object:
        """The object with the schema's defaults filled in, and without nulls where null is not allowed.

        keep_nulls  nulls stay, to be refused: what has been merged is not decoded again
        """
        rest = {key: value for key, value in obj.items() if key not in KEPT}
        filled = _defaulted(rest, self._own, keep_nulls=keep_nulls)
        whole = obj | {key: value for key, value in filled.items() if key not in KEPT}
        return {key: value for key, value in whole.items() if key in KEPT or key in filled}

    def is_typable(self, obj: Object, names: Iterable[str]) -> bool:
        """Whether the fields of these names have values of their types; nulls have any."""
        errors: list[FieldError] = []
        for name in names:
            if name in self._own.properties and obj.get(name) is not None:
                validate_value(obj[name], self._own.properties[name], name, errors)
        return not any(one.type == "TypeInvalid" and one.value != TypeName("null") for one in errors)

    def validate(
        self,
        obj: Object,
        old: Object | None = None,
        *,
        status_only: bool = False,
        warnings: list[str] | None = None,
    ) -> list[FieldError]:
        """Everything wrong with the object; rules (CEL) are tried only when its values are sound.

        old          the stored object: what was wrong before may stay, and rules may be about transitions
        status_only  it comes through the status subresource, so the status alone is looked at
        warnings     collects what rules say of values that were wrong before
        """
        errors = validate_metadata(obj, core=False)
        if status_only:
            errors += self._status_errors(obj, old)
        else:
            validate_value(obj, self._own, "", errors, ABSENT if old is None else old)
        errors += scale_errors(obj, self._scale, status_only=status_only)
        errors += embedded_objects.problems(obj, self._own, "")
        if old is None or not any(repeated_elements(old, self._own, "")):
            errors += repeated_elements(obj, self._own, "")
        if self._rules.has_rules and any(one.type in _KEEPS_FROM_RULES for one in errors):
            return [*errors, FieldError(NOWHERE, "Invalid", None, _UNCHECKED)]
        return errors + self._rules.validate(obj, old, warnings)

    def _status_errors(self, obj: Object, old: Object | None) -> Iterator[FieldError]:
        schema = self._own.properties.get("status")
        if schema is None or "status" not in obj:
            return
        found: list[FieldError] = []
        validate_value(obj["status"], schema, "", found, (old or {}).get("status", ABSENT))
        for error in found:
            at = error.path if error.path == NOWHERE else below("status", error.path)
            yield replace(error, path=at.rstrip(".") if at != NOWHERE else "status")


_KEEPS_FROM_RULES = ("Required", "NotSupported", "TooLong", "TooMany", "TypeInvalid")
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation"
)


def scale_errors(obj: Object, scale: Mapping[str, Any], *, status_only: bool = False) -> list[FieldError]:
    """What a definition's scale finds at its paths and cannot use.

    Source: kubernetes, apiextensions-apiserver pkg/registry/customresource/validator.go, ValidateScaleSpec.
    """
    errors = []
    for key in ("statusReplicasPath",) if status_only else ("specReplicasPath", "statusReplicasPath"):
        if path := scale.get(key, ""):
            value: Any = obj
            for step in path.removeprefix(".").split("."):
                value = value.get(step) if isinstance(value, dict) else None
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool):
                kind = {str: "string", bool: "bool", float: "float64"}.get(
                    type(value), "map[string]interface {}"
                )
                why = (
                    f"{path} accessor error: {go_values.printed(value)} is of the type {kind}, expected int64"
                )
                errors.append(FieldError(path, "Invalid", 0, why))
            elif value < 0:
                errors.append(FieldError(path, "Invalid", value, "should be a non-negative integer"))
    return errors


def _with_heads(node: Node) -> Node:
    """A schema with that of metadata in every object within the object."""
    made = dict(node)
    if "properties" in node:
        made["properties"] = {name: _with_heads(child) for name, child in node["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if isinstance(node.get(keyword), dict):
            made[keyword] = _with_heads(node[keyword])
    if node.get("x-kubernetes-embedded-resource"):
        text = {"type": "string"}
        head = {"apiVersion": text, "kind": text, "metadata": METADATA}
        made["properties"] = made.get("properties", {}) | head
    return made


@dataclass
class _Dropped:
    """Paths of what pruning has taken away: metadata, fields, and those in the heads of embedded objects."""

    own: list[str] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)


def _pruned_root(obj: Object, schema: Schema, dropped: _Dropped) -> Object:
    rest = {key: value for key, value in obj.items() if key not in KEPT}
    pruned = _pruned(rest, schema, "", dropped)
    if "metadata" in obj:
        obj = obj | {"metadata": embedded_objects.known_root_metadata(obj["metadata"], dropped.own)}
    return {key: obj[key] if key in KEPT else pruned[key] for key in obj if key in KEPT or key in pruned}


def _pruned(value: Any, schema: Schema, path: str, dropped: _Dropped) -> Any:
    if isinstance(value, dict):
        return _pruned_map(value, schema, path, dropped)
    if isinstance(value, list) and schema.items is not None:
        element = schema.items
        return [_pruned(item, element, f"{path}[{i}]", dropped) for i, item in enumerate(value)]
    return value


def _pruned_map(value: Object, schema: Schema, path: str, dropped: _Dropped) -> Object:
    embedded = bool(schema.node.get("x-kubernetes-embedded-resource"))
    out = {}
    for name, child in value.items():
        at = f"{path}.{name}" if path else name
        field = schema.properties.get(name) or schema.additional
        if embedded and name == "metadata":
            out[name] = embedded_objects.known_metadata(child, at, dropped.heads)
        elif embedded and name in KEPT and name not in schema.properties:
            out[name] = child
        elif field is not None:
            out[name] = _pruned(child, field, at, dropped)
        elif schema.preserve_unknown:
            out[name] = child
        elif schema.node.get("additionalProperties") is True:
            out[name] = _pruned(child, Schema({}), at, dropped)  # any value, of which nothing is known
        else:
            dropped.fields.append(at)
    return out


def _defaulted(value: Any, schema: Schema, *, keep_nulls: bool) -> Any:
    if isinstance(value, dict):
        out = dict(value)
        for name, field in schema.properties.items():
            if name in out and out[name] is None and _goes(field, keep_nulls):
                del out[name]
            if name not in out and "default" in field.node:
                out[name] = copy.deepcopy(field.node["default"])
            if name in out:
                out[name] = _defaulted(out[name], field, keep_nulls=keep_nulls)
        if schema.additional is not None:
            free = out.keys() - schema.properties.keys()
            _default_values(out, free, schema.additional, keep_nulls=keep_nulls)
        return out
    if isinstance(value, list) and schema.items is not None:
        element = schema.items
        return [_defaulted(_unless_null(item, element), element, keep_nulls=keep_nulls) for item in value]
    return value


def _goes(field: Schema, keep_nulls: bool) -> bool:
    """Whether a null of this field is dropped; with a default it gives way to that in any case."""
    return not field.nullable and (not keep_nulls or "default" in field.node)


def _default_values(out: Object, names: set[str], schema: Schema, *, keep_nulls: bool) -> None:
    for name in names:
        value = _unless_null(out[name], schema)
        if value is None and _goes(schema, keep_nulls):
            del out[name]
        else:
            out[name] = _defaulted(value, schema, keep_nulls=keep_nulls)


def _unless_null(value: Any, schema: Schema) -> Any:
    """A null where null is not allowed gives way to the default."""
    if value is None and not schema.nullable and "default" in schema.node:
        return copy.deepcopy(schema.node["default"])
    return value


def schema_or_untyped(custom: CustomSchema | None) -> Schema:
    """The type to merge by; anything goes where there is none."""
    return custom.schema if custom is not None else UNTYPED
