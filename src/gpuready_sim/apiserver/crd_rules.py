"""Whether a CustomResourceDefinition is acceptable: its names and versions. Of schemas `crd_schemas` judges.

Complaints come in the order of the real server's.

Source: kubernetes, apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gpuready_sim.apiserver.crd_schemas import has_defaults, schema_errors, unknown_formats
from gpuready_sim.apiserver.field_errors import FieldError, TypeName, not_supported
from gpuready_sim.apiserver.names import service_errors, subdomain_errors
from gpuready_sim.apiserver.schema import Node

Object = Mapping[str, Any]

COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
MOST_SELECTABLE: Final = 8
# A list of Go structs, whose words nobody compares.
STRUCTS: Final = TypeName("<object>")


def validate_crd(crd: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldError]:
    """Everything that the server would refuse in a definition, or in its update."""
    return list(_errors(crd, old))


def unknown_formats_of(crd: dict[str, Any]) -> list[str]:
    """Formats in the schemas that nobody looks after; once in a schema that all versions share."""
    versions = (crd.get("spec") or {}).get("versions") or []
    if _shared(versions, "schema") is not None:
        versions = versions[:1]
    return [form for version in versions for form in unknown_formats(_schema_of(version))]


def validate_crd_status(crd: dict[str, Any]) -> list[FieldError]:
    """What a write of the status may not say."""
    return list(_names((crd.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames"))


def _errors(crd: Object, old: Object | None) -> Iterator[FieldError]:
    spec, status = crd.get("spec") or {}, crd.get("status") or {}
    if old is None:
        yield from _own_name(crd)
        # Its status is filled in from the storage version.
        status = {"storedVersions": _storage_versions(spec)[:1]}
    else:
        stored = list((old.get("status") or {}).get("storedVersions") or [])
        status = {"storedVersions": stored + [v for v in _storage_versions(spec)[:1] if v not in stored]}
    yield from _spec(spec)
    if old is not None:
        yield from _immutable(spec, old)
    yield from _stored_versions(status["storedVersions"], spec.get("versions") or [])
    yield from _approval(crd, old)
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield FieldError("spec.preserveUnknownFields", "Invalid", True, detail)


def _own_name(crd: Object) -> Iterator[FieldError]:
    names = (crd.get("spec") or {}).get("names") or {}
    name = (crd.get("metadata") or {}).get("name", "")
    if name != f"{names.get('plural', '')}.{(crd.get('spec') or {}).get('group', '')}":
        yield FieldError("metadata.name", "Invalid", name, 'must be spec.names.plural+"."+spec.group')


def _storage_versions(spec: Object) -> list[str]:
    return [one.get("name", "") for one in spec.get("versions") or [] if one.get("storage")]


def _spec(spec: Object) -> Iterator[FieldError]:
    versions = spec.get("versions") or []
    yield from _group(spec.get("group"))
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        yield _missing_or_unsupported(spec.get("scope"), "spec.scope", ("Cluster", "Namespaced"))
    for i, version in enumerate(versions):
        if _schema_of(version) is None:
            yield FieldError(f"spec.versions[{i}].schema.openAPIV3Schema", "Required")
    if spec.get("preserveUnknownFields") and any(has_defaults(_schema_of(one)) for one in versions):
        detail = "must be false in order to use defaults in the schema"
        yield FieldError("spec.preserveUnknownFields", "Invalid", True, detail)
    shared = {part: value for part in PARTS if (value := _shared(versions, part)) is not None}
    for i, version in enumerate(versions):
        yield from _version_name(version.get("name", ""), f"spec.versions[{i}].name")
        own = {key: value for key, value in version.items() if key not in shared}
        yield from _version(own, _schema_of(version), _has_status(version), f"spec.versions[{i}]")
    yield from _versions_together(spec, versions)
    yield from _names(spec.get("names") or {}, "spec.names", required=True)
    yield from _parts(shared, _schema_of(shared), any(map(_has_status, versions)), "spec", "validation")
    if spec.get("conversion") is not None:
        yield from _conversion(spec["conversion"])


PARTS: Final = ("subresources", "schema", "additionalPrinterColumns", "selectableFields")


def _shared(versions: list[Any], part: str) -> Any:
    """What all versions say alike: the server has it once, in the specification, and names it there."""
    first = versions[0].get(part) if versions else None
    return first if all(one.get(part) == first for one in versions) else None


def _schema_of(version: Object) -> Node | None:
    schema: Node | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def _has_status(version: Object) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _versions_together(spec: Object, versions: list[Any]) -> Iterator[FieldError]:
    names = [one.get("name", "") for one in versions]
    shown = STRUCTS if versions else spec.get("versions")
    if len(set(names)) < len(names):
        yield FieldError("spec.versions", "Invalid", shown, "must contain unique version names")
    if len(_storage_versions(spec)) != 1:
        detail = "must have exactly one version marked as storage version"
        yield FieldError("spec.versions", "Invalid", shown, detail)
    if names:
        yield from _version_name(names[0], "spec.version")


def _version_name(name: Any, path: str) -> Iterator[FieldError]:
    yield from _joined(service_errors(str(name)), name, path)


def _joined(texts: list[str], value: Any, path: str, before: str = "") -> Iterator[FieldError]:
    if texts:
        yield FieldError(path, "Invalid", value, before + ",".join(texts))


def _stored_versions(stored: list[str], versions: list[Any]) -> Iterator[FieldError]:
    path = "status.storedVersions"
    if not stored:
        yield FieldError(path, "Invalid", None, "must have at least one stored version")
        return
    known = [one.get("name") for one in versions]
    for one in versions:
        if one.get("storage") and one.get("name") not in stored:
            yield FieldError(path, "Invalid", stored, f"must have the storage version {one.get('name')}")
    for i, name in enumerate(stored):
        if name not in known:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
                f"removes {name} from status.storedVersions"
            )
            yield FieldError(f"{path}[{i}]", "Invalid", name, detail)


APPROVED: Final = "api-approved.kubernetes.io"


def _approval(crd: Object, old: Object | None) -> Iterator[FieldError]:
    group = str((crd.get("spec") or {}).get("group") or "")
    protected = any(group == one or group.endswith(f".{one}") for one in ("k8s.io", "kubernetes.io"))
    if not protected or _approved(crd) or (old is not None and not _approved(old)):
        return
    detail = (
        f'protected groups must have approval annotation "{APPROVED}", '
        "see https://github.com/kubernetes/enhancements/pull/1111"
    )
    yield FieldError(f"metadata.annotations[{APPROVED}]", "Required", detail=detail)


def _approved(crd: Object) -> bool:
    return bool(((crd.get("metadata") or {}).get("annotations") or {}).get(APPROVED))


def _immutable(spec: Object, old: Object) -> Iterator[FieldError]:
    """What a definition may not change: some things never, others not once it is established."""
    before, names = old.get("spec") or {}, spec.get("names") or {}
    names_before = before.get("names") or {}
    conditions = (old.get("status") or {}).get("conditions") or []
    established = any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
    pairs = [
        ("spec.scope", spec.get("scope"), before.get("scope"), established),
        ("spec.names.kind", names.get("kind"), names_before.get("kind"), established),
        ("spec.group", spec.get("group"), before.get("group"), True),
        ("spec.names.plural", names.get("plural"), names_before.get("plural"), True),
    ]
    for path, now, was, fixed in pairs:
        if fixed and now != was:
            yield FieldError(path, "Invalid", now, "field is immutable")


def _conversion(conversion: Object) -> Iterator[FieldError]:
    path, strategy = "spec.conversion", conversion.get("strategy")
    webhook = conversion.get("webhook") or {}
    client, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy not in ("None", "Webhook"):
        yield _missing_or_unsupported(strategy, f"{path}.strategy", ("None", "Webhook"))
    if strategy == "Webhook":
        yield from _webhook(client, f"{path}.webhookClientConfig")
        yield from _review_versions(versions, f"{path}.conversionReviewVersions")
        return
    detail = "should not be set when strategy is not set to Webhook"
    if client is not None:
        yield FieldError(f"{path}.webhookClientConfig", "Forbidden", detail=detail)
    if versions:
        yield FieldError(f"{path}.conversionReviewVersions", "Forbidden", detail=detail)


def _webhook(client: Object | None, path: str) -> Iterator[FieldError]:
    if client is None:
        yield FieldError(path, "Required", detail="required when strategy is set to Webhook")
    elif (client.get("url") is None) == (client.get("service") is None):
        yield FieldError(path, "Required", detail="exactly one of url or service is required")


ACCEPTED_REVIEWS: Final = ("v1", "v1beta1")


def _review_versions(versions: list[Any], path: str) -> Iterator[FieldError]:
    if not versions:
        yield FieldError(path, "Required")
        return
    for i, version in enumerate(versions):
        if version in versions[:i]:
            yield FieldError(f"{path}[{i}]", "Invalid", version, "duplicate version")
        else:
            texts = service_errors(str(version))
            yield from (FieldError(f"{path}[{i}]", "Invalid", version, text) for text in texts)
    if not set(versions) & set(ACCEPTED_REVIEWS):
        detail = f"must include at least one of {', '.join(ACCEPTED_REVIEWS)}"
        yield FieldError(path, "Invalid", versions, detail)


def _group(group: Any) -> Iterator[FieldError]:
    if not group:
        yield FieldError("spec.group", "Required")
    elif texts := subdomain_errors(group):
        yield FieldError("spec.group", "Invalid", group, ",".join(texts))
    elif "." not in group:
        yield FieldError("spec.group", "Invalid", group, "should be a domain with at least one dot")


def _missing_or_unsupported(value: Any, path: str, allowed: tuple[str, ...]) -> FieldError:
    return not_supported(path, value, allowed) if value else FieldError(path, "Required")


def _names(names: Object, path: str, *, required: bool = False) -> Iterator[FieldError]:
    fields = ("plural", "singular", "kind", "listKind")
    yield from (FieldError(f"{path}.{one}", "Required") for one in fields if required and not names.get(one))
    for field in fields:
        value = str(names.get(field) or "")
        mixed = "may have mixed case, but should otherwise match: " if "ind" in field else ""
        texts = service_errors(value.lower() if mixed else value) if value else []
        yield from _joined(texts, value, f"{path}.{field}", mixed)
    for i, value in enumerate(names.get("shortNames") or []):
        yield from _joined(service_errors(value), value, f"{path}.shortNames[{i}]")
    list_kind = names.get("listKind")
    if list_kind and names.get("kind") == list_kind:
        yield FieldError(f"{path}.listKind", "Invalid", list_kind, "kind and listKind may not be the same")
    for i, value in enumerate(names.get("categories") or []):
        yield from _joined(service_errors(value), value, f"{path}.categories[{i}]")


def _version(own: Object, schema: Node | None, has_status: bool, path: str) -> Iterator[FieldError]:
    """
    own  of what the version says, that which the others do not say alike
    """
    warning, at = own.get("deprecationWarning"), f"{path}.deprecationWarning"
    yield from (FieldError(at, "Invalid", warning, text) for text in _of_warning(own, warning))
    yield from _parts(own, schema, has_status, path, "schema")


def _of_warning(version: Object, warning: Any) -> Iterator[str]:
    if warning is None:
        return
    if not version.get("deprecated"):
        yield "can only be set for deprecated versions"
        return
    if len(warning.encode()) > 256:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    bad = next((i for i, letter in enumerate(warning) if not letter.isprintable()), None)
    if bad is not None:
        index = len(warning[:bad].encode())
        yield f"must only contain printable UTF-8 characters; non-printable character found at index {index}"


def _parts(
    own: Object, schema: Node | None, has_status: bool, path: str, schema_name: str
) -> Iterator[FieldError]:
    """Schema, subresources, columns and selectable fields of one version, or of all."""
    if (stated := _schema_of(own)) is not None:
        yield from schema_errors(stated, f"{path}.{schema_name}.openAPIV3Schema", has_status=has_status)
    parts = own.get("subresources") or {}
    if parts.get("scale") is not None:
        yield from _scale(parts["scale"], f"{path}.subresources.scale")
    for n, column in enumerate(own.get("additionalPrinterColumns") or []):
        yield from _column(column, f"{path}.additionalPrinterColumns[{n}]")
    yield from _selectables(own.get("selectableFields") or [], schema, f"{path}.selectableFields")


def _scale(scale: Object, path: str) -> Iterator[FieldError]:
    for field, roots, where in (
        ("specReplicasPath", (".spec.",), ".spec"),
        ("statusReplicasPath", (".status.",), ".status"),
        ("labelSelectorPath", (".spec.", ".status."), "either .spec or .status"),
    ):
        value, at = scale.get(field), f"{path}.{field}"
        if not value:
            if field != "labelSelectorPath":
                yield FieldError(at, "Required")
        elif not value.startswith("."):
            yield FieldError(at, "Invalid", value, "must be a simple json path starting with .")
        elif not value.startswith(roots):
            yield FieldError(at, "Invalid", value, f"should be a json path under {where}")


def _selectables(fields: Iterable[Object], schema: Node | None, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for n, field in enumerate(fields):
        json_path, at = field.get("jsonPath") or "", f"{path}[{n}].jsonPath"
        if not json_path:
            yield FieldError(at, "Required")
            continue
        found, why = _field_at(json_path, schema)
        if why:
            yield FieldError(at, "Invalid", json_path, f"is an invalid path: {why}")
            continue
        if json_path.startswith(".metadata"):
            yield FieldError(at, "Invalid", json_path, "must not point to fields in metadata")
        if (found or {}).get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings "
                "with formats are allowed."
            )
            yield FieldError(at, "Invalid", json_path, detail)
        if json_path in seen:
            yield FieldError(at, "Duplicate", json_path)
        seen.add(json_path)
    if len(seen) > MOST_SELECTABLE:
        yield FieldError(path, "TooMany", len(seen), f"must have at most {MOST_SELECTABLE} items")


def _field_at(json_path: str, schema: Node | None) -> tuple[Node | None, str]:
    """(the schema of a field, why there is none)"""
    if not json_path.startswith((".", "[")):
        return None, f"expected [ or . but got: {json_path.partition('.')[0]}"
    if "[" in json_path:
        return None, "array notation is not allowed"
    node: Any = schema
    for step in json_path.removeprefix(".").split("."):
        parts = node if isinstance(node, dict) else {}
        node = (parts.get("properties") or {}).get(step) if parts.get("properties") else None
        if node is None and isinstance(parts.get("additionalProperties"), dict):
            node = parts["additionalProperties"]
    return node, "" if node is not None else "does not refer to a valid field"


def _column(column: Object, path: str) -> Iterator[FieldError]:
    kind, form, json_path = column.get("type"), column.get("format"), column.get("jsonPath")
    if not column.get("name"):
        yield FieldError(f"{path}.name", "Required")
    types = f"must be one of {','.join(COLUMN_TYPES)}"
    if not kind:
        yield FieldError(f"{path}.type", "Required", detail=types)
    elif kind not in COLUMN_TYPES:
        yield FieldError(f"{path}.type", "Invalid", kind, types)
    if form and form not in COLUMN_FORMATS:
        yield FieldError(f"{path}.format", "Invalid", form, f"must be one of {','.join(COLUMN_FORMATS)}")
    if not json_path:
        yield FieldError(f"{path}.JSONPath", "Required")
    elif not str(json_path).startswith("."):
        detail = "must be a simple json path starting with ."
        yield FieldError(f"{path}.JSONPath", "Invalid", json_path, detail)
