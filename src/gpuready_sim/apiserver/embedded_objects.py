"""Objects within custom objects (x-kubernetes-embedded-resource): their head is read as that of any object.

Source: kubernetes, apiextensions-apiserver pkg/apiserver/schema/objectmeta/{algorithm,validation}.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gpuready_sim.apiserver import go_json, names, schemas
from gpuready_sim.apiserver.field_errors import FieldError
from gpuready_sim.apiserver.schema import Schema

EMBEDDED: Final = "x-kubernetes-embedded-resource"


def known_metadata(metadata: Any, path: str, dropped: list[str]) -> Any:
    """Metadata without fields that nobody knows; their paths go to `dropped`."""
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        return metadata
    schema = schemas.schema_of_metadata()
    dropped += [f"{path}.{name}" for name in metadata if name not in schema.properties]
    known = {name: value for name, value in metadata.items() if name in schema.properties}
    return {
        name: value
        for name, value in known.items()
        if value not in ({}, [], "") and not (name == "creationTimestamp" and value is None)
    }


def known_root_metadata(metadata: Any, dropped: list[str]) -> Any:
    """The same of the metadata of a whole object; managedFields may be empty to some purpose."""
    if not isinstance(metadata, dict):
        return metadata
    known = known_metadata(metadata, "metadata", dropped)
    return {key: metadata[key] for key in metadata if key in known or key == "managedFields"}


def misfit(value: Any, schema: Schema, path: str = "") -> str:
    """What cannot be read as a head at all; that is told before anything else. Empty when there is none."""
    if isinstance(value, list) and schema.items is not None:
        found = (misfit(item, schema.items, f"{path}[{i}]") for i, item in enumerate(value))
        return next((why for why in found if why), "")
    if not isinstance(value, dict):
        return ""
    if schema.node.get(EMBEDDED) and (why := _unreadable(value, path)):
        return why
    for name, child in value.items():
        field = schema.properties.get(name) or schema.additional
        if field is not None and (why := misfit(child, field, f"{path}.{name}" if path else name)):
            return why
    return ""


def _unreadable(value: dict[str, Any], path: str) -> str:
    for name in ("apiVersion", "kind"):
        if name in value and not isinstance(value[name], str):
            return FieldError(f"{path}.{name}", "Invalid", value[name], "must be a string").message()
    metadata = value.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        why = go_json.unmarshalled(metadata, "v1.ObjectMeta")
        return FieldError(f"{path}.metadata", "Invalid", metadata, why).message()
    if "metadata" in value and (why := schemas.metadata_misfit(value["metadata"], "", custom=True)):
        return FieldError(f"{path}.metadata", "Invalid", value["metadata"], why).message()
    return ""


def problems(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    """What heads of embedded objects say that no head may."""
    if isinstance(value, list) and schema.items is not None:
        for i, item in enumerate(value):
            yield from problems(item, schema.items, f"{path}[{i}]")
    if not isinstance(value, dict):
        return
    if schema.node.get(EMBEDDED):
        yield from _of_head(value, path)
    for name, child in value.items():
        field = schema.properties.get(name) or schema.additional
        if field is not None and isinstance(child, (dict, list)):
            yield from problems(child, field, f"{path}.{name}" if path else name)


def _of_head(value: dict[str, Any], path: str) -> Iterator[FieldError]:
    for name in ("apiVersion", "kind"):
        if name not in value:
            yield FieldError(f"{path}.{name}", "Required")
        elif not value[name]:
            yield FieldError(f"{path}.{name}", "Invalid", value[name], "must not be empty")
    api_version, kind = str(value.get("apiVersion") or ""), str(value.get("kind") or "")
    if api_version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {api_version}"
        yield FieldError(f"{path}.apiVersion", "Invalid", api_version, detail)
    if kind and (texts := names.service_errors(kind.lower())):
        detail = "may have mixed case, but should otherwise match: " + ",".join(texts)
        yield FieldError(f"{path}.kind", "Invalid", kind, detail)
    if isinstance(value.get("metadata"), dict):
        yield from names.embedded_metadata_errors(value["metadata"], f"{path}.metadata")
