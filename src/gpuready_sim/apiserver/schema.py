"""One view of a type for everybody who walks objects: merging, ownership, validation, defaulting.

A `Schema` wraps a node of an OpenAPI document (of a built-in type or of a CRD's version) and answers in
Kubernetes' own terms: which fields, which list type, which merge key. Children are made on first use, so
recursive types cost nothing. Pure; `schemas.py` loads the documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Node = dict[str, Any]

GRANULAR: Final = "granular"
ATOMIC: Final = "atomic"
SET: Final = "set"
MAP: Final = "map"

INT_OR_STRING: Final = "int-or-string"
QUANTITY: Final = "quantity"
ANY: Final = ""

KEY_DEFAULTS: Final[Mapping[str, str]] = {"protocol": "TCP"}
# The only list keys of built-in types that may be left out (ports of containers and services); the
# published schemas carry this default and the zeros of required ones, kubernetes-validate's do not.


class Schema:
    """A type: its kind of value, its fields or elements, and how two values of it merge.

    type           object, array, string, integer, number, boolean, int-or-string, quantity; "" for anything
    properties     fields by name, for structs
    additional     type of the values of a map with free keys
    items          type of a list's elements
    relation       how ownership sees it: granular or atomic for maps; map, set or atomic for lists
    list_map_keys  which fields identify an element of a list of relation `map`
    key_defaults   values of identifying fields that may be left out
    patch_strategy, patch_merge_key   for strategic merge patches: "merge", "replace", "retainKeys" …
    """

    __slots__ = (
        "_additional",
        "_definitions",
        "_items",
        "_properties",
        "key_defaults",
        "list_map_keys",
        "node",
        "nullable",
        "patch_merge_key",
        "patch_strategy",
        "preserve_unknown",
        "ref",
        "relation",
        "required",
        "type",
    )

    def __init__(self, node: Node, definitions: Mapping[str, Node] | None = None) -> None:
        definitions = definitions or {}
        self.ref: str = node.get("$ref", "")
        overlay = node
        if self.ref:
            node = definitions[self.ref]
            if any(key.startswith("x-kubernetes-") for key in overlay):
                node = node | {key: value for key, value in overlay.items() if key != "$ref"}
        self.node = node
        self._definitions = definitions
        self._properties: dict[str, Schema] | None = None
        self._items: Schema | None = None
        self._additional: Schema | None = None
        self.type = _type_of(node, self.ref)
        self.required: tuple[str, ...] = tuple(node.get("required", ()))
        self.nullable: bool = bool(node.get("nullable"))
        self.preserve_unknown: bool = bool(node.get("x-kubernetes-preserve-unknown-fields"))
        self.patch_strategy: str = node.get("x-kubernetes-patch-strategy", "")
        self.patch_merge_key: str = node.get("x-kubernetes-patch-merge-key", "")
        self.list_map_keys: tuple[str, ...] = ()
        self.key_defaults: dict[str, Any] = {}
        self.relation = self._relation(node)

    def _relation(self, node: Node) -> str:
        if self.type == "array":
            kind: str = node.get("x-kubernetes-list-type", "")
            keys = tuple(node.get("x-kubernetes-list-map-keys", ()))
            if not kind and "merge" in self.patch_strategy:
                kind = MAP if self.patch_merge_key else SET
                keys = (self.patch_merge_key,) if self.patch_merge_key else ()
            if kind == MAP:
                self.list_map_keys = tuple(sorted(keys))
                self.key_defaults = self._key_defaults()
            return kind or ATOMIC
        if self.type == "object":
            mapping: str = node.get("x-kubernetes-map-type", GRANULAR)
            return mapping
        return GRANULAR if self.preserve_unknown else ATOMIC

    def _key_defaults(self) -> dict[str, Any]:
        items = self.items
        if items is None:
            return {}
        found = {}
        for key in self.list_map_keys:
            field = items.properties.get(key)
            if field is not None and "default" in field.node:
                found[key] = field.node["default"]
            elif items.ref and key in KEY_DEFAULTS:
                found[key] = KEY_DEFAULTS[key]
            elif items.ref.endswith(".LocalObjectReference"):
                found[key] = ""
            elif items.ref and field is not None and key in items.required:
                found[key] = 0 if field.type == "integer" else ""
        return found

    @property
    def properties(self) -> dict[str, Schema]:
        if self._properties is None:
            self._properties = {
                name: Schema(child, self._definitions)
                for name, child in self.node.get("properties", {}).items()
            }
        return self._properties

    @property
    def items(self) -> Schema | None:
        if self._items is None and isinstance(self.node.get("items"), dict):
            self._items = Schema(self.node["items"], self._definitions)
        return self._items

    @property
    def additional(self) -> Schema | None:
        if self._additional is None and isinstance(self.node.get("additionalProperties"), dict):
            self._additional = Schema(self.node["additionalProperties"], self._definitions)
        return self._additional

    def child(self, name: str) -> Schema:
        """The type of a field or map value; a type that accepts anything when the schema says nothing."""
        field = self.properties.get(name)
        if field is not None:
            return field
        return self.additional or (UNTYPED if self.preserve_unknown or not self.type else UNTYPED_ATOMIC)

    def element(self) -> Schema:
        return self.items or UNTYPED_ATOMIC

    def __repr__(self) -> str:
        return f"Schema({self.ref or self.type or 'any'})"


def _type_of(node: Node, ref: str) -> str:
    if ref.endswith(".api.resource.Quantity"):
        return QUANTITY
    if node.get("x-kubernetes-int-or-string") or ref.endswith(".IntOrString"):
        return INT_OR_STRING
    kind = node.get("type", "")
    if not kind and ("properties" in node or "additionalProperties" in node):
        return "object"
    return str(kind)


UNTYPED: Final = Schema({"x-kubernetes-preserve-unknown-fields": True})
# A value nobody described, whose maps are still merged field by field; its lists are atomic.
UNTYPED_ATOMIC: Final = Schema({})
# A value nobody described and that is owned as a whole.
