"""Whether a CustomResourceDefinition is acceptable: names, versions, and a structural schema per version.

Source: kubernetes, apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go,
pkg/apiserver/schema/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from gpuready_sim.apiserver.field_errors import FieldError, not_supported
from gpuready_sim.apiserver.names import service_errors, subdomain_errors
from gpuready_sim.apiserver.rules import rule_errors
from gpuready_sim.apiserver.schema import Node, Schema
from gpuready_sim.apiserver.values import validate_value

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
FORBIDDEN_KEYWORDS: Final = (
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "readOnly",
    "writeOnly",
    "xml",
    "$ref",
)
IN_JUNCTORS: Final = (
    "default",
    "description",
    "type",
    "title",
    "nullable",
    "additionalProperties",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)


def validate_crd(crd: dict[str, Any]) -> list[FieldError]:
    """Everything that the server would refuse in the definition."""
    return list(_errors(crd))


def _errors(crd: dict[str, Any]) -> Iterator[FieldError]:
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    name, wanted = (
        (crd.get("metadata") or {}).get("name", ""),
        f"{names.get('plural', '')}.{spec.get('group', '')}",
    )
    if name != wanted:
        detail = 'must be spec.names.plural+"."+spec.group'
        yield FieldError("metadata.name", "Invalid", name, detail)
    yield from _group(spec.get("group"))
    yield from _approval(crd)
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        yield _missing_or_unsupported(spec.get("scope"), "spec.scope", ("Cluster", "Namespaced"))
    yield from _names(names)
    yield from _versions(spec.get("versions") or [])
    if not any(one.get("storage") for one in spec.get("versions") or []):
        # Its status is filled in from the storage version, and finds none.
        yield FieldError("status.storedVersions", "Invalid", None, "must have at least one stored version")
    yield from _conversion(spec.get("conversion") or {})
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield FieldError("spec.preserveUnknownFields", "Invalid", True, detail)


APPROVED: Final = "api-approved.kubernetes.io"


def _approval(crd: dict[str, Any]) -> Iterator[FieldError]:
    group = str((crd.get("spec") or {}).get("group") or "")
    protected = any(group == one or group.endswith(f".{one}") for one in ("k8s.io", "kubernetes.io"))
    if protected and not ((crd.get("metadata") or {}).get("annotations") or {}).get(APPROVED):
        detail = (
            f'protected groups must have approval annotation "{APPROVED}", '
            "see https://github.com/kubernetes/enhancements/pull/1111"
        )
        yield FieldError(f"metadata.annotations[{APPROVED}]", "Required", detail=detail)


def validate_crd_update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    """What an established definition may not change.

    Source: validation.go, ValidateCustomResourceDefinitionUpdate.
    """
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    names, names_before = spec.get("names") or {}, before.get("names") or {}
    pairs = [
        ("spec.group", spec.get("group"), before.get("group")),
        ("spec.scope", spec.get("scope"), before.get("scope")),
        ("spec.names.kind", names.get("kind"), names_before.get("kind")),
        ("spec.names.plural", names.get("plural"), names_before.get("plural")),
    ]
    return [FieldError(path, "Invalid", now, "field is immutable") for path, now, was in pairs if now != was]


def _conversion(conversion: dict[str, Any]) -> Iterator[FieldError]:
    if conversion.get("strategy") != "Webhook":
        if conversion.get("strategy") not in (None, "", "None"):
            yield not_supported("spec.conversion.strategy", conversion["strategy"], ("None", "Webhook"))
        return
    webhook = conversion.get("webhook") or {}
    if not webhook.get("clientConfig"):
        detail = "required when strategy is set to Webhook"
        yield FieldError("spec.conversion.webhookClientConfig", "Required", detail=detail)
    if not webhook.get("conversionReviewVersions"):
        yield FieldError("spec.conversion.conversionReviewVersions", "Required")


def _group(group: Any) -> Iterator[FieldError]:
    if not group:
        yield FieldError("spec.group", "Required")
        return
    yield from (FieldError("spec.group", "Invalid", group, text) for text in subdomain_errors(group))
    if "." not in group:
        yield FieldError("spec.group", "Invalid", group, "should be a domain with at least one dot")


def _missing_or_unsupported(value: Any, path: str, allowed: tuple[str, ...]) -> FieldError:
    return not_supported(path, value, allowed) if value else FieldError(path, "Required")


def _names(names: dict[str, Any]) -> Iterator[FieldError]:
    list_kind = names.get("listKind")
    for field in ("plural", "singular", "kind", "listKind"):
        value = str(names.get(field) or "")
        path = f"spec.names.{field}"
        if not value:
            yield FieldError(path, "Required")
        else:
            mixed = "may have mixed case, but should otherwise match: " if "ind" in field else ""
            checked = value.lower() if mixed else value
            yield from (FieldError(path, "Invalid", value, mixed + text) for text in service_errors(checked))
    for field in ("shortNames", "categories"):
        for i, value in enumerate(names.get(field) or []):
            path = f"spec.names.{field}[{i}]"
            yield from (FieldError(path, "Invalid", value, text) for text in service_errors(value))
    if list_kind and names.get("kind") == list_kind:
        yield FieldError("spec.names.listKind", "Invalid", list_kind, "kind and listKind may not be the same")


def _versions(versions: list[dict[str, Any]]) -> Iterator[FieldError]:
    if sum(bool(one.get("storage")) for one in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield FieldError("spec.versions", "Invalid", [one.get("name") for one in versions], detail)
    seen = set()
    for i, version in enumerate(versions):
        name = version.get("name", "")
        if name in seen:
            yield FieldError(f"spec.versions[{i}]", "Duplicate", name)
        seen.add(name)
        for path in (f"spec.versions[{i}].name", *(["spec.version"] if len(versions) == 1 else [])):
            yield from (FieldError(path, "Invalid", name, text) for text in service_errors(str(name)))
        yield from _deprecation(version, f"spec.versions[{i}].deprecationWarning")
        yield from _version(version, i, alone=len(versions) == 1)


def _deprecation(version: dict[str, Any], path: str) -> Iterator[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield FieldError(path, "Invalid", warning, "can only be set for deprecated versions")
    elif not warning:
        yield FieldError(path, "Invalid", warning, "must not be an empty string")


def _version(version: dict[str, Any], i: int, *, alone: bool) -> Iterator[FieldError]:
    """One version; the server names the parts of a lone version as if they stood in the spec itself."""
    path = "spec" if alone else f"spec.versions[{i}]"
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield FieldError(f"spec.versions[{i}].schema.openAPIV3Schema", "Required")
    else:
        yield from _root(schema, f"{path}.{'validation' if alone else 'schema'}.openAPIV3Schema")
    for n, column in enumerate(version.get("additionalPrinterColumns") or []):
        yield from _column(column, f"{path}.additionalPrinterColumns[{n}]")
    for n, field in enumerate(version.get("selectableFields") or []):
        yield from _selectable(field.get("jsonPath", ""), schema, f"{path}.selectableFields[{n}].jsonPath")
    parts = version.get("subresources") or {}
    scale = parts.get("scale") or {}
    for field in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath") if "scale" in parts else ():
        value = scale.get(field)
        if not value and field != "labelSelectorPath":
            yield FieldError(f"{path}.subresources.scale.{field}", "Required")
        elif value and not value.startswith("."):
            detail = "must be a simple json path starting with ."
            yield FieldError(f"{path}.subresources.scale.{field}", "Invalid", value, detail)


def _selectable(json_path: str, schema: Node | None, path: str) -> Iterator[FieldError]:
    if not json_path.startswith((".", "[")):
        detail = f"is an invalid path: expected [ or . but got: {json_path.partition('.')[0]}"
        yield FieldError(path, "Invalid", json_path, detail)
        return
    node: Any = schema
    for step in json_path.removeprefix(".").split("."):
        node = (node.get("properties") or {}).get(step) if isinstance(node, dict) else None
    if node is None:
        yield FieldError(path, "Invalid", json_path, "is an invalid path: does not refer to a valid field")


def _column(column: dict[str, Any], path: str) -> Iterator[FieldError]:
    kind = column.get("type")
    if not column.get("name"):
        yield FieldError(f"{path}.name", "Required")
    if not kind:
        yield FieldError(f"{path}.type", "Required")
    elif kind not in COLUMN_TYPES:
        yield FieldError(f"{path}.type", "Invalid", kind, f"must be one of {','.join(COLUMN_TYPES)}")
    if not column.get("jsonPath"):
        yield FieldError(f"{path}.JSONPath", "Required")
    elif not str(column["jsonPath"]).startswith("."):
        detail = "must be a simple json path starting with ."
        yield FieldError(f"{path}.JSONPath", "Invalid", column["jsonPath"], detail)


def _root(schema: Node, path: str) -> Iterator[FieldError]:
    if schema.get("type") != "object":
        yield (
            FieldError(f"{path}.type", "Invalid", schema["type"], "must be object at the root")
            if schema.get("type")
            else FieldError(f"{path}.type", "Required", detail="must not be empty at the root")
        )
    if schema.get("nullable"):
        yield FieldError(f"{path}.nullable", "Forbidden", detail="nullable cannot be true at the root")
    yield from _of_own_type(schema.get("properties") or {}, path)
    metadata = (schema.get("properties") or {}).get("metadata") or {}
    extra = set(metadata) - {"type", "description", "properties"}
    if extra or set(metadata.get("properties") or {}) - {"name", "generateName"}:
        detail = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield FieldError(f"{path}.properties[metadata]", "Forbidden", detail=detail)
    yield from _structural(schema, path, root=True)


def _of_own_type(properties: dict[str, Node], path: str) -> Iterator[FieldError]:
    for name, kind in (("metadata", "object"), ("apiVersion", "string"), ("kind", "string")):
        given = (properties.get(name) or {}).get("type")
        if name in properties and given != kind:
            yield FieldError(f"{path}.properties[{name}].type", "Invalid", given or "", f"must be {kind}")


def _structural(node: Node, path: str, *, root: bool = False) -> Iterator[FieldError]:
    kind = node.get("type")
    int_or_string, open_ended = (
        node.get("x-kubernetes-int-or-string"),
        node.get("x-kubernetes-preserve-unknown-fields"),
    )
    if not kind and not int_or_string and not open_ended and not root and "$ref" not in node:
        yield FieldError(f"{path}.type", "Required", detail="must not be empty for specified object fields")
    if kind and kind not in TYPES:
        yield not_supported(f"{path}.type", kind, TYPES)
    if node.get("x-kubernetes-embedded-resource") and not open_ended and not node.get("properties"):
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield FieldError(f"{path}.properties", "Required", detail=detail)
    yield from _keywords(node, path)
    yield from _list_type(node, path)
    yield from _map_type(node, path)
    yield from _children(node, path)
    yield from _junctors(node, path)
    if "default" in node:
        yield from _default(node, path)
    yield from rule_errors(node, path)


def _keywords(node: Node, path: str) -> Iterator[FieldError]:
    for keyword in FORBIDDEN_KEYWORDS:
        if keyword in node:
            yield FieldError(f"{path}.{keyword}", "Forbidden", detail=f"{keyword} is not supported")
    if node.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield FieldError(f"{path}.uniqueItems", "Forbidden", detail=detail)
    if "additionalProperties" in node and node.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield FieldError(f"{path}.additionalProperties", "Forbidden", detail=detail)
    if "pattern" in node:
        try:
            re.compile(node["pattern"])
        except re.error as exc:
            said = f"error parsing regexp: missing closing ): `{node['pattern']}`"
            why = said if exc.msg.startswith("missing )") else exc
            detail = f"must be a valid regular expression, but isn't: {why}"
            yield FieldError(f"{path}.pattern", "Invalid", node["pattern"], detail)


def _map_type(node: Node, path: str) -> Iterator[FieldError]:
    kind = node.get("x-kubernetes-map-type")
    if kind and kind not in ("atomic", "granular"):
        yield not_supported(f"{path}.x-kubernetes-map-type", kind, ("atomic", "granular"))
    if node.get("x-kubernetes-preserve-unknown-fields") is False:
        at = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield FieldError(at, "Invalid", False, "must be true or undefined")


def _list_type(node: Node, path: str) -> Iterator[FieldError]:
    kind, keys = node.get("x-kubernetes-list-type"), node.get("x-kubernetes-list-map-keys")
    if kind and kind not in ("atomic", "map", "set"):
        yield not_supported(f"{path}.x-kubernetes-list-type", kind, ("atomic", "set", "map"))
    if kind and node.get("type") != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        yield FieldError(f"{path}.type", "Invalid", node.get("type", ""), detail)
    if keys and kind != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield FieldError(f"{path}.x-kubernetes-list-type", "Invalid", kind or "", detail)
    if kind == "map" and not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        yield FieldError(f"{path}.x-kubernetes-list-map-keys", "Required", detail=detail)
    items = node.get("items") or {}
    if kind == "set" and items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
        yield FieldError(
            f"{path}.items.x-kubernetes-map-type", "Invalid", items.get("x-kubernetes-map-type"), detail
        )
    if kind == "map":
        yield from _list_keys(items, keys or [], path)


def _list_keys(items: Node, keys: list[str], path: str) -> Iterator[FieldError]:
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield FieldError(f"{path}.items.type", "Invalid", items.get("type", ""), detail)
        return
    if any(key not in (items.get("properties") or {}) for key in keys):
        detail = "entries must all be names of item properties"
        yield FieldError(f"{path}.x-kubernetes-list-map-keys", "Invalid", keys, detail)
    for key in keys:
        field = (items.get("properties") or {}).get(key)
        if field is not None and key not in items.get("required", ()) and "default" not in field:
            at = f"{path}.items.properties[{key}].default"
            yield FieldError(
                at,
                "Required",
                detail="this property is in x-kubernetes-list-map-keys, so it must have a default or be a "
                "required property",
            )


def _children(node: Node, path: str) -> Iterator[FieldError]:
    for name, child in (node.get("properties") or {}).items():
        yield from _structural(child, f"{path}.properties[{name}]")
    if isinstance(node.get("additionalProperties"), dict):
        yield from _structural(node["additionalProperties"], f"{path}.additionalProperties")
    items = node.get("items")
    if isinstance(items, list):
        detail = "items must be a schema object and not an array"
        yield FieldError(f"{path}.items", "Forbidden", detail=detail)
    elif node.get("type") == "array" and not isinstance(items, dict):
        yield FieldError(f"{path}.items", "Required", detail="must be specified")
    elif isinstance(items, dict):
        yield from _structural(items, f"{path}.items")


def _junctors(node: Node, path: str) -> Iterator[FieldError]:
    for keyword in ("allOf", "anyOf", "oneOf"):
        for i, part in enumerate(node.get(keyword) or []):
            yield from _value_part(part, node, f"{path}.{keyword}[{i}]")
    if "not" in node:
        yield from _value_part(node["not"], node, f"{path}.not")


def _value_part(part: Node, node: Node, path: str) -> Iterator[FieldError]:
    """Inside allOf, anyOf, oneOf and not, a schema may only narrow what is specified outside."""
    int_or_string = node.get("x-kubernetes-int-or-string") and set(part) == {"type"}
    for keyword in () if int_or_string else IN_JUNCTORS:
        if keyword in part:
            detail = (
                "must be empty to be structural"
                if keyword in ("type", "title", "description")
                else "must be undefined to be structural"
            )
            yield FieldError(f"{path}.{keyword}", "Forbidden", detail=detail)


def _default(node: Node, path: str) -> Iterator[FieldError]:
    found: list[FieldError] = []
    validate_value(node["default"], Schema(node), "", found)
    for error in found:
        yield replace(error, path=f"{path}.default{error.path}")
    if _says_more(node["default"], Schema(node)):
        yield FieldError(f"{path}.default", "Invalid", node["default"], "must not have unknown fields")


def _says_more(value: Any, schema: Schema) -> bool:
    """Whether a default would lose something when it is pruned."""
    if isinstance(value, list):
        return schema.items is not None and any(_says_more(item, schema.items) for item in value)
    if not isinstance(value, dict) or schema.preserve_unknown:
        return False
    for name, child in value.items():
        field = schema.properties.get(name) or schema.additional
        if field is None or _says_more(child, field):
            return schema.node.get("additionalProperties") is not True
    return False
