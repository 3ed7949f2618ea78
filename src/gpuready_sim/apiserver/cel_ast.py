"""The tree of a CEL expression, as the library hands it out: a serialized CheckedExpr, macros expanded.

Source: cel-spec, proto/cel/expr/{checked,syntax}.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

CONSTANT: Final = "constant"
IDENT: Final = "ident"
SELECT: Final = "select"
CALL: Final = "call"
LIST: Final = "list"
MAP: Final = "map"
COMPREHENSION: Final = "comprehension"


@dataclass(frozen=True)
class Node:
    """One expression.

    kind      which of the fields below say something
    name      of an identifier, a selected field, or a function
    value     of a constant
    target    operand of a selection, or the object of a member function
    args      of a call; elements of a list; keys and values of a map in turn
    tests     a selection that only asks whether there is something: has()
    loop      of a comprehension: iter_range, accu_init, loop_condition, loop_step, result
    variables of a comprehension: that of the elements, that of the result
    """

    id: int
    kind: str
    name: str = ""
    value: Any = None
    target: Node | None = None
    args: tuple[Node, ...] = ()
    tests: bool = False
    loop: tuple[Node, ...] = ()
    variables: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Tree:
    """
    positions  where an expression stands in the text, in characters, by its id
    """

    root: Node
    positions: dict[int, int]


def parse(serialized: bytes) -> Tree:
    """
    serialized  google.protobuf.Any with a cel.expr.CheckedExpr
    """
    checked = dict(_fields(dict(_fields(serialized))[2]))
    positions: dict[int, int] = {}
    for number, entry in _fields(checked.get(5, b"")):
        if number == 4:
            pair = dict(_fields(entry))
            positions[pair.get(1, 0)] = pair.get(2, 0)
    return Tree(_node(checked[4]), positions)


def _node(raw: bytes) -> Node:
    parts = dict(_fields(raw))
    number, content = next(((n, c) for n, c in parts.items() if n in _READERS), (3, b""))
    return _READERS[number](parts.get(2, 0), content)


def _constant(id: int, raw: bytes) -> Node:
    for number, content in _fields(raw):
        if number == 2:
            return Node(id, CONSTANT, value=bool(content))
        if number == 3:
            return Node(id, CONSTANT, value=content - (1 << 64) if content >> 63 else content)
        if number == 5:
            return Node(id, CONSTANT, value=struct.unpack("<d", content)[0])
        if number in (6, 7):
            return Node(id, CONSTANT, value=content.decode() if number == 6 else content)
        if number == 4:
            return Node(id, CONSTANT, name="uint", value=content)
    return Node(id, CONSTANT)


def _ident(id: int, raw: bytes) -> Node:
    return Node(id, IDENT, dict(_fields(raw))[1].decode())


def _select(id: int, raw: bytes) -> Node:
    parts = dict(_fields(raw))
    return Node(id, SELECT, parts[2].decode(), target=_node(parts[1]), tests=bool(parts.get(3)))


def _call(id: int, raw: bytes) -> Node:
    target, name, args = None, "", []
    for number, content in _fields(raw):
        if number == 1:
            target = _node(content)
        elif number == 2:
            name = content.decode()
        else:
            args.append(_node(content))
    return Node(id, CALL, name, target=target, args=tuple(args))


def _list(id: int, raw: bytes) -> Node:
    return Node(id, LIST, args=tuple(_node(content) for number, content in _fields(raw) if number == 1))


def _map(id: int, raw: bytes) -> Node:
    args: list[Node] = []
    for number, content in _fields(raw):
        if number == 2:
            entry = dict(_fields(content))
            args += [_node(entry[part]) for part in (3, 4) if part in entry]
    return Node(id, MAP, args=tuple(args))


def _comprehension(id: int, raw: bytes) -> Node:
    parts = dict(_fields(raw))
    variables = (parts.get(1, b"").decode(), parts.get(3, b"").decode())
    loop = tuple(_node(parts[number]) for number in (2, 4, 5, 6, 7))
    return Node(id, COMPREHENSION, loop=loop, variables=variables)


_READERS: Final = {
    3: _constant,
    4: _ident,
    5: _select,
    6: _call,
    7: _list,
    8: _map,
    9: _comprehension,
}


def _fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """(number, content) of a message's fields: bytes for messages and texts, numbers for varints."""
    position = 0
    while position < len(raw):
        key, position = _varint(raw, position)
        if key & 7 == 2:
            length, position = _varint(raw, position)
            yield key >> 3, raw[position : position + length]
            position += length
        elif key & 7 == 0:
            value, position = _varint(raw, position)
            yield key >> 3, value
        else:
            width = 8 if key & 7 == 1 else 4
            yield key >> 3, raw[position : position + width]
            position += width


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
