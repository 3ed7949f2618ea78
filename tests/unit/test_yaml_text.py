from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready.yaml_text import YamlError, dump_yaml, parse_yaml, parse_yaml_documents


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-01", "2026-01-01"),
        ("12:30:45", "12:30:45"),
        ("1e3", 1000.0),
        ("yes", True),
        ("off", False),
        ("y", "y"),
        ("010", 8),
        ("08", "08"),
        ("0x1f", 31),
        ("-3", -3),
        ("570.86.10", "570.86.10"),
        ("1.5", 1.5),
        ("~", None),
        ("'yes'", "yes"),
    ],
)
def test_a_plain_word_means_what_it_means_to_kubectl(text: str, value: Any) -> None:
    found = parse_yaml(f"a: {text}")["a"]

    assert found == value
    assert type(found) is type(value)


def test_a_key_twice_is_an_error_with_its_line() -> None:
    with pytest.raises(YamlError, match=r'f.yaml line 3, column 3: the key "b" stands here for the second'):
        parse_yaml("a:\n  b: 1\n  b: 2\n", source="f.yaml")


def test_an_unreadable_text_is_an_error_with_its_line() -> None:
    with pytest.raises(YamlError, match="line 2, column 1"):
        parse_yaml("a: [\n")


def test_several_documents_are_read_without_the_empty_ones() -> None:
    assert parse_yaml_documents("a: 1\n---\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]
    with pytest.raises(YamlError, match="2 YAML documents"):
        parse_yaml("a: 1\n---\nb: 2\n")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param("!!int x", '"x" is no int', id="no number"),
        pytest.param("!!int ''", '"" is no int', id="an empty number"),
        pytest.param("!!float x", '"x" is no float', id="no float"),
        pytest.param("!!float ''", '"" is no float', id="an empty float"),
        pytest.param("!!bool maybe", '"maybe" is no bool', id="no boolean"),
        pytest.param("!!timestamp x", '"x" is no timestamp', id="no time"),
        pytest.param("!!timestamp 2026-99-99", "is no timestamp", id="no such day"),
        pytest.param("!!map x", "expected a mapping node", id="no map"),
        pytest.param("!!nobody x", "could not determine a constructor", id="no such tag"),
        pytest.param("0o_", '"0o_" is no int', id="a prefix alone"),
        pytest.param("9" * 5000, "does not fit into 64 bits", id="5,000 digits"),
        pytest.param("0x" + "f" * 5000, "does not fit into 64 bits", id="5,000 hexadecimal digits"),
        pytest.param("9223372036854775808", "does not fit into 64 bits", id="one too many"),
        pytest.param("-9223372036854775809", "does not fit into 64 bits", id="one too few"),
        pytest.param("{[x]: 1}", "cannot be a key", id="a list as key"),
        pytest.param("{<<: 3}", "expected a mapping", id="a merge of no map"),
        pytest.param("[" * 200 + "]" * 200, "more than 100 levels", id="deep"),
        pytest.param("[" * 200_000, "nesting depth|flow level", id="very deep"),
        pytest.param("\ud800", "surrogates", id="half a character"),
        pytest.param("!!" + "x" * 5000 + " 1", "could not determine", id="a long tag"),
    ],
)
def test_what_cannot_be_constructed_is_an_error_of_ours(value: str, problem: str) -> None:
    with pytest.raises(YamlError, match=problem) as caught:
        parse_yaml(f"a: {value}")

    assert len(caught.value.what) < 300
    assert caught.value.why
    assert caught.value.next_step


def test_a_value_that_cannot_be_read_is_named_with_its_line() -> None:
    with pytest.raises(YamlError, match=r"f.yaml line 2, column 4"):
        parse_yaml("a: 1\nb: !!int x\n", source="f.yaml")


LEVELS = range(1, 9)
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in LEVELS
)
MERGE_BOMB = "a0: &a0 {k: 1, l: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in LEVELS
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(BOMB, "repeats more than 10000 keys and values", id="nested lists"),
        pytest.param(MERGE_BOMB, "repeats more than 10000 keys and values", id="nested merges"),
        pytest.param("---\n".join([BOMB.partition("a4")[0]] * 40), "repeats more", id="many documents"),
        pytest.param("a: &a [*a]", "contains itself", id="a list in itself"),
        pytest.param("a: &a {b: [*a]}", "contains itself", id="a map in itself"),
        pytest.param("a: &a {<<: *a}", "contains itself", id="a map merged into itself"),
        pytest.param(
            "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 150)),
            "more than 100 levels",
            id="depth by aliases",
        ),
    ],
)
def test_aliases_cannot_make_much_of_little(text: str, problem: str) -> None:
    with pytest.raises(YamlError, match=problem):
        parse_yaml_documents(text)


def test_aliases_and_merge_keys_work_and_the_nearer_key_wins() -> None:
    text = "x: {y: &a {<<: &z {k: 1, l: 2}, m: 3}}\nw: {<<: *a, l: 4}\nv: *z\n"

    assert parse_yaml(text) == {
        "x": {"y": {"k": 1, "l": 2, "m": 3}},
        "w": {"k": 1, "l": 4, "m": 3},
        "v": {"k": 1, "l": 2},
    }


def test_a_long_text_without_aliases_is_no_problem_unless_a_limit_is_asked_for() -> None:
    text = "[" + "x, " * 30_000 + "x]"

    assert len(parse_yaml(text)) == 30_001
    with pytest.raises(YamlError, match="holds more than 1000 keys and values"):
        parse_yaml(text, max_nodes=1000)


WORDS = st.text(max_size=20) | st.sampled_from(
    ["yes", "n", "1e3", "010", "null", "2026-01-01", "12:30", ".5"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_what_is_written_is_read_back_the_same(value: Any) -> None:
    assert parse_yaml(dump_yaml({"value": value})) == {"value": value}
