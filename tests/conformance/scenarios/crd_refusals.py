"""Definitions that are refused: schemas, rules and what these may cost, names and versions."""

from __future__ import annotations

from dataclasses import replace

from ..transcript import Ask, Scenario
from .crd_words import (
    NUMBER,
    OPEN,
    TEXT,
    definition,
    dry,
    list_of,
    map_of,
    obj,
    refused,
    ruled,
    version,
)
from .words import Obj

_EITHER = {"x-kubernetes-int-or-string": True}
_ANY = {"x-kubernetes-preserve-unknown-fields": True}
_EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}


def _text(most: int | None = None) -> Obj:
    return TEXT if most is None else {**TEXT, "maxLength": most}


def _keyed(items: Obj, *keys: str) -> Obj:
    return list_of(items, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


def _set(items: Obj) -> Obj:
    return list_of(items, **{"x-kubernetes-list-type": "set"})


def _costly(part: object) -> Ask:
    """Of one that is taken nothing is compared but that it is."""
    return refused(part)


def _one(schema: object, **more: object) -> Ask:
    return dry(definition(version("v1", schema, storage=True, **more)))


FIELDS = obj(
    {
        "free": _ANY,
        "open": OPEN,
        "s": TEXT,
        "ios": _EITHER,
        "m": map_of(TEXT),
    }
)
_V1 = version("v1", storage=True)

SCENARIOS = [
    Scenario(
        "a schema says more than it may",
        [
            refused(part)
            for part in (
                list_of({}),
                list_of(obj({"a": {}})),
                map_of({}),
                {"type": "null"},
                {"type": "odd"},
                {**_EMBEDDED, "type": "string"},
                {"x-kubernetes-embedded-resource": True, **_ANY},
                {**_EITHER, **_ANY},
                {**_EITHER, "anyOf": [{"type": "integer"}]},
                {"type": "string", "x-kubernetes-map-type": "atomic"},
                {**_ANY, "x-kubernetes-map-type": "atomic"},
                {**_ANY, "x-kubernetes-list-type": "atomic"},
                _set(obj({"a": TEXT})),
                _set(_set(TEXT)),
                _set({**TEXT, "nullable": True}),
                list_of(TEXT, **{"x-kubernetes-list-map-keys": ["a"]}),
                {**_set(TEXT), "x-kubernetes-list-map-keys": ["a"]},
                _keyed(
                    obj({"a": {**TEXT, "nullable": True}, "b": obj({})}, required=["a", "b"]), "a", "b", "b"
                ),
                _keyed(obj({"a": TEXT}, required=["a"], nullable=True), "a"),
                {**_keyed(TEXT, "a"), "items": None},
                {**obj({}), "allOf": [{"properties": {"x": NUMBER}}]},
                {**obj({"x": NUMBER}), "allOf": [{"properties": {"x": {"nullable": True, "minimum": 3}}}]},
                {**TEXT, "not": {"anyOf": [{"title": "x"}]}},
                {**TEXT, "anyOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]},
                {**NUMBER, "default": "x"},
                {**obj({"b": {**NUMBER, "minimum": 3}}), "default": {"b": 1}},
                {**ruled(NUMBER, "self > 5", message="m"), "default": 1},
                {**list_of(NUMBER), "default": ["x"]},
                {**_EMBEDDED, "properties": {"metadata": {"type": "string"}}},
                {**_EMBEDDED, "additionalProperties": TEXT},
                {**TEXT, "$schema": "x"},
                {**TEXT, "id": "x"},
                {**TEXT, "definitions": {"x": TEXT}},
            )
        ],
    ),
    Scenario(
        "a schema says of the head of an object more than it may",
        [
            _one({"type": "object", "additionalProperties": TEXT}),
            _one(obj({}, oneOf=[{"required": ["a"]}]), subresources={"status": {}}),
            _one(obj({"metadata": obj({"name": TEXT}, required=["name"])})),
            _one(obj({"metadata": obj({"name": TEXT, "x": TEXT})})),
            _one(obj({"kind": {**TEXT, "default": "x"}})),
            _one({}),
            _one(None),
        ],
    ),
    Scenario(
        "the versions and names of a definition that cannot be",
        [
            dry(made)
            for made in (
                definition(_V1, version("v1")),
                definition(_V1, version("v2", storage=True)),
                definition(version("v1"), version("v2", obj({}))),
                definition(version("V1", storage=True), version("V2")),
                definition(),
                definition(version("v1", obj({"a": {}}), storage=True), version("v2", obj({"a": {}}))),
                definition(version("v1", obj({"a": {}}), storage=True), version("v2", obj({"b": {}}))),
                definition(
                    {**_V1, "additionalPrinterColumns": [{"name": "", "type": "", "jsonPath": ""}]},
                    version(
                        "v2",
                        additionalPrinterColumns=[
                            {"name": "a", "type": "string", "jsonPath": "x", "format": "odd"}
                        ],
                    ),
                ),
                *(
                    definition({**_V1, "subresources": {"scale": scale}})
                    for scale in (
                        {
                            "specReplicasPath": ".status.x",
                            "statusReplicasPath": ".spec.y",
                            "labelSelectorPath": ".metadata.z",
                        },
                        {"specReplicasPath": ".spec", "statusReplicasPath": ".status"},
                    )
                ),
                definition(
                    version(
                        "v1",
                        obj({"spec": obj({"a": TEXT, "b": obj({}), "c": list_of(TEXT)})}),
                        storage=True,
                        selectableFields=[
                            {"jsonPath": path}
                            for path in (".spec.a", ".spec.a", ".spec.b", ".metadata.name", "", ".spec.c[0]")
                        ],
                    )
                ),
                definition({**_V1, "deprecated": True, "deprecationWarning": "a" * 257}),
                definition({**_V1, "deprecated": True, "deprecationWarning": "a\nb"}),
                definition(_V1, names={"plural": "", "kind": ""}),
                definition(_V1, names={"shortNames": ["A", "b c"], "categories": ["", "X"]}),
                definition(_V1, names={"listKind": "Thing"}),
                definition(_V1, scope=""),
                *(
                    definition(_V1, conversion=conversion)
                    for conversion in (
                        {
                            "strategy": "None",
                            "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v1"]},
                        },
                        {
                            "strategy": "Webhook",
                            "webhook": {
                                "clientConfig": {"url": "https://x"},
                                "conversionReviewVersions": ["v9", "v9", "X"],
                            },
                        },
                        {"strategy": ""},
                    )
                ),
                definition(
                    version("v1", obj({"a": {**TEXT, "default": "x"}}), storage=True),
                    preserveUnknownFields=True,
                ),
                definition(_V1, meta={"name": "x.y"}),
            )
        ],
    ),
    Scenario(
        "rules are read with the types of their schema",
        [
            *(
                refused(ruled(FIELDS, rule))
                for rule in (
                    "self.free == 1",
                    "self.open.x == 1",
                    "self.s.x == 'a'",
                    "self.nope == 1",
                    "oldSelf.nope == 1",
                    "self.s > 1",
                    "self.s + 1 == 2",
                    "foo(self.s)",
                    "self.s.foo()",
                    "self",
                    "self.s",
                    "self.m.all(k, k.x == 1)",
                    "self.s.matches('(')",
                    "self.metadata.name == 'a'",
                    "self.s.all(x, x == 'a')",
                    "self.m['a'] > 1",
                    "self.m.map(k, self.m[k]) == [1]",
                    "cel.bind(n, 1, n > 0)",
                )
            ),
            *(
                _one(ruled(obj({"spec": FIELDS}), rule))
                for rule in ("self.metadata.labels == {}", "self.spec.s == 1", "self.spec.all(x, x == 1)")
            ),
            *(
                refused(ruled(NUMBER, "self > 1", **more))
                for more in (
                    {"messageExpression": "'a' + self"},
                    {"messageExpression": " "},
                    {"messageExpression": "nope"},
                    {"message": " "},
                    {"fieldPath": " "},
                    {"optionalOldSelf": True},
                    {"reason": ""},
                )
            ),
            refused(ruled(NUMBER, "self >\n 1")),
            refused(ruled(NUMBER, "self >\n 'a'", message="x")),
            refused(ruled(NUMBER, "oldSelf > 1", optionalOldSelf=True)),
            refused(list_of(ruled(NUMBER, "self == oldSelf"), maxItems=3)),
        ],
    ),
    Scenario(
        "rules that may cost too much",
        [
            *map(
                _costly,
                (
                    list_of(ruled(TEXT, "self.contains('abc')")),
                    list_of(ruled(TEXT, "self.matches('^[a-z]+$')")),
                    ruled(list_of(TEXT), "self.all(x, self.exists(y, x == y))"),
                    ruled(list_of(_text(10), maxItems=1000), "self.all(x, self.exists(y, x == y))"),
                    ruled(list_of(list_of(TEXT)), "self.all(x, x.all(y, y == 'a'))"),
                    ruled(list_of(NUMBER), "self.all(x, self.all(y, x >= y))"),
                    ruled(map_of(TEXT), "self.all(k, self[k] == 'a')", "self.all(k, k.startsWith('abc'))"),
                    map_of(map_of(map_of(ruled(TEXT, "self.size() > 3")))),
                    list_of(obj({"a": ruled(TEXT, "self.matches('x')")}, required=["a"])),
                    ruled(TEXT, f"self.matches('{'a' * 200}')"),
                    ruled(TEXT, "self.replace('a', 'bb').contains('xxxxxxxxxxxx')"),
                    ruled(TEXT, "self.split(',').all(x, x.contains('a'))"),
                    ruled(TEXT, "self.contains(self)"),
                    ruled(
                        _keyed(obj({"k": TEXT, "v": TEXT}, required=["k"]), "k"),
                        "self.all(x, oldSelf.exists(y, y.k == x.k))",
                    ),
                    ruled(obj({"a": list_of(TEXT), "b": list_of(TEXT)}), "self.a.all(x, x in self.b)"),
                    ruled(
                        list_of(TEXT), "self.size() < 5", messageExpression="self.join(',').replace('a', 'b')"
                    ),
                    list_of(ruled(_EITHER, "type(self) == int ? self > 1 : self.endsWith('%')")),
                    ruled(
                        obj({"o": obj({"p": list_of(TEXT)})}),
                        "self.?o.?p.orValue([]).all(x, x.contains('bb'))",
                    ),
                ),
            ),
            *(
                replace(refused(part), only_status=True)
                for part in (
                    list_of(ruled(NUMBER, "self > 1")),
                    list_of(ruled(TEXT, "self.startsWith('a')")),
                    ruled(list_of(_text(10), maxItems=100), "self.all(x, self.exists(y, x == y))"),
                    ruled(list_of(TEXT), "self.join(',').size() > 3"),
                    ruled(
                        map_of(_text(5), maxProperties=5), "self.all(k, self.exists(j, self[j] == self[k]))"
                    ),
                    list_of(ruled(TEXT, "isQuantity(self)")),
                )
            ),
            refused(obj({"a": list_of(ruled(TEXT, *["self.startsWith('ab')"] * 40))})),
        ],
    ),
]
