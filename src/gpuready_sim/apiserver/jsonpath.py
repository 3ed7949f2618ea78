"""The simple JSON paths of additionalPrinterColumns: .status.conditions[?(@.type=="Ready")].status

Source: client-go util/jsonpath/{parser,jsonpath}.go.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

STEP: Final = re.compile(
    r"""\.\.(?P<deep>(?:\\.|[^.\[\\])+)
      | \.(?P<name>(?:\\.|[^.\[\\])+)
      | \[\?\(\s*@(?P<filter>(?:\\.|[^=!<>\\])+?)\s*(?P<op>==|!=|<=|>=|<|>)\s*
            (?P<value>"[^"]*"|'[^']*'|[^)]+?)\s*\)\]
      | \[(?P<slice>-?\d*:-?\d*(?::-?\d+)?)\]
      | \[(?P<union>(?:(?:'[^']*'|"[^"]*"|-?\d+)\s*,\s*)*(?:'[^']*'|"[^"]*"|-?\d+))\]
      | \[(?P<all>\*)\]""",
    re.VERBOSE,
)
OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Step = tuple[str, Any]


def find(obj: Any, path: str) -> list[Any]:
    """Everything that the path leads to; nothing where it leads nowhere or cannot be read."""
    values = [obj]
    for step in _steps(path):
        values = [found for value in values for found in _taken(value, step)]
    return values


def is_readable(path: str) -> bool:
    return path == "." or ("name", None) not in _steps(path)


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[Step, ...]:
    path = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[Step] = []
    position = 0
    while position < len(path):
        match = STEP.match(path, position)
        if match is None:
            return (("name", None),)
        steps += _step(match)
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> list[Step]:
    if match["deep"] is not None:
        return [("deep", None), ("name", _unescaped(match["deep"]))]
    if match["name"] is not None:
        return [("name", _unescaped(match["name"]))]
    if match["all"] is not None:
        return [("all", None)]
    if match["slice"] is not None:
        bounds = [int(one) if one else None for one in match["slice"].split(":")]
        return [("slice", slice(*bounds))]
    if match["union"] is not None:
        return _union(re.findall(r"'[^']*'|\"[^\"]*\"|-?\d+", match["union"]))
    return [("filter", (match["filter"], match["op"], _literal(match["value"])))]


def _union(parts: list[str]) -> list[Step]:
    """Several fields or places; a single one may be a path with dots."""
    if len(parts) == 1 and parts[0][0] in "'\"":
        return [("name", _unescaped(name)) for name in re.split(r"(?<!\\)\.", parts[0][1:-1])]
    if len(parts) == 1:
        return [("index", int(parts[0]))]
    return [
        ("union", tuple(_unescaped(one[1:-1]) if one[0] in "'\"" else int(one) for one in parts)),
    ]


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _taken(value: Any, step: Step) -> list[Any]:
    kind, detail = step
    if kind == "name":
        return [value[detail]] if isinstance(value, dict) and detail in value else []
    if kind == "deep":
        return list(_everything(value))
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if kind == "all":
        return items
    if kind == "index":
        return [items[detail]] if -len(items) <= detail < len(items) else []
    if kind == "slice":
        return items[detail] if isinstance(value, list) else []
    if kind == "union":
        steps = (("index" if isinstance(one, int) else "name", one) for one in detail)
        return [found for one in steps for found in _taken(value, one)]
    path, sign, wanted = detail
    return [item for item in items if _holds(find(item, path), sign, wanted)]


def _everything(value: Any) -> Iterator[Any]:
    """A value and all that is in it, from the outside in."""
    yield value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from _everything(child)


def _holds(found: list[Any], sign: str, wanted: Any) -> bool:
    if sign == "!=":
        return not _holds(found, "==", wanted)
    try:
        return any(OPERATORS[sign](one, wanted) for one in found)
    except TypeError:
        return False
