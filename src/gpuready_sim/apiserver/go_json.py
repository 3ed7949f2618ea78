"""What Go's JSON decoder says of a text that is none. Pure.

Source: Go, encoding/json/scanner.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_SPACE = " \t\r\n"
_LITERALS = {"t": "true", "f": "false", "n": "null"}
END = "unexpected end of JSON input"


def complaint(body: bytes) -> str:
    """The first thing wrong with a text; empty when nothing is."""
    text = body.decode("utf-8", "replace")
    try:
        _Scanner(text).whole()
    except _Wrong as exc:
        return str(exc)
    return ""


def repeated_fields(body: bytes) -> list[str]:
    """Paths of the keys that a text says twice, "data.a"; empty for one that is no JSON."""
    try:
        value = json.loads(body, object_pairs_hook=_Pairs)
    except ValueError:
        return []
    return list(dict.fromkeys(_repeated(value, "")))


class _Pairs(list[tuple[str, object]]):
    """An object, with what it says twice."""


def _repeated(value: object, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen = set()
        for key, child in value:
            at = f"{path}.{key}" if path else key
            if key in seen:
                yield at
            seen.add(key)
            yield from _repeated(child, at)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _repeated(child, f"{path}[{index}]")


class _Wrong(Exception):
    """Carries Go's sentence."""


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def whole(self) -> None:
        self._value()
        if (char := self._peek()) != "":
            raise _wrong(char, "after top-level value")

    def _value(self) -> None:
        char = self._need()
        if char == "{":
            self._members()
        elif char == "[":
            self._elements()
        elif char == '"':
            self._string()
        elif char in _LITERALS:
            self._literal(_LITERALS[char])
        elif char == "-" or char.isdigit():
            self._number()
        else:
            raise _wrong(char, "looking for beginning of value")

    def _members(self) -> None:
        self.at += 1
        if self._need() == "}":
            self.at += 1
            return
        while True:
            if (char := self._need()) != '"':
                raise _wrong(char, "looking for beginning of object key string")
            self._string()
            self._expect(":", "after object key")
            self._value()
            if self._ends("}", "after object key:value pair"):
                return

    def _elements(self) -> None:
        self.at += 1
        if self._need() == "]":
            self.at += 1
            return
        while True:
            self._value()
            if self._ends("]", "after array element"):
                return

    def _ends(self, closing: str, where: str) -> bool:
        char = self._need()
        if char not in (closing, ","):
            raise _wrong(char, where)
        self.at += 1
        return char == closing

    def _expect(self, wanted: str, where: str) -> None:
        if (char := self._need()) != wanted:
            raise _wrong(char, where)
        self.at += 1

    def _string(self) -> None:
        self.at += 1
        while (char := self._next()) != '"':
            if char == "\\":
                self._escape()
            elif char < " ":
                raise _wrong(char, "in string literal")

    def _escape(self) -> None:
        char = self._next()
        if char == "u":
            for _ in range(4):
                if (digit := self._next()).lower() not in "0123456789abcdef":
                    raise _wrong(digit, "in \\u hexadecimal character escape")
        elif char not in '"\\/bfnrt':
            raise _wrong(char, "in string escape code")

    def _literal(self, word: str) -> None:
        for wanted in word:
            if (char := self._next()) != wanted:
                raise _wrong(char, f"in literal {word} (expecting '{wanted}')")

    def _number(self) -> None:
        if self.text[self.at] == "-":
            self.at += 1
            self._digit("in numeric literal")
        elif self._next() != "0":
            self._digits()
        if self._here() == ".":
            self.at += 1
            self._digit("after decimal point in numeric literal")
        if self._here().lower() == "e":
            self.at += 1
            if self._here() in ("+", "-"):
                self.at += 1
            self._digit("in exponent of numeric literal")

    def _digit(self, where: str) -> None:
        if not (char := self._next()).isdigit():
            raise _wrong(char, where)
        self._digits()

    def _digits(self) -> None:
        while self._here().isdigit():
            self.at += 1

    def _here(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def _next(self) -> str:
        char = self._here()
        if char == "":
            raise _Wrong(END)
        self.at += 1
        return char

    def _peek(self) -> str:
        while self._here() != "" and self._here() in _SPACE:
            self.at += 1
        return self._here()

    def _need(self) -> str:
        char = self._peek()
        if char == "":
            raise _Wrong(END)
        return char


def _wrong(char: str, where: str) -> _Wrong:
    shown = {"'": "\\'", '"': '"'}.get(char, json.dumps(char, ensure_ascii=False)[1:-1])
    return _Wrong(f"invalid character '{shown}' {where}")


def kind_of(value: object) -> str:
    """How its decoder names a value: object, array, string, number, bool, null."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (dict, list)):
        return "object" if isinstance(value, dict) else "array"
    return "string" if isinstance(value, str) else "number"


def printed(value: object) -> str:
    """As fmt prints it with %v: map[a:1 b:[x y]]."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{printed(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(printed(one) for one in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)


def with_whole_numbers(value: Any) -> Any:
    """As Go writes numbers: one without a fraction is a whole one, however written."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    if isinstance(value, dict):
        made = {key: with_whole_numbers(child) for key, child in value.items()}
        return made if any(made[key] is not value[key] for key in value) else value
    if isinstance(value, list):
        items = [with_whole_numbers(item) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value
