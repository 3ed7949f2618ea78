"""What an expression may cost at most: the estimate by which the API server refuses rules. Pure.

Source: cel-go checker/cost.go; kubernetes, apiserver pkg/cel/library/cost.go, apiextensions-apiserver
pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpuready_sim.apiserver import cel_ast
from gpuready_sim.apiserver.cel_ast import Node, Tree
from gpuready_sim.apiserver.cel_types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIME, UINT, Type

MOST: Final = (1 << 64) - 1
UNKNOWN: Final = MOST
TRAVERSAL: Final = 0.1  # per character
PATTERN: Final = 0.25  # per character of a regular expression
_LIST_COST, _MAP_COST = 10, 30
_FIXED: Final = (BOOL, DOUBLE, DURATION, INT, TIME, UINT)
_TEXTS: Final = (STRING, BYTES)


def highest_cost(tree: Tree, types: Mapping[int, Type], roots: Mapping[str, Type]) -> int:
    """The most that an evaluation can cost.

    types  of every expression, by its id
    roots  declared types of the variables
    """
    return _Coster(types, roots).cost(tree.root)


def times(cost: int, count: int) -> int:
    return min(MOST, cost * count)


@dataclass
class _Place:
    """What is known of a value: where in the declared data it is, or how large it has been made.

    declared  the declared type, for values that are part of `self`; None for computed ones
    size      elements or characters, for computed values
    element   size of the elements of a computed list
    """

    declared: Type | None = None
    size: int | None = None
    element: int | None = None


@dataclass
class _Coster:
    types: Mapping[int, Type]
    roots: Mapping[str, Type]
    places: dict[int, _Place] = field(default_factory=dict)
    scopes: dict[str, list[_Place]] = field(default_factory=dict)

    def cost(self, node: Node) -> int:
        cost, place = getattr(self, f"_{node.kind}")(node)
        self.places[node.id] = place
        return min(MOST, int(cost))

    def _constant(self, node: Node) -> tuple[int, _Place]:
        size = len(node.value) if isinstance(node.value, (str, bytes)) else 1
        return 0, _Place(size=size)

    def _ident(self, node: Node) -> tuple[int, _Place]:
        held = self.scopes.get(node.name)
        return 1, held[-1] if held else _Place(self.roots.get(node.name))

    def _select(self, node: Node) -> tuple[int, _Place]:
        assert node.target is not None
        cost = self.cost(node.target)
        if node.tests:
            return cost + 1, _Place(size=1)
        kind = self._type(node.target)
        counted = kind.name == "map" or kind.is_object
        return cost + counted, _Place(_field(self.places[node.target.id].declared, node.name))

    def _list(self, node: Node) -> tuple[int, _Place]:
        cost = sum(self.cost(arg) for arg in node.args)
        sizes = [self._size(arg) for arg in node.args]
        return cost + _LIST_COST, _Place(size=len(node.args), element=max(sizes, default=0))

    def _map(self, node: Node) -> tuple[int, _Place]:
        cost = sum(self.cost(arg) for arg in node.args)
        return cost + _MAP_COST, _Place(size=len(node.args) // 2)

    def _comprehension(self, node: Node) -> tuple[int, _Place]:
        iter_range, init, condition, step, result = node.loop
        cost = self.cost(iter_range) + self.cost(init)
        element, accu = node.variables
        over = self.places[iter_range.id]
        self.scopes.setdefault(accu, []).append(self.places[init.id])
        if _is_bind(node):
            cost += self.cost(result)
            self.scopes[accu].pop()
            return cost, self.places[result.id]
        self.scopes.setdefault(element, []).append(_element_of(over))
        looped = self.cost(condition) + self.cost(step)
        self.scopes[element].pop()
        cost += self.cost(result)
        self.scopes[accu].pop()
        count = self._size(iter_range)
        made = init.kind in (cel_ast.LIST, cel_ast.MAP)
        stepped = self.places[step.id]
        place = _Place(size=count if made else 1, element=stepped.element if made else None)
        return cost + times(looped, count), place

    def _call(self, node: Node) -> tuple[int, _Place]:
        args = [self.cost(arg) for arg in node.args]
        target = self.cost(node.target) if node.target is not None else 0
        if node.name == "_?_:_":
            larger = max(self._size(arg) for arg in node.args[1:])
            return args[0] + max(args[1:]), _Place(size=larger)
        if node.name in ("_&&_", "_||_"):
            return sum(args), _Place(size=1)
        if node.name == "_[_]":
            return sum(args) + 1, _element_of(self.places[node.args[0].id], values=True)
        if node.name == "_?._":
            inner = self.places[node.args[0].id].declared
            return sum(args) + 1, _Place(_field(inner, str(node.args[1].value)))
        own, size = self._function(node)
        return sum(args) + target + own, self._made(node, size)

    def _made(self, node: Node, size: int | None) -> _Place:
        if size is None and self._type(node) in _FIXED:
            size = 1
        return _Place(size=size)

    def _function(self, node: Node) -> tuple[int, int | None]:
        """(cost of the function itself, size of its result)"""
        name, args = node.name, node.args
        subject = node.target if node.target is not None else args[0] if args else None
        if name in ("startsWith", "endsWith") and args:
            return _traversed(self._size(args[0])), None
        if name == "@in":
            return self._size(args[1]) if self._type(args[1]).name == "list" else 1, None
        if name in ("matches", "find", "findAll") and subject is not None:
            text = self._size(subject)
            cost = times(_traversed(text + 1), math.ceil(self._size(args[-1]) * PATTERN))
            return cost, None if name == "matches" else text
        if name == "contains" and subject is not None:
            return times(_traversed(self._size(subject)), _traversed(self._size(args[0]))), None
        if name == "_+_" and self._type(node).name in ("string", "bytes", "list", "dyn"):
            return self._added(node)
        if name in ("_==_", "_!=_") or (name in ("_<_", "_<=_", "_>_", "_>=_") and self._orders_texts(node)):
            return _traversed(min(map(self._size, args))), None
        if subject is not None and name in _LINEAR:
            return self._linear(node, subject)
        return 1, None

    def _added(self, node: Node) -> tuple[int, int | None]:
        size = min(MOST, sum(map(self._size, node.args)))
        return (1 if self._type(node).name == "list" else _traversed(size)), size

    def _orders_texts(self, node: Node) -> bool:
        kinds = [self._type(arg) for arg in node.args]
        return all(kind in (*_TEXTS, DYN) for kind in kinds)

    def _linear(self, node: Node, subject: Node) -> tuple[int, int | None]:
        size, kind = self._size(subject), self._type(subject)
        if node.name in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"):
            if kind.name != "list":
                return _traversed(size), None
            per = 1 + (_traversed(self._element_size(subject)) if kind.params[0] in _TEXTS else 0)
            return times(per, size), None
        if node.name == "replace":
            return _traversed(2 * size), self._replaced(node, size)
        if node.name == "split":
            return _traversed(2 * size), size
        if node.name == "join":
            joined = times(size, self._element_size(subject))
            parted = times(max(0, size - 1), self._size(node.args[0])) if node.args else 0
            return _traversed(min(MOST, joined + parted)), min(MOST, joined + parted)
        return _traversed(size), size if node.name in _KEEPING else None

    def _replaced(self, node: Node, size: int) -> int:
        old, new = (self._size(arg) for arg in node.args[:2])
        constant = node.args[0].kind == cel_ast.CONSTANT
        least = old if constant else 0
        if least == 0:
            return min(MOST, times(size + 1, new) + size)
        return size if new <= least else times(math.ceil(size / least), new)

    def _type(self, node: Node) -> Type:
        return self.types.get(node.id, DYN)

    def _size(self, node: Node) -> int:
        place = self.places.get(node.id)
        if place is not None and place.size is not None:
            return place.size
        if place is not None and place.declared is not None:
            return place.declared.most
        return 1 if self._type(node) in _FIXED else UNKNOWN

    def _element_size(self, node: Node) -> int:
        place = self.places[node.id]
        if place.element is not None:
            return place.element
        inner = _element_of(place).declared
        return inner.most if inner is not None else UNKNOWN


_KEEPING: Final = ("lowerAscii", "upperAscii", "substring", "trim")
_LINEAR: Final = (
    *_KEEPING,
    *("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "replace", "split", "join"),
    *("isQuantity", "quantity", "isURL", "url", "isIP", "ip", "isCIDR", "cidr", "isSemver", "semver"),
)


def _traversed(size: int) -> int:
    return min(MOST, math.ceil(size * TRAVERSAL)) if size < UNKNOWN else math.ceil(UNKNOWN * TRAVERSAL)


def _field(declared: Type | None, name: str) -> Type | None:
    if declared is None:
        return None
    return declared.params[1] if declared.name == "map" else declared.fields.get(name)


def _element_of(place: _Place, *, values: bool = False) -> _Place:
    """What a loop runs over, elements or keys; or with `values` what stands at an index or a key."""
    declared = place.declared
    if declared is None or not declared.params:
        return _Place(size=place.element)
    if declared.name == "list" or values:
        return _Place(declared.params[-1])
    return _Place(declared.params[0])


def _is_bind(node: Node) -> bool:
    iter_range, _, condition, _, _ = node.loop
    empty = iter_range.kind == cel_ast.LIST and not iter_range.args
    return empty and condition.kind == cel_ast.CONSTANT and condition.value is False
