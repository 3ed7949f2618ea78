"""The types of CEL that a schema declares, and what they say of an expression.

The library knows `self` as anything; here its fields, elements and operators are checked against the schema,
in the words of the API server's own checker. Pure.

Source: kubernetes, apiserver pkg/cel/{types,limits}.go, pkg/cel/common/schemas.go; cel-go checker/checker.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from gpuready_sim.apiserver import cel_ast
from gpuready_sim.apiserver.cel_ast import Node, Tree
from gpuready_sim.apiserver.schema import INT_OR_STRING, Schema

MOST_BYTES: Final = 3 * 1024 * 1024  # of a request


@dataclass(frozen=True)
class Type:
    """
    name       as messages have it, without its parameters
    params     of lists, maps and optional values
    fields     of objects, by the names that rules have for them
    most       elements or bytes that a value may have
    least      bytes that a value takes at least
    """

    name: str
    params: tuple[Type, ...] = ()
    fields: Mapping[str, Type] = field(default_factory=dict, compare=False)
    most: int = field(default=0, compare=False)
    least: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name

    @property
    def is_object(self) -> bool:
        return self.name.startswith(OBJECT)


OBJECT: Final = "selfType"
DYN, NULL, ERROR = Type("dyn"), Type("null_type"), Type("!error!")
BOOL, INT, UINT, DOUBLE = Type("bool", least=4), Type("int"), Type("uint"), Type("double")
STRING, BYTES = Type("string", least=2), Type("bytes", least=2)
TIME, DURATION, KIND = Type("timestamp"), Type("duration"), Type("type")
QUANTITY: Final = Type("kubernetes.Quantity")
SCALARS: Final = {"boolean": BOOL, "integer": INT, "number": DOUBLE}
_HEAD: Final = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    },
}


def list_of(element: Type, most: int = 0) -> Type:
    return Type("list", (element,), most=most, least=2)


def map_of(value: Type, most: int = 0) -> Type:
    return Type("map", (STRING, value), most=most, least=2)


def optional(inner: Type) -> Type:
    return Type("optional_type", (inner,))


def declared(schema: Schema, *, root: bool = False) -> Type | None:
    """The type of values of a schema; None for what rules cannot see.

    root  the schema is that of a whole object, whose head can be read although nobody describes it
    """
    return _declared(schema, OBJECT, root=root or bool(schema.node.get("x-kubernetes-embedded-resource")))


def _declared(schema: Schema, name: str, *, root: bool = False) -> Type | None:
    if schema.type == INT_OR_STRING:
        longest = schema.node.get("maxLength")
        return Type("dyn", most=MOST_BYTES - 2 if longest is None else 4 * longest)
    if schema.type == "array":
        return _declared_list(schema, name)
    if schema.type == "object":
        if schema.additional is not None:
            return _declared_map(schema, schema.additional, name)
        return _declared_object(schema, name, root=root)
    return _declared_text(schema) if schema.type == "string" else SCALARS.get(schema.type)


def _declared_list(schema: Schema, name: str) -> Type | None:
    items = schema.items
    element = _below(items, f"{name}.@idx") if items is not None else None
    if element is None:
        return None
    most = schema.node.get("maxItems")
    return list_of(element, (MOST_BYTES - 2) // (element.least + 1) if most is None else max(0, most))


def _declared_map(schema: Schema, values: Schema, name: str) -> Type | None:
    value = _below(values, f"{name}.@elem")
    if value is None:
        return None
    most = schema.node.get("maxProperties")
    return map_of(value, (MOST_BYTES - 2) // (value.least + 6) if most is None else max(0, most))


def _below(schema: Schema, name: str) -> Type | None:
    return _declared(schema, name, root=bool(schema.node.get("x-kubernetes-embedded-resource")))


def _declared_object(schema: Schema, name: str, *, root: bool) -> Type:
    if root:
        schema = Schema(schema.node | {"properties": schema.node.get("properties", {}) | _HEAD})
    fields, least = {}, 2
    for key, child in schema.properties.items():
        found = _below(child, f"{name}.{key}")
        if found is None:
            continue
        fields[escaped_name(key)] = found
        if key in schema.required and child.node.get("default") is None:
            least += len(key.encode()) + found.least + 4
    return Type(name, fields=fields, least=least)


_SIZES: Final = {"duration": (32, 3), "date": (12, 12), "date-time": (32, 21)}
_FORMATS: Final = {"byte": BYTES, "duration": DURATION, "date": TIME, "date-time": TIME}


def _declared_text(schema: Schema) -> Type:
    form, longest = str(schema.node.get("format") or ""), schema.node.get("maxLength")
    kind = _FORMATS.get(form, STRING)
    most, least = _SIZES.get(form, (MOST_BYTES - 2, 2))
    if kind in (STRING, BYTES) and longest is not None:
        most = max(0, longest) * (4 if kind is STRING else 1)
    elif kind is STRING and (words := schema.node.get("enum")):
        most = max((len(word.encode()) for word in words if isinstance(word, str)), default=0)
    return Type(kind.name, most=most, least=least)


_RESERVED: Final = frozenset(
    [
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    ]
)


@lru_cache(maxsize=1024)
def escaped_name(name: str) -> str:
    """A property name as rules spell it: `foo-bar` is `foo__dash__bar`, `namespace` is `__namespace__`."""
    if name in _RESERVED:
        return f"__{name}__"
    for plain, said in (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        name = name.replace(plain, said)
    return name


# --- checking ---


@dataclass(frozen=True)
class Checked:
    """
    result    the type of the whole expression
    types     of every expression, by its id
    errors    (place in the text, what is wrong)
    """

    result: Type
    types: dict[int, Type]
    errors: list[tuple[int, str]]


def check(tree: Tree, variables: Mapping[str, Type]) -> Checked:
    checker = _Checker(tree.positions)
    result = checker.type_of(tree.root, dict(variables))
    return Checked(result, checker.types, sorted(checker.errors))


Scope = dict[str, Type]


class _Checker:
    def __init__(self, positions: Mapping[int, int]) -> None:
        self.types: dict[int, Type] = {}
        self.errors: list[tuple[int, str]] = []
        self._positions = positions

    def type_of(self, node: Node, scope: Scope) -> Type:
        found = _VISITS[node.kind](self, node, scope)
        self.types[node.id] = found
        return found

    def _wrong(self, node: Node, text: str) -> Type:
        self.errors.append((self._positions.get(node.id, 0), text))
        return ERROR

    def constant(self, node: Node, _: Scope) -> Type:
        if node.name == "uint":
            return UINT
        kinds = {bool: BOOL, int: INT, float: DOUBLE, str: STRING, bytes: BYTES}
        return kinds.get(type(node.value), NULL)

    def ident(self, node: Node, scope: Scope) -> Type:
        return scope.get(node.name, DYN)

    def select(self, node: Node, scope: Scope) -> Type:
        assert node.target is not None
        found = self._field(node, self.type_of(node.target, scope), node.name)
        return BOOL if node.tests and found is not ERROR else found

    def _field(self, node: Node, target: Type, name: str) -> Type:
        if target.name == "optional_type":
            inner = self._field(node, target.params[0], name)
            return inner if inner is ERROR else optional(inner)
        if target in (DYN, ERROR):
            return target
        if target.name == "map":
            return target.params[1]
        if not target.is_object:
            if target.name.startswith(("kubernetes.", "net.")):
                return DYN
            return self._wrong(node, f"type '{target}' does not support field selection")
        found = target.fields.get(name)
        return found if found is not None else self._wrong(node, f"undefined field '{name}'")

    def call(self, node: Node, scope: Scope) -> Type:
        target = self.type_of(node.target, scope) if node.target is not None else None
        if node.name in ("_?._", "_[?_]"):
            return self._optional_select(node, scope)
        args = [self.type_of(arg, scope) for arg in node.args]
        if ERROR in args or target == ERROR:
            return ERROR
        if node.name.startswith("optional.") or node.name.startswith("cel."):
            return optional(args[0]) if node.name.startswith("optional.of") else DYN
        return self._overload(node, target, args)

    def _optional_select(self, node: Node, scope: Scope) -> Type:
        operand = self.type_of(node.args[0], scope)
        self.type_of(node.args[1], scope)
        if operand.name == "optional_type":
            operand = operand.params[0]
        if node.name == "_[?_]":
            return optional(operand.params[-1]) if operand.params else DYN
        found = self._field(node, operand, str(node.args[1].value))
        return found if found is ERROR else optional(found)

    def _overload(self, node: Node, target: Type | None, args: list[Type]) -> Type:
        every = args if target is None else [target, *args]
        table = OVERLOADS.get(node.name)
        if table is None:
            return DYN
        results = []
        for member, params, result in table:
            bound: dict[str, Type] = {}
            if member != (target is not None) or len(params) != len(every):
                continue
            if all(_assignable(one, param, bound) for one, param in zip(every, params, strict=True)):
                results.append(_filled(result, bound))
        if not results:
            told = f"({', '.join(map(str, args))})"
            told = told if target is None else f"{target}.{told}"
            return self._wrong(node, f"found no matching overload for '{node.name}' applied to '{told}'")
        if node.name == "matches" and not _is_pattern(node.args[-1]):
            self._wrong(node.args[-1], "invalid matches argument")
        return results[0] if all(one == results[0] for one in results) else DYN

    def list(self, node: Node, scope: Scope) -> Type:
        return list_of(_common([self.type_of(arg, scope) for arg in node.args]))

    def map(self, node: Node, scope: Scope) -> Type:
        found = [self.type_of(arg, scope) for arg in node.args]
        return Type("map", (_common(found[::2]), _common(found[1::2])), least=2)

    def comprehension(self, node: Node, scope: Scope) -> Type:
        iter_range, init, condition, step, result = node.loop
        over = self.type_of(iter_range, scope)
        element = DYN if over in (DYN, ERROR) else over.params[0] if over.params else None
        if element is None or over.name == "optional_type":
            text = f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or "
            element = self._wrong(iter_range, text + "dynamic)")
        start = self.type_of(init, scope)
        inner = scope | {node.variables[1]: start, node.variables[0]: element}
        self.type_of(condition, inner)
        stepped = self.type_of(step, inner)
        if stepped != start and start.params:
            start = stepped  # an empty list at first, of what is put into it
        return self.type_of(result, scope | {node.variables[1]: start})


_VISITS: Final = {
    cel_ast.CONSTANT: _Checker.constant,
    cel_ast.IDENT: _Checker.ident,
    cel_ast.SELECT: _Checker.select,
    cel_ast.CALL: _Checker.call,
    cel_ast.LIST: _Checker.list,
    cel_ast.MAP: _Checker.map,
    cel_ast.COMPREHENSION: _Checker.comprehension,
}


def _common(found: list[Type]) -> Type:
    return found[0] if found and all(one == found[0] for one in found) else DYN


def _is_pattern(node: Node) -> bool:
    if node.kind != cel_ast.CONSTANT or not isinstance(node.value, str):
        return True
    try:
        re.compile(node.value)
    except re.error:
        return False
    return True


# --- overloads ---

_A: Final = Type("A")
_LISTS: Final = list_of(_A)
_MAPS: Final = Type("map", (Type("K"), _A), least=2)
_PARAMS: Final = ("A", "K")
Overload = tuple[bool, tuple[Type, ...], Type]


def _assignable(given: Type, wanted: Type, bound: dict[str, Type]) -> bool:
    if wanted.name in _PARAMS:
        held = bound.get(wanted.name)
        if held is None or (held == DYN and given != DYN):
            bound[wanted.name] = given
            return True
        return held == DYN or given == DYN or _fits(given, held)
    if DYN in (given, wanted):
        for param in wanted.params:
            _assignable(DYN, param, bound)
        return True
    if given.name != wanted.name or len(given.params) != len(wanted.params):
        return False
    return all(_assignable(a, b, bound) for a, b in zip(given.params, wanted.params, strict=True))


def _fits(given: Type, held: Type) -> bool:
    if NULL in (given, held):
        other = held if given == NULL else given
        return other == NULL or other.is_object or other in (TIME, DURATION) or other.name == "optional_type"
    if given.name != held.name:
        return False
    pairs = zip(given.params, held.params, strict=True)
    return all(DYN in pair or _fits(*pair) for pair in pairs)


def _filled(result: Type, bound: Mapping[str, Type]) -> Type:
    if result.name in _PARAMS:
        return bound.get(result.name, DYN)
    if not result.params:
        return result
    return Type(result.name, tuple(_filled(one, bound) for one in result.params), least=result.least)


def _global(*overloads: tuple[tuple[Type, ...], Type]) -> list[Overload]:
    return [(False, params, result) for params, result in overloads]


def _member(*overloads: tuple[tuple[Type, ...], Type]) -> list[Overload]:
    return [(True, params, result) for params, result in overloads]


def _ordered() -> Iterator[tuple[tuple[Type, ...], Type]]:
    numbers = (INT, UINT, DOUBLE)
    yield from (((one, one), BOOL) for one in (BOOL, STRING, BYTES, TIME, DURATION))
    yield from (((one, other), BOOL) for one in numbers for other in numbers)


_ARITHMETIC: Final = [((one, one), one) for one in (INT, UINT, DOUBLE)]
_TIMES: Final = "getFullYear getMonth getDayOfYear getDate getDayOfMonth getDayOfWeek getHours getMinutes"
_TEXTS: Final = _member(((STRING, STRING), BOOL))
_SAME: Final = _member(((STRING,), STRING))
_FIND: Final = _member(((STRING, STRING), INT), ((STRING, STRING, INT), INT), ((_LISTS, _A), INT))

OVERLOADS: Final[Mapping[str, list[Overload]]] = {
    "_==_": _global(((_A, _A), BOOL)),
    "_!=_": _global(((_A, _A), BOOL)),
    **{f"_{one}_": _global(*_ordered()) for one in ("<", "<=", ">", ">=")},
    "_&&_": _global(((BOOL, BOOL), BOOL)),
    "_||_": _global(((BOOL, BOOL), BOOL)),
    "!_": _global(((BOOL,), BOOL)),
    "-_": _global(((INT,), INT), ((DOUBLE,), DOUBLE)),
    "_?_:_": _global(((BOOL, _A, _A), _A)),
    "_+_": _global(
        *_ARITHMETIC,
        *(((one, one), one) for one in (STRING, BYTES, _LISTS, DURATION)),
        *(((TIME, DURATION), TIME), ((DURATION, TIME), TIME)),
    ),
    "_-_": _global(
        *_ARITHMETIC,
        *(((DURATION, DURATION), DURATION), ((TIME, TIME), DURATION), ((TIME, DURATION), TIME)),
    ),
    "_*_": _global(*_ARITHMETIC),
    "_/_": _global(*_ARITHMETIC),
    "_%_": _global(*_ARITHMETIC[:2]),
    "_[_]": _global(((_LISTS, INT), _A), ((_MAPS, Type("K")), _A)),
    "@in": _global(((_A, _LISTS), BOOL), ((Type("K"), _MAPS), BOOL)),
    "size": _global(*(((one,), INT) for one in (STRING, BYTES, _LISTS, _MAPS)))
    + _member(*(((one,), INT) for one in (STRING, BYTES, _LISTS, _MAPS))),
    "@not_strictly_false": _global(((BOOL,), BOOL)),
    **dict.fromkeys(("startsWith", "endsWith", "contains"), _TEXTS),
    "matches": [*_TEXTS, *_global(((STRING, STRING), BOOL))],
    **dict.fromkeys(("lowerAscii", "upperAscii", "trim"), _SAME),
    **dict.fromkeys(("indexOf", "lastIndexOf"), _FIND),
    "substring": _member(((STRING, INT), STRING), ((STRING, INT, INT), STRING)),
    "charAt": _member(((STRING, INT), STRING)),
    "replace": _member(((STRING, STRING, STRING), STRING), ((STRING, STRING, STRING, INT), STRING)),
    "split": _member(((STRING, STRING), list_of(STRING)), ((STRING, STRING, INT), list_of(STRING))),
    "join": _member(((list_of(STRING),), STRING), ((list_of(STRING), STRING), STRING)),
    "find": _member(((STRING, STRING), STRING)),
    "findAll": _member(((STRING, STRING), list_of(STRING)), ((STRING, STRING, INT), list_of(STRING))),
    **dict.fromkeys(("isQuantity", "isURL", "isIP", "isCIDR", "isSemver"), _global(((STRING,), BOOL))),
    **dict.fromkeys(("sum", "min", "max"), _member(((_LISTS,), _A))),
    "isSorted": _member(((_LISTS,), BOOL)),
    "string": _global(
        *(((one,), STRING) for one in (STRING, INT, UINT, DOUBLE, BOOL, BYTES, TIME, DURATION))
    ),
    "int": _global(*(((one,), INT) for one in (INT, UINT, DOUBLE, STRING, TIME))),
    "double": _global(*(((one,), DOUBLE) for one in (INT, UINT, DOUBLE, STRING))),
    "timestamp": _global(*(((one,), TIME) for one in (STRING, INT, TIME))),
    "duration": _global(((STRING,), DURATION), ((DURATION,), DURATION)),
    "type": _global(((_A,), KIND)),
    "dyn": _global(((_A,), DYN)),
    **{one: _member(((TIME,), INT), ((TIME, STRING), INT)) for one in _TIMES.split()[:6]},
    "getHours": _member(((TIME,), INT), ((TIME, STRING), INT), ((DURATION,), INT)),
    "getMinutes": _member(((TIME,), INT), ((TIME, STRING), INT), ((DURATION,), INT)),
    "getSeconds": _member(((TIME,), INT), ((TIME, STRING), INT), ((DURATION,), INT)),
    "hasValue": _member(((optional(_A),), BOOL)),
    "value": _member(((optional(_A),), _A)),
    "orValue": _member(((optional(_A), _A), _A)),
    "or": _member(((optional(_A), optional(_A)), optional(_A))),
}
