"""Take our changes out of a file again, and nothing else. Pure.

A file that nobody has touched since becomes exactly what it was. In one that others have changed, the lines
that we added are cut out, or, where they are not to be found, the settings that still have our value.
"""

from __future__ import annotations

import copy
import difflib
import tomllib
from collections.abc import Mapping
from typing import Any

from gpuready.operands.toolkit import json_file, toml_file
from gpuready.operands.toolkit.journal import Touched
from gpuready.operands.toolkit.plan import ABSENT, Keys
from gpuready.operands.toolkit.toml_file import ConfigFileError


def undone(touched: Touched, current: str | None) -> str | None:
    """The file without us; None = it should not exist.

    raises  ConfigFileError when it cannot be read
    """
    if current == touched.after:
        return touched.before
    if current is None:
        return None
    if toml_file.is_template(touched.path):
        return _cut_out(touched, current)
    tables = _parse(current, touched.path)
    meant = without_values(tables, touched.values)
    if meant == tables:
        return current
    if touched.before is None and not _says_anything(meant):
        return None
    cut = _cut(touched, current)
    if cut is not None and _reads_as(cut, meant, touched.path):
        return cut
    return _edited(touched, current, meant)


def _cut_out(touched: Touched, current: str) -> str:
    """Of a text that nobody but its distribution can read: the lines that are ours, as we wrote them."""
    cut = _cut(touched, current)
    if cut is None:
        raise ConfigFileError(
            f"our lines cannot be found in {touched.path}",
            why="others have changed them",
            next_step="remove by hand: " + ", ".join(toml_file.dotted(keys) for keys in touched.values),
        )
    return cut


def without_values(tables: Mapping[str, Any], values: Mapping[Keys, tuple[Any, Any]]) -> dict[str, Any]:
    """`tables` where what still has our value is as it was before; tables that are empty then are gone."""
    found = copy.deepcopy(dict(tables))
    for keys, (value, was) in values.items():
        _restore(found, keys, value, was)
    return found


def _restore(table: dict[str, Any], keys: Keys, value: Any, was: Any) -> None:
    key = keys[0]
    if key not in table:
        return
    if len(keys) > 1:
        if isinstance(table[key], dict):
            _restore(table[key], keys[1:], value, was)
            if not table[key]:
                del table[key]
        return
    there = table[key]
    if isinstance(there, list) and isinstance(value, list):
        added = [item for item in value if item not in (was if isinstance(was, list) else [])]
        there = [item for item in there if item not in added]
        if there or was is not ABSENT:
            table[key] = there
        else:
            del table[key]
    elif there == value and was is ABSENT:
        del table[key]
    elif there == value:
        table[key] = was


def _cut(touched: Touched, current: str) -> str | None:
    """The lines that we added, out of `current`; None when we did more than add, or they are not there."""
    before = (touched.before or "").splitlines(keepends=True)
    after = (touched.after or "").splitlines(keepends=True)
    blocks = []
    for kind, _, _, start, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "insert":
            blocks.append("".join(after[start:end]))
        elif kind != "equal":
            return None
    for block in blocks:
        if current.count(block) != 1:
            return None
        current = current.replace(block, "")
    return current


def _edited(touched: Touched, current: str, meant: Mapping[str, Any]) -> str:
    if json_file.is_json(touched.path):
        return json_file.dump(meant, like=current)
    text = current
    for keys, (_, _was) in touched.values.items():
        wanted = _at(meant, keys)
        if wanted is ABSENT:
            text = toml_file.without(text, [keys], touched.path)
        elif wanted != _at(tomllib.loads(text), keys):
            text = toml_file.with_values(text, {keys: wanted}, touched.path)
    if _reads_as(text, meant, touched.path):
        return text
    raise ConfigFileError(
        f"our settings cannot be taken out of {touched.path}",
        why="others have changed it so that nothing of ours can be told from theirs",
        next_step="remove by hand: " + ", ".join(toml_file.dotted(keys) for keys in touched.values),
    )


def _parse(text: str, path: str) -> dict[str, Any]:
    return json_file.parse(text, path) if json_file.is_json(path) else toml_file.parse(text, path)


def _reads_as(text: str, meant: Mapping[str, Any], path: str) -> bool:
    try:
        return _parse(text, path) == meant
    except ConfigFileError:
        return False


def _says_anything(tables: Mapping[str, Any]) -> bool:
    return any(key != "version" for key in tables)


def _at(table: Any, keys: Keys) -> Any:
    for key in keys:
        if not isinstance(table, Mapping) or key not in table:
            return ABSENT
        table = table[key]
    return table
