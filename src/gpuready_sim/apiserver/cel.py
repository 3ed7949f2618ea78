"""CEL as the API server runs it in validation rules: `self`, `oldSelf` and Kubernetes' extra functions.

The only module that touches cel-expr-python. Source: kubernetes, apiserver pkg/cel/library/*.go,
apiextensions pkg/apiserver/schema/cel/*.go.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from gpuready_sim.apiserver import cel_ast, cel_cost, cel_types
from gpuready_sim.apiserver.cel_types import BOOL, DYN, Type, escaped_name, optional
from gpuready_sim.apiserver.quantity import is_quantity, parse_quantity
from gpuready_sim.apiserver.schema import Schema


class CelError(Exception):
    """An expression that does not compile, or that fails on these values."""


def evaluate(expression: str, values: Mapping[str, Any]) -> Any:
    """The expression's value as plain Python data.

    values   variables by name; maps from objects must carry escaped field names (see `cel_value`)
    raises   CelError with the text that users see
    """
    program = _program(expression, tuple(sorted((name, _kind_of(value)) for name, value in values.items())))
    try:
        result = program.eval(data=dict(values))
    except Exception as exc:
        raise CelError(_first_line(exc)) from exc
    plain = result.plain_value()
    if result.type().name() == _error_type():
        raise CelError(_worded(str(plain)))
    return plain


@dataclass(frozen=True)
class Verdict:
    """What the server makes of an expression.

    problem  why it is not taken; empty when it is
    cost     the most that one evaluation can cost
    """

    problem: str = ""
    cost: int = 0


def check(expression: str, of: Type, *, optional_old: bool = False, gives: Type = BOOL) -> Verdict:
    """
    of            type of `self`, and of `oldSelf`
    optional_old  `oldSelf` is an optional value
    gives         BOOL for rules, STRING for message expressions
    """
    variables = {"self": of, "oldSelf": optional(of) if optional_old else of}
    try:
        compiled = _program(expression, tuple((name, "DYN") for name in sorted(variables)), checking=True)
    except CelError as exc:
        return Verdict(f"compilation failed: {_as_told(exc, expression, of)}")
    tree = cel_ast.parse(compiled.serialize())
    checked = cel_types.check(tree, variables)
    if checked.errors:
        told = [_pointed_out(*_place(at, expression), text, expression) for at, text in checked.errors]
        return Verdict("compilation failed: " + "\n".join(told))
    unsure = checked.result == DYN and tree.root.kind == cel_ast.CALL
    if checked.result != gives and not unsure:
        what = "cel expression" if gives is BOOL else "messageExpression"
        return Verdict(f"{what} must evaluate to a {gives}")
    return Verdict(cost=cel_cost.highest_cost(tree, checked.types, variables))


def _as_told(exc: CelError, expression: str, of: Type) -> str:
    """The library's own words; those with the types of scalars where it has them."""
    kind = _KINDS.get(of.name, "DYN")
    try:
        _program(expression, (("oldSelf", kind), ("self", kind)), checking=True)
    except CelError as typed:
        exc = typed
    found = [
        _pointed_out(
            int(line),
            int(column),
            _SELECTS.sub(r"type \1 does not support field selection", text),
            expression,
        )
        for line, column, text in sorted(_TOLD.findall(str(exc.__cause__)), key=_by_place)
    ]
    return "\n".join(found) or str(exc)


def _by_place(told: tuple[str, str, str]) -> tuple[int, int]:
    return int(told[0]), int(told[1])


_KINDS: Final = {
    "string": "STRING",
    "int": "INT",
    "double": "DOUBLE",
    "bool": "BOOL",
    "timestamp": "TIMESTAMP",
    "duration": "DURATION",
    "bytes": "BYTES",
}


def _place(at: int, expression: str) -> tuple[int, int]:
    """(line, column) of a character, from one on."""
    before = expression[:at]
    return before.count("\n") + 1, at - before.rfind("\n")


_SELECTS: Final = re.compile(r"expression of type ('[^']*') cannot be the operand of a select operation")
_TOLD: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")


def _pointed_out(line: int, column: int, told: str, expression: str) -> str:
    """As the server says it, with a finger on the place."""
    text = expression.split("\n")[line - 1]
    return f"ERROR: <input>:{line}:{column}: {told}\n | {text}\n | {'.' * (column - 1)}^"


def cel_value(value: Any, schema: Schema) -> Any:
    """An object's value as CEL sees it: property names that are no identifiers escaped, numbers typed."""
    if isinstance(value, dict) and (schema.properties or schema.additional):
        properties = schema.properties
        return {
            escaped_name(name) if name in properties else name: cel_value(child, schema.child(name))
            for name, child in value.items()
            if (name in properties or schema.additional is not None) and child is not None
        }
    if isinstance(value, list):
        element = schema.element()
        return [cel_value(item, element) for item in value]
    if schema.type == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def rule_value(value: Any, schema: Schema) -> Any:
    """What a rule gets as `self`: like `cel_value`, and times and durations as such.

    Deeper down they stay strings: the library takes no times inside maps.
    """
    form = schema.node.get("format")
    return _typed(value, form) if form and isinstance(value, str) else cel_value(value, schema)


