"""Refusals of broken JSON use the words of Go's decoder."""

from __future__ import annotations

import pytest

from gpuready_sim.apiserver.go_json import complaint
from gpuready_sim.apiserver.go_values import printed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": [1, 2.5e-3, -0, true, null, "\\u00e9\\n"]}', ""),
        ("", "unexpected end of JSON input"),
        ('{"a": 1', "unexpected end of JSON input"),
        ("{broken", "invalid character 'b' looking for beginning of object key string"),
        ("nope", "invalid character 'o' in literal null (expecting 'u')"),
        ("[1 2]", "invalid character '2' after array element"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a": 1 "b"}', "invalid character '\"' after object key:value pair"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("[1.x]", "invalid character 'x' after decimal point in numeric literal"),
        ("[-x]", "invalid character 'x' in numeric literal"),
        ('["\\x"]', "invalid character 'x' in string escape code"),
        ('["a\nb"]', "invalid character '\\n' in string literal"),
        ("['a']", "invalid character '\\'' looking for beginning of value"),
    ],
)
def test_the_first_wrong_character_is_named(text: str, words: str) -> None:
    assert complaint(text.encode()) == words


def test_values_are_printed_as_go_prints_maps() -> None:
    value = {"b": [1, "x", {"c": None}], "a": {"k": True, "l": 1.5}}

    assert printed(value) == "map[a:map[k:true l:1.5] b:[1 x map[c:<nil>]]]"
