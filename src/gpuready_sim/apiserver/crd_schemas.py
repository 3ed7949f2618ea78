"""Whether the schema of a CustomResourceDefinition is acceptable: structural, with sound defaults and rules.

Source: kubernetes, apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go,
pkg/apiserver/schema/{validation,convert}.go, pkg/apiserver/schema/defaulting/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from gpuready_sim.apiserver.field_errors import NOWHERE, FieldError, TypeName, not_supported
from gpuready_sim.apiserver.rule_checks import rule_errors, statement_errors
from gpuready_sim.apiserver.rules import RuleSet
from gpuready_sim.apiserver.schema import Node, Schema
from gpuready_sim.apiserver.values import validate_value

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
META: Final = ("metadata", "apiVersion", "kind")
EMBEDDED: Final = "x-kubernetes-embedded-resource"
OPEN: Final = "x-kubernetes-preserve-unknown-fields"
EITHER: Final = "x-kubernetes-int-or-string"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
MAP_TYPE: Final = "x-kubernetes-map-type"
RULES: Final = "x-kubernetes-validations"

UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
UNREADABLE: Final = (
    "id",
    "$schema",
    "$ref",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
)
# The names of Go's fields that a schema may have at its root beside a status subresource.
AT_ROOT: Final = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength "
    "Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example "
    "XPreserveUnknownFields XValidations"
)
_GO_NAMES: Final = {OPEN: "XPreserveUnknownFields", RULES: "XValidations"}


def has_defaults(schema: Node | None) -> bool:
    return schema is not None and any("default" in node for node in _every_node(schema))


def _every_node(schema: Node) -> Iterator[Node]:
    yield schema
    parts = [schema.get("items"), schema.get("additionalProperties"), schema.get("not")]
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts += schema.get(keyword) or []
    for part in (*parts, *(schema.get("properties") or {}).values()):
        if isinstance(part, dict):
            yield from _every_node(part)


# Formats of texts that the server knows; of those that it does not, it warns.
TEXT_FORMATS: Final = frozenset(
    [
        *(
            "bsonobjectid",
            "uri",
            "email",
            "hostname",
            "ipv4",
            "ipv6",
            "cidr",
            "mac",
            "uuid",
            "uuid3",
            "uuid4",
        ),
        *(
            "uuid5",
            "isbn",
            "isbn10",
            "isbn13",
            "creditcard",
            "ssn",
            "hexcolor",
            "rgbcolor",
            "byte",
            "password",
        ),
        *("date", "duration", "datetime", "k8sshortname", "k8slongname"),
    ]
)
NUMBER_FORMATS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


def unknown_formats(schema: Node | None) -> list[str]:
    """Formats in a schema that the server passes over.

    Source: kubernetes, apiextensions-apiserver pkg/apiserver/validation/formats.go.
    """
    nodes = _every_node(schema) if schema is not None else ()
    return [node["format"] for node in nodes if node.get("format") and not _is_known(node)]


def _is_known(node: Node) -> bool:
    form, kind = str(node["format"]), node.get("type") or "string"
    if kind == "string":
        return form.replace("-", "") in TEXT_FORMATS
    return form in NUMBER_FORMATS.get(kind, ())


def schema_errors(schema: Node, path: str, *, has_status: bool) -> list[FieldError]:
    """Everything that the server would refuse in the schema of one version, or of all versions."""
    errors = list(_of_root(schema, path, has_status))
    odd = _unstructurable(schema)
    structural = [] if odd else sorted(_invariants(schema, path, "root"), key=FieldError.message)
    structural = structural or ([] if odd else list(_defaults(schema, schema, path, inside_meta=False)))
    errors += structural
    stated = list(_statements(schema, path, root=True))
    errors += stated
    if not (odd or structural or stated):
        errors += rule_errors(schema, path)
    if not errors and odd:
        errors.append(FieldError(path, "Invalid", "", odd))
    return errors


def _of_root(schema: Node, path: str, has_status: bool) -> Iterator[FieldError]:
    if has_status and schema.get("type") not in (None, "", "object"):
        detail = (
            'only "object" is allowed as the type at the root of the schema if the status subresource is '
            "enabled"
        )
        yield FieldError(f"{path}.type", "Invalid", schema["type"], detail)
    elif has_status and any(_go_name(key) not in AT_ROOT.split() for key, value in schema.items() if value):
        detail = (
            f"only [{AT_ROOT}] fields are allowed at the root of the schema if the status subresource is "
            "enabled"
        )
        yield FieldError(path, "Invalid", TypeName("<object>"), detail)
    if schema.get("nullable"):
        yield FieldError(f"{path}.nullable", "Forbidden", detail="nullable cannot be true at the root")


def _go_name(keyword: str) -> str:
    return _GO_NAMES.get(keyword) or keyword[0].upper() + keyword[1:]


def _unstructurable(schema: Node) -> str:
    """Why a schema cannot be read as a structural one at all; that is told where nothing else is."""
    for node in _every_node(schema):
        for keyword in UNREADABLE:
            if node.get(keyword):
                return f"OpenAPIV3Schema '{'schema' if keyword == '$schema' else keyword}' is not supported"
        if isinstance(node.get("items"), list):
            return "OpenAPIV3Schema 'items' must be a schema, but is an array"
        if node.get(OPEN) is False:
            return f"internal error: '{OPEN}' must be true or undefined"
    return ""


# --- structure ---


def _invariants(node: Node, path: str, level: str) -> Iterator[FieldError]:
    """
    level  root, item or field
    """
    if node.get("type") == "array" and node.get("items") is None:
        yield FieldError(f"{path}.items", "Required", detail="must be specified")
    if node.get("items") is not None:
        yield from _invariants(node["items"], f"{path}.items", "item")
    for name, child in (node.get("properties") or {}).items():
        yield from _invariants(child, f"{path}.properties[{name}]", "field")
    free = node.get("additionalProperties")
    if free is not None and level == "root":
        yield FieldError(f"{path}.additionalProperties", "Forbidden", detail="must not be used at the root")
    if isinstance(free, dict):
        yield from _invariants(free, f"{path}.additionalProperties", "field")
    if node.get(EITHER):
        for extension in (OPEN, EMBEDDED):
            if node.get(extension):
                yield FieldError(f"{path}.{extension}", "Invalid", True, f"must be false if {EITHER} is true")
    yield from _junctors(node, path)
    yield from _type(node, path, level)
    yield from _of_object(node, path, level)


_MISSING_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def _type(node: Node, path: str, level: str) -> Iterator[FieldError]:
    kind, at = node.get("type"), f"{path}.type"
    if node.get(EMBEDDED) and kind != "object":
        detail = f"must be object if {EMBEDDED} is true"
        yield FieldError(at, "Invalid", kind, detail) if kind else FieldError(at, "Required", detail=detail)
    elif not kind and not node.get(EITHER) and not node.get(OPEN):
        yield FieldError(at, "Required", detail=_MISSING_TYPE[level])
    if level == "root" and kind and kind != "object":
        yield FieldError(at, "Invalid", kind, "must be object at the root")


def _of_object(node: Node, path: str, level: str) -> Iterator[FieldError]:
    """What an object within the object, and the whole itself, may say of its head."""
    properties, embedded = node.get("properties") or {}, node.get(EMBEDDED)
    if embedded and node.get("additionalProperties") is not None:
        detail = f"must not be used if {EMBEDDED} is set"
        yield FieldError(f"{path}.additionalProperties", "Forbidden", detail=detail)
    if level == "root" or embedded:
        for name, kind in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            given = (properties.get(name) or {}).get("type") or ""
            if name in properties and given != kind:
                yield FieldError(f"{path}.properties[{name}].type", "Invalid", given, f"must be {kind}")
    if level == "root" and _says_too_much(properties.get("metadata") or {}):
        detail = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield FieldError(f"{path}.properties[metadata]", "Forbidden", detail=detail)
    if embedded and not node.get(OPEN) and not properties:
        detail = f"must not be empty if {EMBEDDED} is true without {OPEN}"
        yield FieldError(f"{path}.properties", "Required", detail=detail)


def _says_too_much(metadata: Node) -> bool:
    properties = metadata.get("properties") or {}
    said = {key for key, value in metadata.items() if value}
    return bool(said - {"type", "properties", "default"} or set(properties) - {"name", "generateName"})


_NESTED: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    OPEN: "must be false to be structural",
    EMBEDDED: "must be false to be structural",
    EITHER: "must be false to be structural",
    LIST_KEYS: "must be empty to be structural",
    LIST_TYPE: "must be undefined to be structural",
    MAP_TYPE: "must be undefined to be structural",
    RULES: "must be empty to be structural",
}
_NUMBER_OR_TEXT: Final = [{"type": "integer"}, {"type": "string"}]


def _junctors(
    node: Node, path: str, *, skip_any: bool = False, skip_first: bool = False
) -> Iterator[FieldError]:
    """Inside allOf, anyOf, oneOf and not, a schema may only narrow what is specified outside."""
    every = node.get("allOf") or []
    skip_any = skip_any or node.get("anyOf") == _NUMBER_OR_TEXT
    skip_first = skip_first or bool(every and every[0].get("anyOf") == _NUMBER_OR_TEXT)
    for i, part in enumerate([] if skip_any else node.get("anyOf") or []):
        yield from _nested(part, f"{path}.anyOf[{i}]")
    for i, part in enumerate(every):
        yield from _nested(part, f"{path}.allOf[{i}]", skip_any=skip_first and i == 0)
    for i, part in enumerate(node.get("oneOf") or []):
        yield from _nested(part, f"{path}.oneOf[{i}]")
    if isinstance(node.get("not"), dict):
        yield from _nested(node["not"], f"{path}.not")
    if node.get("pattern"):
        yield from _pattern(node["pattern"], f"{path}.pattern")


def _nested(part: Node, path: str, *, skip_any: bool = False) -> Iterator[FieldError]:
    if skip_any:
        part = {key: value for key, value in part.items() if key != "anyOf"}
    yield from _junctors(part, path)
    if isinstance(part.get("items"), dict):
        yield from _nested(part["items"], f"{path}.items")
    for name, child in (part.get("properties") or {}).items():
        yield from _nested(child, f"{path}.properties[{name}]")
    for keyword, detail in _NESTED.items():
        if part.get(keyword) or (keyword in ("additionalProperties", "default") and keyword in part):
            yield FieldError(f"{path}.{keyword}", "Forbidden", detail=detail)
    if "metadata" in (part.get("properties") or {}):
        at = f"{path}.properties[metadata]"
        yield FieldError(at, "Forbidden", detail="must not be specified in a nested context")


def _pattern(pattern: str, path: str) -> Iterator[FieldError]:
    try:
        re.compile(pattern)
    except re.error as exc:
        said = f"error parsing regexp: missing closing ): `{pattern}`"
        why = said if exc.msg.startswith("missing )") else exc
        detail = f"must be a valid regular expression, but isn't: {why}"
        yield FieldError(path, "Invalid", pattern, detail)


# --- defaults ---


def _defaults(node: Node, root: Node, path: str, *, inside_meta: bool) -> Iterator[FieldError]:
    """Defaults that do not fit their own schema."""
    if node.get("default") is not None:
        yield from _default(node, path)
    if isinstance(node.get("items"), dict):
        yield from _defaults(node["items"], root, f"{path}.items", inside_meta=inside_meta)
    for name, child in (node.get("properties") or {}).items():
        within = inside_meta or ((node is root or bool(node.get(EMBEDDED))) and name in META)
        yield from _defaults(child, root, f"{path}.properties[{name}]", inside_meta=within)


def _default(node: Node, path: str) -> Iterator[FieldError]:
    value, schema = node["default"], Schema(node)
    if _says_more(value, schema):
        yield FieldError(f"{path}.default", "Invalid", value, "must not have unknown fields")
    found: list[FieldError] = []
    validate_value(value, schema, "", found)
    for error in found or RuleSet(schema, root=False).validate(value):
        below = error.path.removeprefix(".") if error.path != NOWHERE else ""
        detail = error.detail
        if error.path and detail.startswith(f"{error.path} in body"):
            detail = below + detail.removeprefix(error.path)
        yield replace(error, path=f"{path}.default{'.' if below else ''}{below}", detail=detail)


def _says_more(value: Any, schema: Schema) -> bool:
    """Whether a default would lose something when it is pruned."""
    if isinstance(value, list):
        return schema.items is not None and any(_says_more(item, schema.items) for item in value)
    if not isinstance(value, dict):
        return False
    for name, child in value.items():
        field = schema.properties.get(name) or schema.additional
        if field is None and schema.node.get(EMBEDDED) and name in META:
            continue
        if field is None and not schema.preserve_unknown:
            return schema.node.get("additionalProperties") is not True
        if field is not None and _says_more(child, field):
            return True
    return False


# --- statements ---


def _statements(
    node: Node, path: str, *, root: bool = False, no_defaults: str = "", in_meta: bool = False
) -> Iterator[FieldError]:
    """What no schema may say, structural or not.

    no_defaults  where the schema stands, if no defaults are allowed there
    in_meta      it describes the head of an object
    """
    yield from _unsupported(node, path, no_defaults, in_meta)
    if node.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield FieldError(f"{path}.uniqueItems", "Forbidden", detail=detail)
    free = node.get("additionalProperties")
    if free is not None and free is not True and node.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield FieldError(f"{path}.additionalProperties", "Forbidden", detail=detail)
    if isinstance(free, dict):
        where = "inside additionalProperties applying to object metadata" if in_meta else no_defaults
        at = f"{path}.additionalProperties"
        yield from _statements(free, at, no_defaults=where, in_meta=in_meta)
    for name, child in (node.get("properties") or {}).items():
        head = (root or bool(node.get(EMBEDDED))) and name in META
        where = f"in top-level {name}" if root and head else no_defaults
        at = f"{path}.properties[{name}]"
        yield from _statements(child, at, no_defaults=where, in_meta=in_meta or head)
    for at, child in _parts(node, path):
        yield from _statements(child, at, no_defaults=no_defaults, in_meta=in_meta)
    if node.get(OPEN) is False:
        yield FieldError(f"{path}.{OPEN}", "Invalid", False, "must be true or undefined")
    yield from _map_type(node, path)
    yield from _list_type(node, path)
    yield from statement_errors(node, path)


def _parts(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    if isinstance(node.get("not"), dict):
        yield f"{path}.not", node["not"]
    for keyword in ("allOf", "oneOf", "anyOf"):
        for i, part in enumerate(node.get(keyword) or []):
            yield f"{path}.{keyword}[{i}]", part
    items = node.get("items")
    if isinstance(items, dict):
        yield f"{path}.items", items
    for i, part in enumerate(items if isinstance(items, list) else []):
        yield f"{path}.items[{i}]", part


def _unsupported(node: Node, path: str, no_defaults: str, in_meta: bool) -> Iterator[FieldError]:
    kind = node.get("type")
    if kind and kind not in TYPES:
        yield not_supported(f"{path}.type", kind, TYPES)
    if node.get("default") is not None and no_defaults:
        yield FieldError(f"{path}.default", "Forbidden", detail=f"must not be set {no_defaults}")
    for keyword in UNSUPPORTED:
        if keyword in node:
            yield FieldError(f"{path}.{keyword}", "Forbidden", detail=f"{keyword} is not supported")
    if kind == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        yield FieldError(f"{path}.type", "Forbidden", detail=detail)
    if isinstance(node.get("items"), list):
        detail = "items must be a schema object and not an array"
        yield FieldError(f"{path}.items", "Forbidden", detail=detail)
    if in_meta and node.get(EMBEDDED):
        at = f"{path}.{EMBEDDED}"
        yield FieldError(at, "Forbidden", detail="must not be used inside of resource meta")


def _map_type(node: Node, path: str) -> Iterator[FieldError]:
    kind, given = node.get(MAP_TYPE), node.get("type")
    if kind is None:
        return
    if given != "object":
        detail = f"must be object if {MAP_TYPE} is specified"
        at = f"{path}.type"
        yield FieldError(at, "Invalid", given, detail) if given else FieldError(at, "Required", detail=detail)
    if kind not in ("atomic", "granular"):
        yield not_supported(f"{path}.{MAP_TYPE}", kind, ("atomic", "granular"))


def _list_type(node: Node, path: str) -> Iterator[FieldError]:
    kind, keys, given = node.get(LIST_TYPE), node.get(LIST_KEYS) or [], node.get("type")
    items = node.get("items") if isinstance(node.get("items"), dict) else None
    if kind is not None and given != "array":
        detail = f"must be array if {LIST_TYPE} is specified"
        at = f"{path}.type"
        yield FieldError(at, "Invalid", given, detail) if given else FieldError(at, "Required", detail=detail)
    elif kind == "set" and items:
        yield from _set_items(items, path)
    if kind is not None and kind not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.{LIST_TYPE}", kind, ("atomic", "set", "map"))
    if keys and kind != "map":
        detail, at = f"must be map if {LIST_KEYS} is non-empty", f"{path}.{LIST_TYPE}"
        yield FieldError(at, "Invalid", kind, detail) if kind else FieldError(at, "Required", detail=detail)
    if kind == "map" and not keys:
        detail = f"must not be empty if {LIST_TYPE} is map"
        yield FieldError(f"{path}.{LIST_KEYS}", "Required", detail=detail)
    if kind == "map":
        yield from _map_items(items, keys, path)
    if kind in ("set", "map") and items:
        yield from _keys(items, keys, kind, path)


def _set_items(items: Node, path: str) -> Iterator[FieldError]:
    detail = f"must be atomic as item of a list with {LIST_TYPE}=set"
    if items.get("type") == "array" and items.get(LIST_TYPE) not in (None, "atomic"):
        yield FieldError(f"{path}.items.{LIST_TYPE}", "Invalid", items[LIST_TYPE], detail)
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield FieldError(f"{path}.items.{MAP_TYPE}", "Invalid", items.get(LIST_TYPE), detail)


def _map_items(items: Node | None, keys: list[str], path: str) -> Iterator[FieldError]:
    if items is None:
        detail = f"must have a schema if {LIST_TYPE} is map"
        yield FieldError(f"{path}.items", "Required", detail=detail)
        return
    if items.get("type") != "object":
        detail = f"must be object if parent array's {LIST_TYPE} is map"
        yield FieldError(f"{path}.items.type", "Invalid", items.get("type", ""), detail)
        return
    for i, key in enumerate(keys):
        field = (items.get("properties") or {}).get(key)
        if field is None:
            detail = "entries must all be names of item properties"
            yield FieldError(f"{path}.{LIST_KEYS}", "Invalid", keys, detail)
        elif field.get("type") in ("array", "object"):
            detail = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            yield FieldError(f"{path}.items.properties[{key}].type", "Invalid", items["type"], detail)
        if key in keys[:i]:
            yield FieldError(f"{path}.{LIST_KEYS}", "Invalid", keys, "must not contain duplicate entries")


def _keys(items: Node, keys: list[str], kind: str, path: str) -> Iterator[FieldError]:
    """Elements are told apart by what is always there."""
    if items.get("nullable"):
        detail = f"cannot be nullable when {LIST_TYPE} is {kind}"
        yield FieldError(f"{path}.items.nullable", "Forbidden", detail=detail)
    for key in keys if kind == "map" else ():
        field = (items.get("properties") or {}).get(key)
        if field is None:
            continue
        at, named = f"{path}.items.properties[{key}]", f"this property is in {LIST_KEYS}, so it "
        if key not in (items.get("required") or ()) and field.get("default") is None:
            detail = f"{named}must have a default or be a required property"
            yield FieldError(f"{at}.default", "Required", detail=detail)
        if field.get("nullable"):
            yield FieldError(f"{at}.nullable", "Forbidden", detail=f"{named}cannot be nullable")
