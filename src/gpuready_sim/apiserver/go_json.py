"""What Go's JSON decoder says of a text that is none. Pure.

Source: Go, encoding/json/scanner.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpuready_sim.apiserver import go_values

_SPACE = " \t\r\n"
_LITERALS = {"t": "true", "f": "false", "n": "null"}
END = "unexpected end of JSON input"


def complaint(body: bytes) -> str:
    """The first thing wrong with a text; empty when nothing is."""
    try:
        _Scanner(body.decode("latin-1")).whole()  # it looks at bytes
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


_SHOWN = {"'": "\\'", '"': '"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f"} | {
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def _wrong(char: str, where: str) -> _Wrong:
    shown = _SHOWN.get(char, char)
    if not shown.isprintable():
        shown = f"\\x{ord(char):02x}" if char < "\x80" else f"\\u{ord(char):04x}"
    return _Wrong(f"invalid character '{shown}' {where}")


def unmarshalled(value: object, wanted: str, field: str = "") -> str:
    """What it says of a value of the wrong type.

    field  the struct's name and the path to the field in it; "" for a value by itself
    """
    kind = go_values.kind_of(value)
    where = f"Go struct field {field}" if field else "Go value"
    return f"json: cannot unmarshal {kind} into {where} of type {wanted}"


def too_large(value: object, field: str = "") -> str:
    """What it says of the first number that does not fit a float64; empty when all do."""
    try:
        go_values.untyped(value)
    except go_values.OutOfRange as exc:
        where = f"Go struct field {field}" if field else "Go value"
        return f"json: cannot unmarshal number {exc} into {where} of type float64"
    return ""
