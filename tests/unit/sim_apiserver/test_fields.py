"""The algebra of field sets, against plain Python sets of paths."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready_sim.apiserver import fields
from gpuready_sim.apiserver.fields import FieldSet
from gpuready_sim.apiserver.go_values import Whole
from gpuready_sim.apiserver.schema import UNTYPED
from gpuready_sim.apiserver.schemas import schema_of

paths = st.lists(st.sampled_from(["f:a", "f:b", "f:c"]), min_size=1, max_size=3).map(tuple)
path_sets = st.frozensets(paths, max_size=6)


def built(of: frozenset[tuple[str, ...]]) -> FieldSet:
    return fields.from_paths(*(tuple(element[2:] for element in path) for path in sorted(of)))


def read(of: FieldSet) -> frozenset[tuple[str, ...]]:
    return frozenset(fields.members(of))


@given(path_sets)
def test_a_set_holds_what_was_put_in(a: frozenset[tuple[str, ...]]) -> None:
    assert read(built(a)) == a


@given(path_sets, path_sets)
def test_union_difference_and_intersection_are_those_of_sets(a: frozenset[Any], b: frozenset[Any]) -> None:
    assert read(fields.union(built(a), built(b))) == a | b
    assert read(fields.difference(built(a), built(b))) == a - b
    assert read(fields.intersection(built(a), built(b))) == a & b
    assert fields.is_subset(built(a), built(b)) == (a <= b)


@given(path_sets, path_sets)
def test_equal_sets_are_equal_tries(a: frozenset[Any], b: frozenset[Any]) -> None:
    assert fields.difference(fields.union(built(a), built(b)), built(b - a)) == built(a)


def test_paths_read_as_people_write_them() -> None:
    path = ("f:spec", 'k:{"containerPort":80,"protocol":"TCP"}', 'v:"x"', "i:3", "f:a.b/c")

    assert fields.path_text(path) == '.spec[containerPort=80,protocol="TCP"][="x"][3].a.b/c'


def test_a_comparison_tells_added_modified_and_removed_fields_apart() -> None:
    schema = schema_of("", "v1", "Pod")
    assert schema is not None
    old = {"spec": {"nodeName": "a", "containers": [{"name": "x", "image": "1"}, {"name": "gone"}]}}
    new = {"spec": {"hostname": "h", "nodeName": "b", "containers": [{"name": "x", "image": "2"}]}}

    change = fields.compare(old, new, schema)

    assert change.added == {"f:spec": {"f:hostname": {}}}
    assert change.modified == {
        "f:spec": {"f:nodeName": {}, "f:containers": {'k:{"name":"x"}': {"f:image": {}}}}
    }
    assert change.removed == {"f:spec": {"f:containers": {'k:{"name":"gone"}': {".": {}, "f:name": {}}}}}


def test_elements_of_one_key_are_one_field_together() -> None:
    schema = schema_of("", "v1", "Pod")
    assert schema is not None
    first, second = {"name": "x", "image": "1"}, {"name": "x", "image": "2"}
    once, twice, again = ({"spec": {"containers": of}} for of in ([first], [first, second], [second, first]))
    one_leaf = {"f:spec": {"f:containers": {'k:{"name":"x"}': {}}}}
    whole = {"f:spec": {"f:containers": {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:image": {}}}}}

    assert fields.field_set(twice, schema) == one_leaf
    assert fields.compare(once, twice, schema) == fields.Difference(one_leaf, {}, whole)
    assert fields.compare(twice, once, schema) == fields.Difference(whole, {}, one_leaf)
    assert fields.compare(twice, again, schema) == fields.Difference({}, one_leaf, {})


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [(1, Whole(1), False), (1, 1.0, False), (1, 1.5, True), ("1", 1, True)],
)
def test_a_number_is_what_it_is_worth(old: object, new: object, changes: bool) -> None:
    change = fields.compare({"a": old}, {"a": new}, UNTYPED)

    assert change.modified == ({"f:a": {}} if changes else {})
    assert (change.added, change.removed) == ({}, {})
