"""Whether a value from JSON looks as its reader expects. Pure.

Only the fields that are read have a shape; everything else may be anything. null stands for "absent", as in
Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ShapeError(ValueError):
    """Where it is not as it must be, and what must stand there."""


@dataclass(frozen=True)
class Needed:
    """An object in which `fields` must be there; the others of `shape` may be."""

    shape: Mapping[str, Any]
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Each:
    """An object with any names, each with a value of this shape."""

    value: Any


# A shape: a type, an enumeration, [shape] for a list, {name: shape} for an object, Needed or Each.
Shape = Any


def check(value: Any, shape: Shape, path: str = "") -> None:
    """raises  ShapeError at the first place that is not of the shape; null is of every shape"""
    if value is None:
        return
    if isinstance(shape, list):
        _expect(isinstance(value, list), path, "a list", value)
        for index, item in enumerate(value):
            _present(item, f"{path}[{index}]")
            check(item, shape[0], f"{path}[{index}]")
    elif isinstance(shape, Each):
        _expect(isinstance(value, dict), path, "an object", value)
        for name, item in value.items():
            check(item, shape.value, f"{path}.{name}")
    elif isinstance(shape, (Mapping, Needed)):
        _check_object(value, shape, path)
    elif isinstance(shape, type) and issubclass(shape, StrEnum):
        allowed = ", ".join(shape)
        _expect(isinstance(value, str) and value in list(shape), path, f"one of {allowed}", value)
    else:
        is_right = isinstance(value, shape) and not (shape is int and isinstance(value, bool))
        is_right = is_right and (shape is not str or _can_be_written(value))
        _expect(is_right, path, _WORDS[shape], value)


def _check_object(value: Any, shape: Mapping[str, Shape] | Needed, path: str) -> None:
    _expect(isinstance(value, dict), path, "an object", value)
    fields, needed = (shape.shape, shape.fields) if isinstance(shape, Needed) else (shape, ())
    for name in needed:
        _present(value.get(name), f"{path}.{name}")
    for name, inner in fields.items():
        check(value.get(name), inner, f"{path}.{name}".lstrip("."))


def _can_be_written(text: str) -> bool:
    """JSON can name half a character ("\\ud800"), which nobody can write again."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _present(value: Any, path: str) -> None:
    if value is None:
        raise ShapeError(f"{path} is missing")


def _expect(is_right: bool, path: str, wanted: str, value: Any) -> None:
    if not is_right:
        raise ShapeError(f"{path or 'it'} must be {wanted}, and is {_told(value)}")


def _told(value: Any) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            if not _can_be_written(value):
                return "half a character"
            return f'"{value}"' if len(value) <= _MOST_SHOWN else "a long text"
        case bool() | float():
            return str(value).lower()
        case _:
            return "a number"


_MOST_SHOWN = 40
_WORDS = {str: "a text", int: "a whole number", bool: "true or false"}
