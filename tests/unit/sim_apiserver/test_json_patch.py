"""JSON patch and merge patch against the examples of RFC 6902 and RFC 7386."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready_sim.apiserver.json_patch import PatchError, json_patch, merge_patch


@pytest.mark.parametrize(
    ("doc", "ops", "result"),
    [
        pytest.param(
            {"foo": "bar"}, [("add", "/baz", "qux")], {"baz": "qux", "foo": "bar"}, id="A.1 add a member"
        ),
        pytest.param(
            {"foo": ["bar", "baz"]}, [("add", "/foo/1", "qux")], {"foo": ["bar", "qux", "baz"]}, id="A.2"
        ),
        pytest.param(
            {"baz": "qux", "foo": "bar"}, [("remove", "/baz")], {"foo": "bar"}, id="A.3 remove a member"
        ),
        pytest.param(
            {"foo": ["bar", "qux", "baz"]}, [("remove", "/foo/1")], {"foo": ["bar", "baz"]}, id="A.4"
        ),
        pytest.param({"baz": "qux"}, [("replace", "/baz", "boo")], {"baz": "boo"}, id="A.5 replace"),
        pytest.param(
            {"foo": "bar"},
            [("add", "/child", {"grandchild": {}})],
            {"foo": "bar", "child": {"grandchild": {}}},
            id="A.10",
        ),
        pytest.param({"/": 9, "~1": 10}, [("test", "/~01", 10)], {"/": 9, "~1": 10}, id="A.14 escapes"),
        pytest.param(
            {"foo": ["bar"]},
            [("add", "/foo/-", ["abc", "def"])],
            {"foo": ["bar", ["abc", "def"]]},
            id="A.16 append",
        ),
        pytest.param({"a": 1}, [("test", "/b", None)], {"a": 1}, id="null equals absence"),
        pytest.param({"a": 1}, [("replace", "", {"b": 2})], {"b": 2}, id="the whole document"),
    ],
)
def test_operations_as_in_the_rfc(doc: Any, ops: list[tuple[Any, ...]], result: Any) -> None:
    before = copy.deepcopy(doc)

    assert json_patch(doc, [operation(*op) for op in ops]) == result
    assert doc == before


def operation(op: str, path: str, *value: Any) -> dict[str, Any]:
    return {"op": op, "path": path} | ({"value": value[0]} if value else {})


def test_move_and_copy_take_a_value_from_elsewhere() -> None:
    doc = {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}}

    moved = json_patch(doc, [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}])
    assert moved == {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}}

    copied = json_patch(doc, [{"op": "copy", "from": "/foo", "path": "/again"}])
    assert copied["again"] == doc["foo"]


@pytest.mark.parametrize(
    "op",
    [
        pytest.param({"op": "test", "path": "/a", "value": 2}, id="test of another value"),
        pytest.param({"op": "test", "path": "/t", "value": 1}, id="true is not 1"),
        pytest.param({"op": "remove", "path": "/x"}, id="remove of nothing"),
        pytest.param({"op": "add", "path": "/x/y", "value": 1}, id="add below nothing"),
        pytest.param({"op": "add", "path": "/l/3", "value": 1}, id="add beyond the end"),
        pytest.param({"op": "add", "path": "", "value": {}}, id="add to the whole document"),
        pytest.param({"op": "test", "path": "/x/y", "value": None}, id="null below nothing"),
        pytest.param({"op": "test", "path": "/l/9", "value": None}, id="null beyond the end"),
        pytest.param({"op": "remove", "path": "/l/-9"}, id="too far from the end"),
        pytest.param({"op": "spam", "path": "/a"}, id="unknown operation"),
        pytest.param({"op": "move", "from": "/l", "path": "/l/0"}, id="into itself"),
    ],
)
def test_an_operation_that_does_not_fit_is_422(op: dict[str, Any]) -> None:
    with pytest.raises(PatchError) as caught:
        json_patch({"a": 1, "t": True, "l": [1]}, [op])

    assert (caught.value.code, caught.value.reason) == (422, "Invalid")


def test_a_patch_that_is_no_list_is_400() -> None:
    with pytest.raises(PatchError) as caught:
        json_patch({}, {"op": "add"})  # type: ignore[arg-type]

    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("doc", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_of_the_rfc(doc: Any, patch: Any, result: Any) -> None:
    assert merge_patch(doc, patch) == result


values = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(values, values)
def test_merging_twice_is_merging_once(doc: Any, patch: Any) -> None:
    once = merge_patch(doc, patch)

    assert merge_patch(once, patch) == once


@given(st.dictionaries(st.text("ab", max_size=2), values, max_size=3))
def test_merging_an_object_into_nothing_gives_the_object(doc: Any) -> None:
    assert merge_patch({}, doc) == doc
