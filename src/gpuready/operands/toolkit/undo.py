"""Take our changes out of a file again, and nothing else. Pure.

A file that nobody has touched since becomes exactly what it was. In one that others have changed, the lines
that we added are cut out, or, where they are not to be found, the settings that still have our value.
"""

from __future__ import annotations

import copy
import difflib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from gpuready.operands.toolkit import json_file, toml_file
from gpuready.operands.toolkit.journal import Touched
from gpuready.operands.toolkit.plan import ABSENT, Keys
from gpuready.operands.toolkit.toml_file import ConfigFileError

_MOST_MATCHED = 2_000  # lines


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
    blocks = _inserted(before, after)
    if blocks is None:
        return None
    for block in blocks:
        if current.count(block) != 1:
            return None
        current = current.replace(block, "")
    return current


def _inserted(before: Sequence[str], after: Sequence[str]) -> list[str] | None:
    """The blocks of lines that make `after` of `before`; None when it takes more than to add lines."""
    start = _shared(before, after)
    before, after = before[start:], after[start:]
    end = _shared(before[::-1], after[::-1])
    before, after = before[: len(before) - end], after[: len(after) - end]
    if len(before) > _MOST_MATCHED:
        return _by_order(before, after)  # difflib takes the square of it
    blocks = []
    for kind, _, _, first, last in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "insert":
            blocks.append("".join(after[first:last]))
        elif kind != "equal":
            return None
    return blocks


def _by_order(before: Sequence[str], after: Sequence[str]) -> list[str] | None:
    """As `_inserted`, each line of `before` found at the first place where it can be."""
    blocks, block, at = [], "", 0
    for line in [*after, None]:
        is_kept = line is None or (at < len(before) and line == before[at])
        if not is_kept:
            block += str(line)
            continue
        at += line is not None
        if block:
            blocks.append(block)
        block = ""
    return blocks if at == len(before) else None


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def _edited(touched: Touched, current: str, meant: Mapping[str, Any]) -> str:
    if json_file.is_json(touched.path):
        return json_file.dump(meant, like=current)
    gone = [keys for keys in touched.values if _at(meant, keys) is ABSENT]
    text = toml_file.without(current, gone, touched.path)
    there = tomllib.loads(text)
    changed = {keys: _at(meant, keys) for keys in touched.values if keys not in gone}
    changed = {keys: value for keys, value in changed.items() if value != _at(there, keys)}
    if changed:
        text = toml_file.with_values(text, changed, touched.path)
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
