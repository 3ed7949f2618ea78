"""Custom resource definitions at their corners: which values fit, what rules say, what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..transcript import Ask, Scenario
from .words import CRDS, Obj, apply, delete, get, patch, post

GROUP = "$NS.example.com"
THINGS = f"/apis/{GROUP}/v1/namespaces/$NS/things"
DEFINITION = f"{CRDS}/things.{GROUP}"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
# So long a new kind may take until it is served: an answer that waits, and says nothing.
SERVED = get(CRDS, watch="true", timeoutSeconds="2", fieldSelector="metadata.name=nothing")


def _object(properties: Obj, **more: Any) -> Obj:
    return {"type": "object", "properties": properties, **more}


def _definition(spec: Obj, *, group: str = GROUP, root: Obj | None = None, **more: Any) -> Obj:
    """`more`: names and scope of the definition, or parts of its only version."""
    names = {"plural": "things", "kind": "Thing", **more.pop("names", {})}
    scope, conversion = more.pop("scope", "Namespaced"), more.pop("conversion", None)
    schema = {"openAPIV3Schema": root or _object({"spec": spec})}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, **more}
    found = {"group": group, "scope": scope, "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": found | ({"conversion": conversion} if conversion else {}),
    }


def _with(properties: Obj, *asks: Ask, **more: Any) -> list[Ask]:
    """With a definition around them; how it looks itself is told elsewhere."""
    made = replace(post(CRDS, _definition(_object(properties, **more))), only_status=True)
    return [made, SERVED, *asks, replace(delete(DEFINITION), only_status=True)]


def _thing(name: str, spec: object) -> Obj:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def _things(*specs: object) -> list[Ask]:
    return [post(THINGS, _thing(f"t{number}", spec)) for number, spec in enumerate(specs)]


def _refused(part: Obj) -> Ask:
    return post(CRDS, _definition(_object({"a": part})))


def _ruled(rule: Obj, part: Obj = NUMBER) -> Ask:
    return _refused({**part, "x-kubernetes-validations": [rule]})


FORMATS = {
    "date-time": "2020-01-01",
    "date": "2020-13-01",
    "duration": "x",
    "ipv4": "1.2.3",
    "uuid": "x",
    "byte": "!",
    "email": "x",
    "uri": "http://[x",
    "hostname": "a_b!",
    "cidr": "1.2.3.4",
    "oddity": "x",
}
KEYED = {
    "type": "array",
    "items": _object({"name": TEXT, "v": {"type": "integer", "default": 3}}, required=["name"]),
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
}

SCENARIOS = [
    Scenario(
        "null gives way where null is not allowed, and free fields hold what they like",
        _with(
            {
                "n": {"type": "string", "nullable": True, "default": "d"},
                "m": {"type": "string", "default": "d"},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"known": NUMBER},
                },
                "true": {"type": "object", "additionalProperties": True},
                "map": {"type": "object", "additionalProperties": NUMBER},
                "deep": _object({"b": _object({"c": {"type": "boolean", "default": True}}, default={})}),
            },
            *_things(
                *({}, None, [], {"n": None}, {"m": None}, {"any": None}, {"any": {"a": [1, {"b": None}]}}),
                *(
                    {"free": {"known": "x"}},
                    {"free": {"known": 1, "more": {"a": 1}}},
                    {"true": {"a": {"b": 1}}},
                ),
                *({"map": {"a": None}}, {"map": {"a": 1, "b": "x"}}, {"deep": {}}, {"deep": {"b": None}}),
            ),
            patch("merge", f"{THINGS}/t0", {"spec": {"m": None, "n": None}}),
            apply(f"{THINGS}/t0", _thing("t0", {"map": {"a": 1}}), force="true"),
        ),
    ),
    Scenario(
        "a text that does not fit its format, and a number that does not fit its type",
        _with(
            {
                **{name: {"type": "string", "format": name} for name in FORMATS},
                "int32": {"type": "integer", "format": "int32"},
                "number": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 10},
                "either": {"x-kubernetes-int-or-string": True, "default": "10%"},
            },
            *_things(
                *({name: text} for name, text in FORMATS.items()),
                *({"int32": value} for value in (2147483648, 1.5)),
                *({"number": value} for value in (0, 10, 10.5, "1")),
                *({"either": value} for value in (5, "x", 1.5, True, None)),
            ),
        ),
    ),
    Scenario(
        "the elements of a list by its type, and an object within an object",
        _with(
            {
                "list": KEYED,
                "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
                "inner": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
            *_things(
                *({"list": [{"name": "a"}, {"name": "b", "v": 5}]}, {"list": [{"name": "a"}, {"name": "a"}]}),
                *({"list": [{"v": 1}]}, {"list": [None]}, {"list": ["x"]}, {"list": None}),
                *({"set": ["a", "a"]}, {"set": ["a", "b"]}),
                *({"inner": {}}, {"inner": {"apiVersion": "v1", "kind": "Pod"}}),
            ),
        ),
    ),
    Scenario(
        "what rules say of values that are empty, times or amounts",
        _with(
            {
                "n": {**NUMBER, "nullable": True},
                "time": {
                    **TEXT,
                    "format": "date-time",
                    "x-kubernetes-validations": [{"rule": "self > timestamp('2020-01-01T00:00:00Z')"}],
                },
                "amount": {
                    **TEXT,
                    "maxLength": 20,
                    "x-kubernetes-validations": [{"rule": "isQuantity(self)"}],
                },
                "first": {
                    **TEXT,
                    "maxLength": 10,
                    "x-kubernetes-validations": [
                        {
                            "rule": "oldSelf.hasValue() || self == 'first'",
                            "optionalOldSelf": True,
                            "message": "first must be first",
                        }
                    ],
                },
                "whole": {
                    **NUMBER,
                    "x-kubernetes-validations": [{"rule": "self > 1", "message": "too small"}],
                },
            },
            *_things(
                *({"n": None}, {"n": 1}, {"n": -1}, {"time": "2019-01-01T00:00:00Z"}),
                *({"time": "2021-01-01T00:00:00Z"}, {"amount": "5x"}, {"amount": "5Gi"}, {"first": "second"}),
                *({"first": "first"}, {"whole": 1}, {"whole": "x"}, {"whole": 1, "n": -1}),
            ),
            patch("merge", f"{THINGS}/t8", {"spec": {"first": "second"}}),
            **{"x-kubernetes-validations": [{"rule": "!has(self.n) || self.n > 0", "message": "n positive"}]},
        ),
    ),
    Scenario(
        "a schema that is not structural is refused",
        [
            *map(
                _refused,
                (
                    {},
                    {"type": "array"},
                    {"type": "array", "items": [TEXT]},
                    {"type": "string", "default": 5},
                    {**_object({"b": NUMBER}), "default": {"c": 1}},
                    {"type": "string", "x-kubernetes-list-type": "set"},
                    {"type": "array", "items": TEXT, "x-kubernetes-list-type": "map"},
                    {"type": "object", "x-kubernetes-map-type": "odd"},
                    {"type": "string", "x-kubernetes-preserve-unknown-fields": False},
                    {"type": "object", "x-kubernetes-embedded-resource": True},
                    {**_object({"b": NUMBER}), "additionalProperties": TEXT},
                    {"type": "string", "pattern": "("},
                    {"$ref": "#/x"},
                    {**TEXT, "allOf": [{"description": "x"}]},
                    {**TEXT, "not": {"default": "x"}},
                ),
            ),
            post(CRDS, _definition({}, root={"type": "array", "items": TEXT})),
            post(CRDS, _definition({}, root={"type": "object", "nullable": True})),
            post(CRDS, _definition({}, root=_object({"apiVersion": NUMBER}))),
        ],
    ),
    Scenario(
        "a rule that cannot be is refused with all of it",
        [
            _ruled({"rule": "self == 'x'"}),
            _ruled({"rule": "self.nope"}),
            _ruled({"rule": ""}),
            _ruled({"rule": "self + 1"}),
            _ruled({"rule": "self > 1", "reason": "Odd"}),
            _ruled({"rule": "self > 1", "message": "a\nb"}),
            _ruled({"rule": "self > 1", "messageExpression": "1"}),
            _ruled({"rule": "has(self.b)", "fieldPath": ".c"}, _object({"b": TEXT})),
        ],
    ),
    Scenario(
        "a definition whose names, versions or parts cannot be is refused",
        [
            post(CRDS, _definition(_object({}), **more))
            for more in (
                {"scope": "Everywhere"},
                {"names": {"kind": "thing kind"}},
                {"names": {"listKind": "x y"}},
                {"names": {"singular": "Bad"}},
                {"names": {"shortNames": ["Bad Short"]}},
                {"name": "V1"},
                {"subresources": {"scale": {}}},
                {
                    "subresources": {
                        "scale": {"specReplicasPath": "spec.x", "statusReplicasPath": ".status.x"}
                    }
                },
                {"additionalPrinterColumns": [{"name": "A", "type": "odd", "jsonPath": ".spec"}]},
                {"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": "spec"}]},
                {"additionalPrinterColumns": [{"name": "A", "type": "string"}]},
                {"selectableFields": [{"jsonPath": ".spec.b"}]},
                {"selectableFields": [{"jsonPath": "spec.a"}]},
                {"group": "single"},
                {"group": "k8s.io"},
                {"deprecated": True, "deprecationWarning": ""},
                {"deprecationWarning": "x"},
                {"conversion": {"strategy": "Webhook"}},
                {"conversion": {"strategy": "Odd"}},
            )
        ],
    ),
    Scenario(
        "what an established definition may not change",
        _with(
            {"a": TEXT},
            patch("merge", DEFINITION, {"spec": {"scope": "Cluster"}}),
            patch("merge", DEFINITION, {"spec": {"group": "other.com"}}),
            patch("merge", DEFINITION, {"spec": {"names": {"kind": "Other"}}}),
            replace(
                patch("merge", DEFINITION, {"spec": {"names": {"shortNames": ["th"]}}}), only_status=True
            ),
        ),
    ),
]
