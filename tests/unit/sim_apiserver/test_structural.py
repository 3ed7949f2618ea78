"""Custom resources: pruning, defaults, validation messages, list types, rules; and CRDs themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready_sim.apiserver.crd_rules import validate_crd
from gpuready_sim.apiserver.structural import CustomSchema

Object = dict[str, Any]


def schema(**properties: Object) -> CustomSchema:
    return CustomSchema(
        version({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
    )


def version(root: Object) -> Object:
    return {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}


def foo(**spec: Any) -> Object:
    return {"apiVersion": "x.dev/v1", "kind": "Foo", "metadata": {"name": "f"}, "spec": spec}


def messages(custom: CustomSchema, obj: Object, old: Object | None = None) -> list[str]:
    return [error.message() for error in custom.validate(obj, old)]


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def test_unknown_fields_are_pruned_and_named() -> None:
    custom = schema(a=STRING, l={"type": "array", "items": {"type": "object", "properties": {"b": STRING}}})
    obj = foo(a="1", z=1, l=[{"b": "1", "y": 2}]) | {"top": 1}

    assert custom.prune(obj) == foo(a="1", l=[{"b": "1"}])
    assert custom.unknown_fields(obj) == ["spec.l[0].y", "spec.z", "top"]


def test_metadata_is_never_pruned() -> None:
    obj = foo()
    obj["metadata"] |= {"labels": {"a": "b"}, "uid": "u"}

    assert schema().prune(obj) == obj


def test_fields_that_are_to_be_preserved_stay() -> None:
    embedded = ANYTHING | {"x-kubernetes-embedded-resource": True}
    custom = schema(
        free=ANYTHING | {"properties": {"known": {"type": "object", "properties": {}}}}, object=embedded
    )
    obj = foo(
        free={"x": {"y": 1}, "known": {"gone": 1}}, object={"apiVersion": "v1", "kind": "Pod", "metadata": {}}
    )

    assert custom.prune(obj)["spec"] == {
        "free": {"x": {"y": 1}, "known": {}},
        "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {}},
    }


def test_defaults_reach_into_lists_maps_and_defaults() -> None:
    custom = schema(
        mode=STRING | {"default": "auto"},
        nested={"type": "object", "default": {}, "properties": {"n": INTEGER | {"default": 1}}},
        items={"type": "array", "items": {"type": "object", "properties": {"v": STRING | {"default": "x"}}}},
        map={
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"v": STRING | {"default": "y"}}},
        },
        absent={"type": "object", "properties": {"v": STRING | {"default": "never"}}},
    )

    assert custom.default(foo(items=[{}, {"v": "z"}], map={"a": {}}, mode=None))["spec"] == {
        "mode": "auto",
        "nested": {"n": 1},
        "items": [{"v": "x"}, {"v": "z"}],
        "map": {"a": {"v": "y"}},
    }


def test_null_survives_where_it_is_allowed() -> None:
    custom = schema(a=STRING | {"default": "x", "nullable": True})

    assert custom.default(foo(a=None)) == foo(a=None)
    assert messages(custom, foo(a=None)) == []


@pytest.mark.parametrize(
    ("node", "value", "message"),
    [
        (STRING, 1, 'spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer"'),
        (INTEGER, "1", 'spec.x: Invalid value: "string": spec.x in body must be of type integer: "string"'),
        (
            {"type": "boolean"},
            "yes",
            'spec.x: Invalid value: "string": spec.x in body must be of type boolean: "string"',
        ),
        (STRING, None, 'spec.x: Invalid value: "null": spec.x in body must be of type string: "null"'),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            'spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean"',
        ),
        (
            STRING | {"enum": ["auto", "open", "proprietary"]},
            "x",
            'spec.x: Unsupported value: "x": supported values: "auto", "open", "proprietary"',
        ),
        (
            STRING | {"pattern": "^[a-z]+$"},
            "A\n",
            "spec.x: Invalid value: \"A\\n\": spec.x in body should match '^[a-z]+$'",
        ),
        (STRING | {"maxLength": 2}, "abc", "spec.x: Too long: may not be more than 2 bytes"),
        (
            STRING | {"minLength": 2},
            "a",
            'spec.x: Invalid value: "a": spec.x in body should be at least 2 chars long',
        ),
        (
            INTEGER | {"minimum": 1},
            0,
            "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
        ),
        (
            INTEGER | {"maximum": 1},
            2,
            "spec.x: Invalid value: 2: spec.x in body should be less than or equal to 1",
        ),
        (
            INTEGER | {"minimum": 1, "exclusiveMinimum": True},
            1,
            "spec.x: Invalid value: 1: spec.x in body should be greater than 1",
        ),
        (
            {"type": "array", "items": STRING, "maxItems": 1},
            ["a", "b"],
            "spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            {"type": "array", "items": STRING, "minItems": 1},
            [],
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
            ["a", "a"],
            'spec.x[1]: Duplicate value: "a"',
        ),
        (
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": STRING}, "required": ["name"]},
            },
            [{"name": "a"}, {"name": "a"}],
            'spec.x[1]: Duplicate value: {"name":"a"}',
        ),
        ({"type": "object", "properties": {"y": STRING}, "required": ["y"]}, {}, "spec.x.y: Required value"),
        (
            STRING | {"format": "date-time"},
            "today",
            'spec.x: Invalid value: "today": spec.x in body must be of type date-time: "today"',
        ),
    ],
)
def test_a_bad_value_is_told_in_the_servers_words(node: Object, value: Any, message: str) -> None:
    assert messages(schema(x=node), foo(x=value)) == [message]


@pytest.mark.parametrize(
    ("node", "value", "found"),
    [
        (
            INTEGER,
            1.5,
            [
                'spec.x: Invalid value: "number": spec.x in body must be of type integer: "number"',
                '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x',
            ],
        ),
        (
            STRING | {"anyOf": [{"pattern": "a"}, {"pattern": "b"}]},
            "c",
            [
                '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
                "spec.x: Invalid value: \"c\": spec.x in body should match 'a'",
            ],
        ),
        (
            {
                "type": "object",
                "properties": {"a": STRING},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            {},
            [
                '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). '
                "Found none valid",
                "spec.x.a: Required value",
            ],
        ),
        (
            STRING | {"not": {"enum": ["c"]}},
            "c",
            ['<nil>: Invalid value: "": "spec.x" must not validate the schema (not)'],
        ),
        (
            STRING | {"enum": ["a"]},
            1,
            [
                'spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer"',
                'spec.x: Unsupported value: 1: supported values: "a"',
            ],
        ),
    ],
)
def test_some_complaints_come_in_several_sentences(node: Object, value: Any, found: list[str]) -> None:
    """As recorded from apiextensions-apiserver v0.37.2, odd paths included."""
    assert messages(schema(x=node), foo(x=value)) == found


CASES = [json.loads(line) for line in (Path(__file__).parent / "data" / "custom_resources.jsonl").open()]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_custom_resources_fare_as_in_the_api_server(case: Object) -> None:
    """Pruned, defaulted and judged as recorded from apiextensions-apiserver v0.37.2."""
    custom = schema(x=case["schema"])
    old = foo(x=case["old"]) if case["old"] is not None else None

    stored = custom.default(custom.prune(foo(x=case["value"])))

    assert stored["spec"] == case["stored"]
    assert sorted(messages(custom, stored, old)) == sorted(case["errors"])


def test_good_values_pass() -> None:
    custom = schema(
        a=STRING, n=INTEGER, f={"type": "number"}, p={"x-kubernetes-int-or-string": True}, o=ANYTHING
    )

    assert messages(custom, foo(a="", n=3.0, f=1, p="25%", o={"x": [1, "2", None]})) == []


def rule(text: str, **more: Any) -> Object:
    return {"x-kubernetes-validations": [{"rule": text, **more}]}


def test_a_broken_rule_speaks_with_its_message_at_its_path() -> None:
    n = schema(n=INTEGER | rule("self != 3", message="must not be 3"))
    assert messages(n, foo(n=3)) == ["spec.n: Invalid value: 3: must not be 3"]
    assert messages(n, foo(n=4)) == []

    plain = schema(n=INTEGER | rule("self != 3"))
    assert messages(plain, foo(n=3)) == ["spec.n: Invalid value: 3: failed rule: self != 3"]

    part = {"type": "object", "properties": {"n": INTEGER}}
    pathed = schema(
        part=part | rule("self.n < 3", message="small", fieldPath=".n", reason="FieldValueForbidden")
    )
    assert messages(pathed, foo(part={"n": 5})) == ["spec.part.n: Forbidden: small"]

    spoken = schema(n=INTEGER | rule("self < 3", messageExpression="'got ' + string(self)"))
    assert messages(spoken, foo(n=5)) == ["spec.n: Invalid value: 5: got 5"]


def test_a_rule_about_change_needs_an_old_value() -> None:
    custom = schema(image=STRING | rule("self == oldSelf", message="image is immutable"))

    assert messages(custom, foo(image="a")) == []
    assert messages(custom, foo(image="a"), foo()) == []
    assert messages(custom, foo(image="a"), foo(image="a")) == []
    assert messages(custom, foo(image="b"), foo(image="a")) == [
        'spec.image: Invalid value: "b": image is immutable'
    ]


def test_an_optional_old_value_can_be_asked_for() -> None:
    text = "!oldSelf.hasValue() || oldSelf.value() <= self"
    custom = schema(n=INTEGER | rule(text, optionalOldSelf=True, message="must not shrink"))

    assert messages(custom, foo(n=1)) == []
    assert messages(custom, foo(n=2), foo(n=1)) == []
    assert messages(custom, foo(n=1), foo(n=2)) == ["spec.n: Invalid value: 1: must not shrink"]


def test_elements_of_a_list_map_are_compared_with_their_former_selves() -> None:
    item = {
        "type": "object",
        "required": ["k"],
        "properties": {"k": STRING, "v": INTEGER | rule("self >= oldSelf")},
    }
    links = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": item,
    }
    custom = schema(l=links)

    old, new = (
        foo(l=[{"k": "a", "v": 1}, {"k": "b", "v": 5}]),
        foo(l=[{"k": "b", "v": 4}, {"k": "a", "v": 1}]),
    )

    assert messages(custom, new, old) == ["spec.l[0].v: Invalid value: 4: failed rule: self >= oldSelf"]


def test_a_rule_that_cannot_be_evaluated_is_an_error() -> None:
    custom = schema(o={"type": "object", "properties": {"a": STRING}} | rule("self.a == 'x'"))

    assert messages(custom, foo(o={})) == [
        "spec.o: Invalid value: \"object\": no such key: a evaluating rule: self.a == 'x'"
    ]


def test_rules_at_the_root_see_the_name_and_escaped_fields() -> None:
    root = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"a-b": STRING, "namespace": STRING}}},
    }
    custom = CustomSchema(
        version(root | rule("self.metadata.name == self.spec.a__dash__b || self.spec.__namespace__ == ''"))
    )

    assert messages(custom, foo(**{"a-b": "f", "namespace": "x"})) == []
    assert len(messages(custom, foo(**{"a-b": "g", "namespace": "x"}))) == 1


def test_rules_see_times_and_durations_as_such() -> None:
    custom = schema(
        t=STRING | {"format": "date-time"} | rule("self < timestamp('2026-01-01T00:00:00Z')"),
        d=STRING | {"format": "duration"} | rule("self < duration('1h')"),
    )

    assert messages(custom, foo(t="2025-01-01T00:00:00Z", d="59m59s")) == []
    assert len(messages(custom, foo(t="2027-01-01T00:00:00Z", d="1h30m"))) == 2


def test_rules_wait_until_the_values_are_sound() -> None:
    custom = schema(n=INTEGER | rule("self > 3"))

    assert messages(custom, foo(n="x")) == [
        'spec.n: Invalid value: "string": spec.n in body must be of type integer: "string"',
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation",
    ]


values = st.recursive(
    st.none() | st.integers(0, 2) | st.text("ab", max_size=1),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
TREE = schema(
    a=ANYTHING | {"properties": {"b": {"type": "object", "properties": {"c": STRING | {"default": "x"}}}}},
    b={"type": "array", "items": {"type": "object", "properties": {"a": STRING | {"default": "y"}}}},
    c={
        "type": "object",
        "additionalProperties": {"type": "object", "properties": {"a": INTEGER | {"default": 1}}},
    },
)


@given(st.dictionaries(st.sampled_from("abcd"), values, max_size=4))
def test_pruning_and_defaulting_are_idempotent(spec: Object) -> None:
    pruned = TREE.prune(foo(**spec))
    filled = TREE.default(pruned)

    assert TREE.prune(pruned) == pruned
    assert TREE.unknown_fields(pruned) == []
    assert TREE.default(filled) == filled
    assert TREE.prune(filled) == filled


# --- CRDs ---


def crd(root: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.x.dev"},
        "spec": {
            "group": "x.dev",
            "scope": "Cluster",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [version(root or {"type": "object"})],
            **spec,
        },
    }


def crd_messages(definition: Object) -> list[str]:
    return [error.message() for error in validate_crd(definition)]


def root_with(node: Object) -> Object:
    return crd({"type": "object", "properties": {"spec": node}})


def test_a_plain_definition_is_accepted() -> None:
    assert crd_messages(root_with({"type": "object", "properties": {"a": STRING | {"default": "x"}}})) == []


AT = "spec.validation.openAPIV3Schema.properties[spec]"


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (
            root_with({"properties": {"a": STRING}}),
            f"{AT}.type: Required value: must not be empty for specified object fields",
        ),
        (root_with({"type": "array"}), f"{AT}.items: Required value: must be specified"),
        (
            root_with({"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING}),
            f"{AT}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            root_with(INTEGER | {"default": "x"}),
            f'{AT}.default: Invalid value: "string":  in body must be of type integer: "string"',
        ),
        (
            root_with({"type": "array", "items": STRING, "x-kubernetes-list-type": "map"}),
            f"{AT}.x-kubernetes-list-map-keys: Required value: must not be empty if "
            f"x-kubernetes-list-type is map",
        ),
        (
            crd(scope="Everywhere"),
            'spec.scope: Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced"',
        ),
        (crd(group="dev"), 'spec.group: Invalid value: "dev": should be a domain with at least one dot'),
        (
            crd(versions=[]),
            "spec.versions: Invalid value: []: must have exactly one version marked as storage version",
        ),
    ],
)
def test_a_definition_that_is_not_structural_is_refused(definition: Object, message: str) -> None:
    assert message in crd_messages(definition)


def test_a_rule_that_does_not_compile_is_refused() -> None:
    (message,) = crd_messages(root_with(STRING | rule("self.(")))

    assert message.startswith(f"{AT}.x-kubernetes-validations[0].rule: Invalid value:")
    assert "compilation failed" in message


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("self.a == 'x'", ""),
        ("self.b == 'x'", "b"),
        ("has(self.n.q)", "q"),
        ("self.n.c.startsWith('self.zzz')", ""),
        ("self.a__dash__b == self.?a.orValue('')", ""),
        ("self.free.anything == 1", "anything"),
    ],
)
def test_a_rule_that_reads_an_unknown_field_is_refused(text: str, missing: str) -> None:
    fields = {
        "a": STRING,
        "a-b": STRING,
        "n": {"type": "object", "properties": {"c": STRING}},
        "free": ANYTHING,
    }

    found = crd_messages(root_with({"type": "object", "properties": fields} | rule(text)))

    assert bool(found) == bool(missing)
    assert all(f"undefined field '{missing}'" in message for message in found)