def _typed(text: str, form: str) -> Any:
    """Strings of these formats are values of their own in rules."""
    if form in ("date-time", "datetime"):
        return datetime.fromisoformat(text)
    if form == "date":
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    if form == "duration":
        return timedelta(seconds=sum(float(n) * UNITS[unit] for n, unit in DURATION.findall(text)))
    return base64.b64decode(text) if form == "byte" else text


DURATION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def _worded(text: str) -> str:
    """An evaluation error in the words of the API server's CEL."""
    missing = re.search(r'Key not found in map : "(.*)"', text)
    return f"no such key: {missing.group(1)}" if missing else text.partition(": ")[2] or text


@cache
def _error_type() -> str:
    from cel_expr_python import cel

    name: str = cel.Type.ERROR.name()
    return name


def _first_line(exc: object) -> str:
    return str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__


def _kind_of(value: Any) -> str:
    """Times and durations must be declared; everything else may be anything."""
    if isinstance(value, datetime):
        return "TIMESTAMP"
    return "DURATION" if isinstance(value, timedelta) else "DYN"


@lru_cache(maxsize=2048)
def _program(expression: str, variables: tuple[tuple[str, str], ...], *, checking: bool = False) -> Any:
    """
    checking  only what users may write; not what their rules are made into
    """
    try:
        return _environment(variables, checking).compile(expression)
    except Exception as exc:
        raise CelError(_first_line(exc)) from exc


@cache
def _environment(variables: tuple[tuple[str, str], ...], checking: bool) -> Any:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_math, ext_optional, ext_strings

    return cel.NewEnv(
        variables={name: getattr(cel.Type, kind) for name, kind in variables},
        extensions=[
            ext_strings.ExtStrings(),
            ext_optional.ExtOptional(),
            *([] if checking else [ext_bindings.ExtBindings()]),
            ext_math.ExtMath(),
            _kubernetes(cel),
        ],
    )


def _kubernetes(cel: Any) -> Any:
    """The functions that Kubernetes adds to the standard ones, as far as they need no new types."""
    string, integer, boolean, double = cel.Type.STRING, cel.Type.INT, cel.Type.BOOL, cel.Type.DOUBLE
    any_list = cel.Type.List(cel.Type.DYN)

    def function(name: str, *overloads: Any) -> Any:
        return cel.FunctionDecl(name, list(overloads))

    def overload(name: str, result: Any, parameters: list[Any], impl: Any, *, member: bool = False) -> Any:
        return cel.Overload(id=name, return_type=result, parameters=parameters, is_member=member, impl=impl)

    quantity = cel.Type.Map(string, cel.Type.DYN)
    return cel.CelExtension(
        "kubernetes",
        [
            function("isQuantity", overload("is_quantity", boolean, [string], is_quantity)),
            function("isURL", overload("is_url", boolean, [string], _is_url)),
            function("isIP", overload("is_ip", boolean, [string], _is_ip)),
            function("isCIDR", overload("is_cidr", boolean, [string], _is_cidr)),
            function("isSemver", overload("is_semver", boolean, [string], _is_semver)),
            function("quantity", overload("quantity_of", quantity, [string], _quantity)),
            function(
                "compareTo",
                overload("quantity_compare", integer, [quantity, quantity], _compared, member=True),
            ),
            function(
                "isGreaterThan",
                overload(
                    "quantity_greater",
                    boolean,
                    [quantity, quantity],
                    lambda a, b: _compared(a, b) > 0,
                    member=True,
                ),
            ),
            function(
                "isLessThan",
                overload(
                    "quantity_less",
                    boolean,
                    [quantity, quantity],
                    lambda a, b: _compared(a, b) < 0,
                    member=True,
                ),
            ),
            function(
                "isInteger",
                overload(
                    "quantity_integer",
                    boolean,
                    [quantity],
                    lambda a: _number(a).denominator == 1,
                    member=True,
                ),
            ),
            function(
                "asInteger",
                overload("quantity_int", integer, [quantity], lambda a: int(_number(a)), member=True),
            ),
            function(
                "asApproximateFloat",
                overload("quantity_float", double, [quantity], lambda a: float(_number(a)), member=True),
            ),
            function(
                "sum",
                overload("list_sum", cel.Type.DYN, [any_list], lambda items: sum(_plain(items)), member=True),
            ),
            function("isSorted", overload("list_sorted", boolean, [any_list], _is_sorted, member=True)),
            function("find", overload("string_find", string, [string, string], _find, member=True)),
            function(
                "findAll",
                overload("string_find_all", cel.Type.List(string), [string, string], _find_all, member=True),
            ),
        ],
    )


def _plain(value: Any) -> Any:
    return [item.plain_value() if hasattr(item, "plain_value") else item for item in value]


def _quantity(text: str) -> dict[str, Any]:
    parse_quantity(text)
    return {"quantity": text}


def _number(quantity: Any) -> Any:
    text = quantity["quantity"]
    return parse_quantity(text.plain_value() if hasattr(text, "plain_value") else text)


def _compared(a: Any, b: Any) -> int:
    left, right = _number(a), _number(b)
    return int(left > right) - int(left < right)


def _is_sorted(items: Any) -> bool:
    plain = _plain(items)
    return bool(plain == sorted(plain))


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match.group(0) if match else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return [match.group(0) for match in re.finditer(pattern, text)]


def _is_url(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme and (parts.netloc or parts.path.startswith("/")))


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _is_semver(text: str) -> bool:
    return (
        re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?", text)
        is not None
    )
