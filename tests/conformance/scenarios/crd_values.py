"""Custom objects at their corners: heads within, lists by their type, formats, rules, and old sins."""

from __future__ import annotations

from ..transcript import Scenario
from .crd_words import (
    DEFINITION,
    IN_FORCE,
    NUMBER,
    OPEN,
    TEXT,
    definition,
    list_of,
    map_of,
    obj,
    ruled,
    thing,
    things,
    tried,
    unseen,
    version,
    with_definition,
)
from .words import Obj, apply, get, patch, post

_EMBEDDED = {**OPEN, "x-kubernetes-embedded-resource": True}
_ANY = {"x-kubernetes-preserve-unknown-fields": True}
_EITHER = {"x-kubernetes-int-or-string": True}


def _of(properties: Obj, root: Obj | None = None, **more: object) -> Obj:
    schema = obj({"spec": obj(properties)}) | (root or {})
    return definition(version("v1", schema, storage=True, **more))


def _keyed(items: Obj, *keys: str) -> Obj:
    return list_of(items, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


def _set(items: Obj) -> Obj:
    return list_of(items, **{"x-kubernetes-list-type": "set"})


def _pod(**metadata: object) -> Obj:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


DEEP = {
    "free": _ANY,
    "half": {**OPEN, "properties": {"known": obj({"a": NUMBER})}},
    "ios": _EITHER,
    "iosp": {
        **_EITHER,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": "^[0-9]+%?$",
        "maximum": 5,
    },
    "set": _set(TEXT),
    "oset": _set(obj({"a": TEXT}, **{"x-kubernetes-map-type": "atomic"})),
    "map": _keyed(obj({"k": TEXT, "j": {**NUMBER, "default": 1}, "v": TEXT}, required=["k"]), "k", "j"),
    "amap": obj({"a": TEXT, "b": TEXT}, **{"x-kubernetes-map-type": "atomic"}),
    "nul": {**TEXT, "nullable": True},
    "nuld": {**obj({"a": {**TEXT, "default": "d"}}, nullable=True), "default": {}},
    "dd": {
        **obj(
            {
                "x": {
                    **obj({"y": {**NUMBER, "default": 1}, "z": {**NUMBER, "default": 2}}),
                    "default": {"y": 5},
                }
            }
        ),
        "default": {},
    },
    "dl": {**list_of(obj({"n": {**NUMBER, "default": 3}, "k": TEXT})), "default": [{"k": "a"}]},
    "dm": {**map_of(obj({"n": {**NUMBER, "default": 3}})), "default": {"a": {}}},
    "i32": {**NUMBER, "format": "int32"},
    "i64": {**NUMBER, "format": "int64"},
    "float": {"type": "number", "format": "float"},
}
FORMATS = {
    "ipv4": ("01.2.3.4", "::1"),
    "ipv6": ("::ffff:1.2.3.4", "1.2.3.4"),
    "cidr": ("1.2.3.4/24", "1.2.3.4/33"),
    "mac": ("0011.2233.4455", "x"),
    "uuid3": ("00000000-0000-3000-0000-000000000000", "00000000-0000-4000-8000-000000000000"),
    "uuid4": ("00000000-0000-4000-8000-000000000000", "00000000-0000-4000-0000-000000000000"),
    "isbn": ("978-0321751041", "0321751044"),
    "creditcard": ("4111-1111-1111-1111", "4111111111111112"),
    "ssn": ("111-22-3333", "111223333"),
    "hexcolor": ("fff", "#ffg"),
    "rgbcolor": ("rgb(1,2,3)", "rgb(300,1,1)"),
    "byte": ("MQ==", ""),
    "date": ("2020-01-01", "2020-1-1"),
    "duration": ("P1D", "1"),
    "datetime": ("2020-01-01T00:00:00+01:00", "2020-02-30T00:00:00Z"),
    "email": ("A <a@b.c>", "a@b c"),
    "uri": ("mailto:x", "http://a b"),
    "hostname": ("a.b", "a-"),
    "bsonobjectid": ("0123456789abcdef01234567", "x"),
    "k8s-short-name": ("a-b", "a.b"),
    "k8s-long-name": ("a.b", "A"),
}
LOOSE = {
    "a": NUMBER,
    "s": TEXT,
    "l": list_of(NUMBER),
    "ml": _keyed(obj({"k": TEXT, "v": NUMBER}, required=["k"]), "k"),
    "m": map_of(TEXT),
    "set": list_of(TEXT, maxItems=9),
}
TIGHT = obj(
    {
        "a": ruled({**NUMBER, "minimum": 10}, "self != 3"),
        "s": {**TEXT, "maxLength": 3, "pattern": "^a"},
        "l": list_of({**NUMBER, "minimum": 5}),
        "ml": _keyed(obj({"k": TEXT, "v": {**NUMBER, "minimum": 5}}, required=["k"]), "k"),
        "m": map_of({**TEXT, "maxLength": 2}),
        "set": _set(TEXT) | {"maxItems": 9},
    }
)
SINS = {
    "a": 3,
    "s": "bbbb",
    "l": [1, 2],
    "ml": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
    "m": {"q": "long"},
    "set": ["a", "a"],
}
_WORD = {**TEXT, "maxLength": 20}
RULED = {
    "b": ruled(_WORD, "self == oldSelf", message="immutable"),
    "c": ruled(
        _WORD, "self.startsWith('x')", messageExpression="'bad: ' + self", reason="FieldValueForbidden"
    ),
    "empty": ruled(NUMBER, "self > 5", messageExpression="''"),
    "broken": ruled(NUMBER, "self > 5", messageExpression="'a\\nb'"),
    "needs": ruled(
        obj({"x": NUMBER}), "has(self.x)", reason="FieldValueRequired", fieldPath=".x", message="x please"
    ),
    "twice": ruled(_WORD, "self != 'd'", reason="FieldValueDuplicate"),
    "key": ruled(map_of(_WORD, maxProperties=9), "!('k.x' in self)", fieldPath="['k.x']"),
    "l": ruled(list_of(ruled(NUMBER, "self < 10"), maxItems=5), "self.all(x, x > 0)", message="positive"),
    "ml": {
        **_keyed(
            obj({"k": {**TEXT, "maxLength": 9}, "v": ruled(NUMBER, "self >= oldSelf")}, required=["k"]), "k"
        ),
        "maxItems": 9,
    },
    "t": ruled({**TEXT, "format": "date-time"}, "self > timestamp('2020-01-01T00:00:00Z')"),
    "d": ruled({**TEXT, "format": "duration"}, "self < duration('1h')"),
    "o": ruled(NUMBER, "oldSelf.orValue(self) <= self", optionalOldSelf=True),
    "num": ruled({"type": "number"}, "self < 1.5"),
    "enum": {**TEXT, "enum": ["a", "b"]},
    "most": {**NUMBER, "allOf": [{"minimum": 3}]},
}

SCENARIOS = [
    Scenario(
        "the head of an object within an object is read as that of any object",
        with_definition(
            _of(
                {
                    "emb": _EMBEDDED,
                    "typed": {
                        "type": "object",
                        "x-kubernetes-embedded-resource": True,
                        "properties": {"spec": obj({"a": TEXT})},
                    },
                }
            ),
            *tried(
                *(
                    {"emb": one}
                    for one in (
                        {},
                        {"apiVersion": "v1", "kind": ""},
                        {"apiVersion": "a/b/c", "kind": "X"},
                        {"apiVersion": "v1", "kind": "a b"},
                        {"apiVersion": 1, "kind": "X"},
                        _pod(name="a", foo=1, labels={"a": "b"}, creationTimestamp=None),
                        _pod(name="Bad Name/"),
                        _pod(labels={"a b": "c"}),
                        _pod(labels="x"),
                        _pod(name=5),
                        {**_pod(), "metadata": "x"},
                        {**_pod(), "metadata": None},
                        _pod(finalizers=["x"], ownerReferences=[{"kind": "x"}]),
                    )
                ),
                {"typed": {**_pod(name="y", more=1), "spec": {"a": "1", "b": 2}, "other": 3}},
            ),
            post(things(), thing("strict", {"emb": _pod(foo=1)}), fieldValidation="Strict"),
            post(things(), {**thing("m", {}), "metadata": {"name": "m", "foo": 1}}),
        ),
    ),
    Scenario(
        "values at depth, lists by their type, and defaults inside defaults",
        with_definition(
            _of(DEEP),
            *tried(
                {"free": [{"a": None}], "half": {"x": {"y": None}, "known": {"a": 1, "b": 2}}, "more": 1},
                {"half": {"known": {"a": "x"}}},
                *({"ios": one} for one in (1.0, 2.5, [], False, 9223372036854775808)),
                *({"iosp": one} for one in ("x", 9, "9%", True)),
                *({"set": one} for one in (["a", "a", "a", "b", "b"], [1])),
                {"oset": [{"a": "1"}, {"a": "1"}]},
                *(
                    {"map": one}
                    for one in (
                        [{"k": "a"}, {"k": "a", "j": 1}],
                        [{"k": "a", "j": 2}, {"k": "a", "v": "x"}],
                        [None, None],
                        ["x"],
                    )
                ),
                {"nul": None, "nuld": None},
                *({"dd": one} for one in ({"x": {}}, {"x": None}, None)),
                *({"dl": one} for one in ([], [{}], None)),
                *({"dm": one} for one in ({"b": None}, {"b": {"n": None}})),
                *({"i32": one} for one in (2147483648, 1.5)),
                {"i64": 9223372036854775808},
                {"float": 1e300},
            ),
            apply(
                things("t0"),
                thing("t0", {"amap": {"a": "1"}, "set": ["x"], "map": [{"k": "a"}]}),
                force="true",
            ),
            apply(
                things("t0"),
                thing("t0", {"amap": {"b": "1"}, "set": ["y"], "map": [{"k": "b", "j": 2}]}),
                "bob",
            ),
            apply(things("t0"), thing("t0", {"set": ["y"], "map": [{"k": "b", "j": 2}]}), "bob"),
            apply(things("t0"), thing("t0", {"map": [{"k": "a", "j": 1, "v": "z"}]}), "carol"),
            apply(things("t0"), thing("t0", {"set": ["q", "q"]}), "carol"),
            get(things("t0")),
        ),
    ),
    Scenario(
        "every format by a text that fits and one that does not",
        with_definition(
            _of({f"f{name}": {**TEXT, "format": name} for name in FORMATS}),
            *(
                post(things(), thing(f"{name}-{number}", {f"f{name}": text}))
                for name, texts in FORMATS.items()
                for number, text in enumerate(texts)
            ),
        ),
    ),
    Scenario(
        "what was wrong before may stay as it is",
        with_definition(
            _of(LOOSE),
            *tried(SINS),
            unseen(
                patch(
                    "jsonpatch",
                    DEFINITION,
                    [
                        {
                            "op": "replace",
                            "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
                            "value": TIGHT,
                        }
                    ],
                )
            ),
            IN_FORCE,
            *(
                patch("merge", things("t0"), change)
                for change in (
                    {"metadata": {"labels": {"x": "y"}}},
                    {"spec": {"a": 4}},
                    {"spec": {"s": "cccc"}},
                    {"spec": {"l": [1, 2, 3]}},
                    {"spec": {"ml": [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "c", "v": 9}]}},
                    {"spec": {"ml": [{"k": "b", "v": 2}, {"k": "a", "v": 3}]}},
                    {"spec": {"m": {"q": "long", "r": "x"}}},
                    {"spec": {"m": {"q": "longer"}}},
                    {"spec": {"set": ["a", "a", "b"]}},
                )
            ),
        ),
    ),
    Scenario(
        "what rules say, where, and of what they are silent",
        with_definition(
            _of(
                RULED,
                root={"x-kubernetes-validations": [{"rule": "self.metadata.name.size() < 5"}]},
            ),
            *tried(
                {"b": "x"},
                {"c": "y"},
                {"empty": 1},
                {"broken": 1},
                {"needs": {}},
                {"twice": "d"},
                {"key": {"k.x": "1"}},
                {"l": [0, -1, 30]},
                {"ml": [{"k": "a", "v": 5}]},
                {"t": "2019-01-01T00:00:00Z"},
                {"d": "2h"},
                {"o": 5},
                {"num": 2},
                {"enum": "c", "l": [0]},
                {"most": 1, "twice": "d"},
                {"num": "x", "c": "y"},
            ),
            post(things(), thing("toolong", {"num": 2})),
            patch("merge", things("t0"), {"spec": {"b": "y"}}),
            patch("merge", things("t0"), {"spec": {"b": None}}),
            patch("merge", things("t0"), {"spec": {"b": "z"}}),
            patch("merge", things("t11"), {"spec": {"o": 4}}),
            patch("merge", things("t11"), {"spec": {"o": 6}}),
            patch("merge", things("t8"), {"spec": {"ml": [{"k": "b", "v": 1}, {"k": "a", "v": 4}]}}),
            patch("merge", things("t8"), {"spec": {"ml": [{"k": "b", "v": 1}, {"k": "a", "v": 6}]}}),
        ),
    ),
]
