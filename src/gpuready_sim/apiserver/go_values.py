"""JSON values as Go sees and prints them: numbers that keep their text, fmt's %v and %#v. Pure.

Source: Go, fmt/print.go, strconv/ftoa.go; sigs.k8s.io/json, internal/golang/encoding/json/decode.go.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

_LARGEST = 2**63
_POINTLESS = 10**21  # from here on Go writes floats with an exponent
_EXPONENT = 6  # %v writes one from a million on


class Number(float):
    """A number with a point or an exponent, and how it was written: Go reads `1.0` as no integer."""

    text: str

    def __new__(cls, text: str) -> Number:
        made = super().__new__(cls, text)
        made.text = text
        return made


class Whole(int):
    """A whole number that was written as none: Go holds 1.0 and 2**63 as float64, and writes 1."""


class OutOfRange(ValueError):
    """A number that does not even fit a float64; its text."""


_decode: Callable[[bytes], Any] = msgspec.json.Decoder(float_hook=Number).decode


def decode(body: bytes) -> Any:
    """As store.decode, with numbers that keep their text; what is no letter becomes U+FFFD, as in Go.

    raises  msgspec.DecodeError
    """
    try:
        return _decode(body)
    except msgspec.DecodeError as exc:
        try:
            said = json.loads(body.decode("utf-8", "replace"), parse_float=Number, parse_constant=_no_json)
        except ValueError:
            raise exc from None
        return _with_letters(said)


def _no_json(constant: str) -> Any:
    raise ValueError(constant)


def _with_letters(value: Any) -> Any:
    if isinstance(value, dict):
        return {_with_letters(key): _with_letters(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_with_letters(child) for child in value]
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value)
    return value


def plain(value: Any) -> Any:
    """The value as Go holds it where it knows no type, with whole floats as it writes them.

    raises  OutOfRange
    """
    return _mapped(value, lambda number: _whole_or_not(_as_float(number)))


def untyped(value: Any) -> Any:
    """The value as Go holds it where it knows no type, whole floats apart from integers.

    raises  OutOfRange
    """
    return _mapped(value, _as_float)


def stored(value: Any) -> Any:
    """The value as it is read again from where Go has written it: a whole float has become an integer.

    returns  the same value where nothing changes
    """
    if isinstance(value, (float, Whole)):
        whole = float(value).is_integer() and abs(value) < _POINTLESS
        return int(value) if whole else value
    if isinstance(value, dict):
        made = {key: stored(child) for key, child in value.items()}
        return made if any(made[key] is not value[key] for key in value) else value
    if isinstance(value, list):
        items = [stored(item) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def _mapped(value: Any, convert: Callable[[float], Any]) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(child, convert) for key, child in value.items()}
    if isinstance(value, list):
        return [_mapped(child, convert) for child in value]
    if isinstance(value, Number) or (isinstance(value, int) and not -_LARGEST <= value < _LARGEST):
        return convert(value)
    return value


def _as_float(number: float) -> float:
    try:
        read = float(number)
    except OverflowError:
        read = math.inf
    if math.isinf(read):
        raise OutOfRange(text_of(number))
    return read


def _whole_or_not(number: float) -> float:
    return Whole(number) if number.is_integer() and abs(number) < _POINTLESS else number


def text_of(number: float) -> str:
    """As it was written."""
    return number.text if isinstance(number, Number) else str(number)


def kind_of(value: object) -> str:
    """How Go's decoder names a value: object, array, string, number, bool, null."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (dict, list)):
        return "object" if isinstance(value, dict) else "array"
    return "string" if isinstance(value, str) else "number"


def reflect_kind(value: object) -> str:
    """Its reflect.Kind: map, slice, string, bool, int64, float64."""
    if isinstance(value, bool):
        return "bool"
    names = {dict: "map", list: "slice", str: "string", int: "int64"}
    return names.get(type(value), "float64")  # also of a Whole


def type_of(value: object) -> str:
    """Its type as %T and %s print it: map[string]interface {}"""
    if value is None:
        return "%!s(<nil>)"
    kind = reflect_kind(value)
    return {"map": "map[string]interface {}", "slice": "[]interface {}"}.get(kind, kind)


def printed(value: object) -> str:
    """As fmt prints it with %v: map[a:1 b:[x y]]."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{printed(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(printed(one) for one in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (float, Whole)):
        return shortest(value)
    return "<nil>" if value is None else str(value)


def syntax(value: object) -> str:
    """As fmt prints it with %#v: map[string]interface {}{"a":5}"""
    if isinstance(value, dict):
        inside = ", ".join(f"{quoted(key)}:{syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{inside}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(syntax, value))}}}"
    if isinstance(value, str):
        return quoted(value)
    return "interface {}(nil)" if value is None else printed(value)


def quoted(text: str) -> str:
    """As %q prints it."""
    return json.dumps(text, ensure_ascii=False)


def shortest(number: float) -> str:
    """A float64 with as few digits as tell it apart, as %v prints it: 1e+06, 0.001, 1.5"""
    exact = Decimal(repr(float(number)))
    if number == 0 or -4 <= exact.adjusted() < _EXPONENT:
        return _with_point(exact)
    return _with_exponent(exact)


def json_text(number: float) -> str:
    """A number as Go's encoder writes it: 1, 0.001, 1e+21"""
    if not isinstance(number, float):
        return str(number)
    exact = Decimal(repr(float(number)))
    if number == 0 or -6 <= exact.adjusted() < 21:
        return _with_point(exact)
    return _with_exponent(exact).replace("e-0", "e-")


def _with_point(exact: Decimal) -> str:
    return format(exact, "f").removesuffix(".0")


def _with_exponent(exact: Decimal) -> str:
    first, *rest = list("".join(map(str, exact.as_tuple().digits)).rstrip("0"))
    exponent = exact.adjusted()
    tail = f"e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return f"{'-' if exact < 0 else ''}{first}{'.' if rest else ''}{''.join(rest)}{tail}"
