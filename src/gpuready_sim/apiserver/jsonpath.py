"""The simple JSON paths of additionalPrinterColumns: .status.conditions[?(@.type=="Ready")].status"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Final

STEP: Final = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\\])+)
      | \[\?\(\s*@(?P<filter>(?:\\.|[^=!<>\\])+?)\s*(?P<op>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|[^)]+?)\s*\)\]
      | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
      | \[(?P<index>-?\d+|\*)\]""",
    re.VERBOSE,
)

Step = tuple[str, Any]


def find(obj: Any, path: str) -> list[Any]:
    """Everything that the path leads to; nothing where it leads nowhere or cannot be read."""
    values = [obj]
    for step in _steps(path):
        values = [found for value in values for found in _taken(value, step)]
    return values


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[Step, ...]:
    path = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[Step] = []
    position = 0
    while position < len(path):
        match = STEP.match(path, position)
        if match is None:
            return (("name", None),)
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["name"] is not None:
        return "name", re.sub(r"\\(.)", r"\1", match["name"])
    if match["quoted"] is not None:
        return "name", re.sub(r"\\(.)", r"\1", match["quoted"])
    if match["index"] is not None:
        return ("all", None) if match["index"] == "*" else ("index", int(match["index"]))
    return "filter", (match["filter"], match["op"] == "==", _literal(match["value"]))


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
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if kind == "all":
        return items
    if kind == "index":
        return [items[detail]] if -len(items) <= detail < len(items) else []
    path, equal, wanted = detail
    return [item for item in items if (wanted in find(item, path)) is equal]
