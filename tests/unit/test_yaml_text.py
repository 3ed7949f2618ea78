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


WORDS = st.text(max_size=20) | st.sampled_from(
    ["yes", "n", "1e3", "010", "null", "2026-01-01", "12:30", ".5"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_what_is_written_is_read_back_the_same(value: Any) -> None:
    assert parse_yaml(dump_yaml({"value": value})) == {"value": value}
