"""Read and change one JSON file: keys, their order and the indentation stay. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from gpuready.operands.toolkit.toml_file import ConfigFileError

_INDENT = re.compile(r"\{\s*\n([ \t]+)\"")
_STANDARD_INDENT = "    "


def is_json(path: str) -> bool:
    return path.endswith(".json")


def parse(text: str, path: str) -> dict[str, Any]:
    """An empty file says nothing. raises ConfigFileError with line and column"""
    if not text.strip():
        return {}
    try:
        found = json.loads(
            text, parse_float=_float, parse_constant=_no_constant, object_pairs_hook=_without_doubles
        )
        json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as exc:
        raise _invalid(path, f"{exc.msg} (at line {exc.lineno}, column {exc.colno})") from None
    except UnicodeEncodeError:
        raise _invalid(path, "half a character (a lone surrogate) is in it") from None
    except ValueError as exc:
        raise _invalid(path, str(exc)) from None
    except RecursionError:
        raise _invalid(path, "it is nested too deeply") from None
    if not isinstance(found, dict):
        raise _invalid(path, "it is no object (at line 1, column 1)")
    return found


def _float(text: str) -> float:
    """raises  ValueError for one that we could not write as it was"""
    number = float(text)
    if not math.isfinite(number) or Decimal(repr(number)) != Decimal(text):
        raise ValueError(f"the number {text[:40]} cannot be kept as it is")
    return number


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """raises  ValueError: of two values of one name, a reader takes one, and it is not said which"""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name} stands in it twice")
        found[name] = value
    return found


def dump(tables: Mapping[str, Any], *, like: str) -> str:
    """like  the text as it was: its indentation is kept, on one line stays on one line"""
    match = _INDENT.search(like)
    if like.strip() and "\n" not in like.strip():
        return json.dumps(tables, ensure_ascii=False) + ("\n" if like.endswith("\n") else "")
    indent = match[1] if match else _STANDARD_INDENT
    end = "" if like.strip() and not like.endswith("\n") else "\n"
    return json.dumps(tables, indent=indent, ensure_ascii=False) + end


def _invalid(path: str, said: str) -> ConfigFileError:
    return ConfigFileError(
        f"{path} is no valid JSON: {said}",
        why="a file that cannot be read cannot be changed without losing what is in it",
        next_step=f"correct {path}; it was left as it is",
    )
