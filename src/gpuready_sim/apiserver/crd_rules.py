"""Whether a CustomResourceDefinition is acceptable: names, versions, and a structural schema per version.

Source: kubernetes, apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go,
pkg/apiserver/schema/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from gpuready_sim.apiserver import cel
from gpuready_sim.apiserver.field_errors import FieldError, not_supported
from gpuready_sim.apiserver.names import label_errors, service_errors, subdomain_errors
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
KIND: Final = re.compile("[A-Z][A-Za-z0-9]*")


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
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        yield _missing_or_unsupported(spec.get("scope"), "spec.scope", ("Cluster", "Namespaced"))
    yield from _names(names)
    yield from _versions(spec.get("versions") or [])


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
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field)
        if not value:
            if field in ("plural", "kind"):
                yield FieldError(f"spec.names.{field}", "Required")
            continue
        for text in service_errors(str(value).lower()):
            yield FieldError(f"spec.names.{field}", "Invalid", value, text)
        if field in ("plural", "singular") and value != str(value).lower():
            yield FieldError(f"spec.names.{field}", "Invalid", value, "must be lower case")
    for i, short in enumerate(names.get("shortNames") or []):
        yield from (
            FieldError(f"spec.names.shortNames[{i}]", "Invalid", short, text) for text in label_errors(short)
        )
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield FieldError(
            "spec.names.listKind", "Invalid", names["listKind"], "kind and listKind may not be the same"
        )


def _versions(versions: list[dict[str, Any]]) -> Iterator[FieldError]:
    stored = sum(bool(one.get("storage")) for one in versions)
    if not versions:
        yield FieldError("spec.versions", "Required", detail="must have at least one version")
    elif stored != 1:
        yield FieldError(
            "spec.versions", "Invalid", versions, "must have exactly one version marked as storage version"
        )
    seen = set()
    for i, version in enumerate(versions):
        path = f"spec.versions[{i}]"
        if version.get("name") in seen:
            yield FieldError(path, "Duplicate", version.get("name"))
        seen.add(version.get("name"))
        yield from (
            FieldError(f"{path}.name", "Invalid", version.get("name", ""), text)
            for text in service_errors(str(version.get("name", "")))
        )
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            yield FieldError(f"{path}.schema.openAPIV3Schema", "Required", detail="schemas are required")
        else:
            yield from _root(schema, f"{path}.schema.openAPIV3Schema")
        for n, column in enumerate(version.get("additionalPrinterColumns") or []):
            yield from _column(column, f"{path}.additionalPrinterColumns[{n}]")


def _column(column: dict[str, Any], path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield FieldError(f"{path}.name", "Required")
    if column.get("type") not in COLUMN_TYPES:
        yield _missing_or_unsupported(column.get("type"), f"{path}.type", COLUMN_TYPES)
    if not str(column.get("jsonPath", "")).startswith("."):
        detail = "must be a simple json path starting with ."
        yield FieldError(f"{path}.jsonPath", "Invalid", column.get("jsonPath", ""), detail)


def _root(schema: Node, path: str) -> Iterator[FieldError]:
    if schema.get("type") != "object":
        yield (
            FieldError(f"{path}.type", "Invalid", schema["type"], "must be object at the root")
            if schema.get("type")
            else FieldError(f"{path}.type", "Required", detail="must not be empty at the root")
        )
    metadata = (schema.get("properties") or {}).get("metadata") or {}
    extra = set(metadata) - {"type", "description", "properties"}
    if extra or set(metadata.get("properties") or {}) - {"name", "generateName"}:
        detail = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield FieldError(f"{path}.properties[metadata]", "Forbidden", detail=detail)
    yield from _structural(schema, path, root=True)


def _structural(node: Node, path: str, *, root: bool = False) -> Iterator[FieldError]:
    kind = node.get("type")
    int_or_string, open_ended = (
        node.get("x-kubernetes-int-or-string"),
        node.get("x-kubernetes-preserve-unknown-fields"),
    )
    if not kind and not int_or_string and not open_ended and not root:
        yield FieldError(f"{path}.type", "Required", detail="must not be empty for specified object fields")
    if kind and kind not in TYPES:
        yield not_supported(f"{path}.type", kind, TYPES)
    if int_or_string and kind:
        detail = "must be empty if x-kubernetes-int-or-string is true"
        yield FieldError(f"{path}.type", "Forbidden", detail=detail)
    yield from _keywords(node, path)
    yield from _list_type(node, path)
    yield from _children(node, path)
    yield from _junctors(node, path)
    if "default" in node:
        yield from _default(node, path)
    yield from _rules(node, path)


def _keywords(node: Node, path: str) -> Iterator[FieldError]:
    for keyword in FORBIDDEN_KEYWORDS:
        if keyword in node:
            yield FieldError(f"{path}.{keyword}", "Forbidden", detail=f"{keyword} is not supported")
    if node.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield FieldError(f"{path}.uniqueItems", "Forbidden", detail=detail)
    if node.get("additionalProperties") is False:
        yield FieldError(
            f"{path}.additionalProperties", "Forbidden", detail="additionalProperties cannot be set to false"
        )
    if "additionalProperties" in node and node.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield FieldError(f"{path}.additionalProperties", "Forbidden", detail=detail)
    if "pattern" in node:
        try:
            re.compile(node["pattern"])
        except re.error as exc:
            detail = f"must be a valid regular expression, but isn't: {exc}"
            yield FieldError(f"{path}.pattern", "Invalid", node["pattern"], detail)


def _list_type(node: Node, path: str) -> Iterator[FieldError]:
    kind, keys = node.get("x-kubernetes-list-type"), node.get("x-kubernetes-list-map-keys")
    if kind and kind not in ("atomic", "map", "set"):
        yield not_supported(f"{path}.x-kubernetes-list-type", kind, ("atomic", "map", "set"))
    if kind and node.get("type") != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        yield FieldError(f"{path}.type", "Invalid", node.get("type", ""), detail)
    if keys and kind != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield FieldError(f"{path}.x-kubernetes-list-type", "Invalid", kind or "", detail)
    if kind == "map" and not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        yield FieldError(f"{path}.x-kubernetes-list-map-keys", "Required", detail=detail)
    if kind == "map":
        yield from _list_keys(node.get("items") or {}, keys or [], path)


def _list_keys(items: Node, keys: list[str], path: str) -> Iterator[FieldError]:
    for i, key in enumerate(keys):
        field = (items.get("properties") or {}).get(key)
        if field is None:
            detail = "entries must all be names of item properties"
            yield FieldError(f"{path}.x-kubernetes-list-map-keys[{i}]", "Invalid", key, detail)
        elif key not in items.get("required", ()) and "default" not in field:
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
    if node.get("type") == "array" and not isinstance(items, dict):
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
                if keyword == "type"
                else "must be undefined to be structural"
            )
            yield FieldError(f"{path}.{keyword}", "Forbidden", detail=detail)
    for name in part.get("properties") or {}:
        if name not in (node.get("properties") or {}):
            at = path.rpartition(".")[0]
            yield FieldError(
                f"{at}.properties[{name}]",
                "Required",
                detail=f"because it is defined in {path}.properties[{name}]",
            )


def _default(node: Node, path: str) -> Iterator[FieldError]:
    found: list[FieldError] = []
    validate_value(node["default"], Schema(node), "default", found)
    for error in found:
        at = path + "." + error.path
        yield FieldError(
            at, error.type, error.value, error.detail.replace("default in body", f"{at} in body")
        )


def _rules(node: Node, path: str) -> Iterator[FieldError]:
    for i, rule in enumerate(node.get("x-kubernetes-validations") or []):
        at = f"{path}.x-kubernetes-validations[{i}]"
        text = rule.get("rule", "")
        if not text.strip():
            yield FieldError(f"{at}.rule", "Required", detail="rule is not specified")
            continue
        variables = ("oldSelf", "self") if "oldSelf" in text else ("self",)
        problem = cel.check(text, variables)
        if problem:
            yield FieldError(f"{at}.rule", "Invalid", text, f"compilation failed: {problem}")
        if rule.get("messageExpression"):
            problem = cel.check(rule["messageExpression"], ("oldSelf", "self"))
            if problem:
                detail = f"messageExpression compilation failed: {problem}"
                yield FieldError(f"{at}.messageExpression", "Invalid", rule["messageExpression"], detail)
