"""What the API server knows of types: the built-in kinds, their schemas, OpenAPI, validation, defaults.

The front door to `builtins`, `schema`, `openapi`, `validation` and `defaults`; the only one of them that
reads files (the committed extract of Kubernetes' schemas, on first use).
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any

from gpuready_sim.apiserver import decoding, defaults, openapi, validation
from gpuready_sim.apiserver.builtins import BUILTINS, BuiltinResource
from gpuready_sim.apiserver.field_errors import FieldError
from gpuready_sim.apiserver.schema import Node, Schema

__all__ = [
    "BUILTINS",
    "BuiltinResource",
    "FieldError",
    "Schema",
    "default_builtin",
    "definitions",
    "metadata_misfit",
    "misfit",
    "openapi_v3",
    "openapi_v3_of_crd",
    "prune_builtin",
    "schema_of",
    "schema_of_metadata",
    "validate_builtin",
    "validate_builtin_update",
]

META = "io.k8s.apimachinery.pkg.apis.meta.v1."


def schema_of(group: str, version: str, kind: str) -> Schema | None:
    """The type of a built-in kind (also lists, DeleteOptions, Eviction, …), or None."""
    return _schema(group, version, kind)


def openapi_v3(group: str, version: str) -> dict[str, Any]:
    """The document of one group and version, as served below /openapi/v3/."""
    served = [one for one in BUILTINS if (one.group, one.version) == (group, version)]
    return openapi.document(group, version, served, definitions(), _descriptions())


def openapi_v3_of_crd(crd: dict[str, Any], version: str) -> dict[str, Any]:
    """The document of one custom kind; `openapi.merged` joins those of one group and version."""
    return openapi.document_of_crd(crd, version, definitions(), _descriptions())


def validate_builtin(obj: dict[str, Any], *, strict: bool) -> list[FieldError]:
    """Unknown fields and wrong types, then what the kind itself demands (names, selectors, containers …).

    strict   unknown fields are errors; otherwise they come with `warning=True`
    """
    return validation.validate(obj, _schema_of_object(obj), strict=strict)


def validate_builtin_update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    """Changes that the kind forbids: immutable selectors, a running pod's spec, a role binding's role …"""
    return validation.validate_update(new, old)


def default_builtin(obj: dict[str, Any]) -> dict[str, Any]:
    """An object as the server would store it: no unknown fields, nulls and empty maps, with its defaults."""
    schema = _schema_of_object(obj)
    if schema is None:
        return defaults.defaulted(obj)
    return defaults.defaulted(validation.without_empty(validation.decoded(obj, schema), schema))


def prune_builtin(obj: dict[str, Any]) -> dict[str, Any]:
    """The object as a typed server would decode it: no unknown fields, no nulls, canonical quantities."""
    schema = _schema_of_object(obj)
    return validation.decoded(obj, schema) if schema is not None else obj


def misfit(obj: dict[str, Any]) -> str:
    """What Go says of the first value of a built-in kind's object that it cannot read; empty when it can."""
    schema = _schema_of_object(obj)
    return decoding.first_misread(obj, schema, "") if schema is not None else ""


def metadata_misfit(value: Any, kind: str, *, custom: bool) -> str:
    """What Go says of metadata of the wrong types; empty when they are right.

    custom  of a custom resource, whose metadata is decoded by itself
    """
    if value is None:
        return ""
    own = (
        {key: child for key, child in value.items() if key != "managedFields"}
        if isinstance(value, dict)
        else value
    )
    if custom:
        return decoding.first_misread(own, _metadata(), "")
    return decoding.first_misread(own, _metadata(), "metadata", holder=kind)


def schema_of_metadata() -> Schema:
    return _metadata()


@cache
def _metadata() -> Schema:
    return Schema({"$ref": META + "ObjectMeta"}, definitions())


@cache
def definitions() -> dict[str, Node]:
    """Every known type by its definition name, for example io.k8s.api.core.v1.Pod."""
    return _load("schemas.json.gz")


@cache
def _descriptions() -> dict[str, dict[str, str]]:
    return _load("descriptions.json.gz")


def _load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        gzip.decompress(files(__package__).joinpath("data", name).read_bytes())
    )
    return content


@cache
def _names() -> dict[tuple[str, str, str], str]:
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, node in definitions().items()
        for gvk in node.get("x-kubernetes-group-version-kind", ())
    }


@cache
def _schema(group: str, version: str, kind: str) -> Schema | None:
    name = _names().get((group, version, kind))
    return Schema({"$ref": name}, definitions()) if name else None


def _schema_of_object(obj: dict[str, Any]) -> Schema | None:
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return _schema(group, version, str(obj.get("kind", "")))
