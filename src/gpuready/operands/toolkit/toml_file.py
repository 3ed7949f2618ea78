"""Read and change one TOML file so that every byte which is not ours stays. Pure.

New tables are appended as text after their neighbours, indented as those are; single values and lists are
changed in place by tomlkit. Whatever is made is read again before it counts: a file that says anything else
than was meant is never returned.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from gpuready.errors import GPUReadyError

Keys = tuple[str, ...]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PART = re.compile(r"""[ \t]*(?:([A-Za-z0-9_-]+)|"([^"\\]*)"|'([^']*)')[ \t]*(\.|$)""")
_HEADER = re.compile(r"^(\s*)\[(?!\[)(.*)\]\s*(?:#.*)?$")
_NOT_PART = object()


class ConfigFileError(GPUReadyError):
    """A configuration file that cannot be read, or cannot be changed without touching what is not ours."""


def is_template(path: str) -> bool:
    """No TOML yet: a program of the distribution makes TOML of it."""
    return path.endswith(".tmpl")


def parse(text: str, path: str) -> dict[str, Any]:
    """raises  ConfigFileError with line and column"""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # ValueError: also a number of too many digits
        raise ConfigFileError(
            f"{path} is no valid TOML: {exc}",
            why="a file that cannot be read cannot be changed without losing what is in it",
            next_step=f"correct {path}; it was left as it is",
        ) from None


def with_values(text: str, values: Mapping[Keys, Any], path: str) -> str:
    """`text` with each value at its path of keys, and nothing else changed.

    values  (("plugins", "cri", "enable_cdi") -> True); a table that is not there yet is made
    raises  ConfigFileError when the file cannot be read, or holds something else where a table must be
    """
    meant = parse(text, path)
    for keys, value in values.items():
        _put(meant, keys, value, path)
    appended = _by_text(text, values, path)
    if appended is not None and _reads_as(appended, meant):
        return appended
    edited = _by_tomlkit(text, values)
    if edited is not None and _reads_as(edited, meant):
        return edited
    raise ConfigFileError(
        f"{path} cannot be changed",
        why="its notation leaves no place for " + ", ".join(dotted(keys) for keys in values),
        next_step=f"write the tables of {path} as [headers]",
    )


def without(text: str, paths: Sequence[Keys], path: str) -> str:
    """`text` without the values at `paths`, and without the tables that are empty then."""
    document = tomlkit.parse(text)
    for keys in paths:
        _take(document, keys)
    return _tidied(tomlkit.dumps(document))


def dotted(keys: Sequence[str]) -> str:
    return ".".join(_quoted(key, '"') for key in keys)


def table_text(keys: Keys, values: Mapping[str, Any], *, indent: str = "", quote: str = '"') -> str:
    """One table with its header; values that are tables follow with headers of their own."""
    plain = {key: value for key, value in values.items() if not isinstance(value, Mapping)}
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    lines = []
    if plain or not tables:
        header = ".".join(_quoted(key, quote) for key in keys)
        lines.append(f"{indent}[{header}]\n")
        lines += [f"{indent}  {_quoted(key, quote)} = {_value(value)}\n" for key, value in plain.items()]
    for key, value in tables.items():
        lines.append(table_text((*keys, key), value, indent=indent + "  " * bool(indent), quote=quote))
    return "".join(lines)


# --- by text ----------------------------------------------------------------------------------------------


def _by_text(text: str, values: Mapping[Keys, Any], path: str) -> str | None:
    """Values of tables that exist are set by tomlkit, the others appended; None where that cannot be."""
    there = parse(text, path)
    inside = {keys: value for keys, value in values.items() if _find(there, keys[:-1]) is not _NOT_PART}
    fresh = {keys: value for keys, value in values.items() if keys not in inside}
    for keys, value in inside.items():
        changed = _insert(text, keys, value) if _find(there, keys) is _NOT_PART else None
        if changed is None and (changed := _by_tomlkit(text, {keys: value})) is None:
            return None
        text = changed
    for top, table in _new_tables(there, fresh).items():
        text = _append(text, top, table)
    return text


def _insert(text: str, keys: Keys, value: Any) -> str | None:
    """A new value in a table that is there; None where its notation (inline, dotted) leaves no place."""
    inserted = _insert_line(text, keys, value)
    if inserted is not None:
        return inserted
    # Nobody wrote a header for it: it is only part of those of its inner tables, and may get one of its own.
    headed = _append(text, keys[:-1], {keys[-1]: value})
    return headed if _is_valid(headed) else None


def _is_valid(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _insert_line(text: str, keys: Keys, value: Any) -> str | None:
    """A new value as the last line of its table, indented as the table's first one; None without a header."""
    lines = text.splitlines(keepends=True)
    headers = {n: _keys_of(match[2]) for n, line in enumerate(lines) if (match := _HEADER.match(line))}
    start = next((n for n, header in headers.items() if header == keys[:-1]), None)
    if len(keys) == 1:
        start = -1
    if start is None:
        return None
    end = min((n for n in headers if n > start), default=len(lines))
    body = [n for n in range(start + 1, end) if lines[n].strip() and not lines[n].lstrip().startswith("#")]
    like = lines[body[0]] if body else "" if start < 0 else re.sub(r"\S.*", "  x", lines[start], flags=re.S)
    indent = like[: len(like) - len(like.lstrip())]
    after = body[-1] + 1 if body else start + 1
    if after and not lines[after - 1].endswith("\n"):
        lines[after - 1] += "\n"
    return "".join(
        [*lines[:after], f"{indent}{_quoted(keys[-1], chr(34))} = {_value(value)}\n", *lines[after:]]
    )


def _new_tables(there: Mapping[str, Any], fresh: Mapping[Keys, Any]) -> dict[Keys, dict[str, Any]]:
    """The highest table of each value that is not there yet, with all that is to be in it.

    Where only ("plugins", K, "containerd", "runtimes") is missing, its members are tables of their own.
    """
    found: dict[Keys, dict[str, Any]] = {}
    for keys, value in fresh.items():
        depth = next(n for n in range(1, len(keys)) if _find(there, keys[:n]) is _NOT_PART)
        depth = max(depth, min(len(keys) - 1, _depth_of_table(keys)))
        table = found.setdefault(keys[:depth], {})
        for key in keys[depth:-1]:
            table = table.setdefault(key, {})
        table[keys[-1]] = value
    return found


def _depth_of_table(keys: Keys) -> int:
    """How many keys name the table that people write a header for: a runtime, else the value's own."""
    if "runtimes" in keys[:-1]:
        return keys.index("runtimes") + 2
    return len(keys) - 1


def _append(text: str, top: Keys, table: Mapping[str, Any]) -> str:
    """After the last table that shares most of its header's keys, indented as that is."""
    lines = text.splitlines(keepends=True)
    after, indent, quote = _neighbour(lines, top)
    block = table_text(top, table, indent=indent, quote=quote)
    before = "".join(lines[:after])
    if before and not before.endswith("\n"):
        before += "\n"
    gap = "\n" if before.strip() else ""
    return before + gap + block + "".join(lines[after:])


def _neighbour(lines: Sequence[str], top: Keys) -> tuple[int, str, str]:
    """(line to insert at, indent, quote) by the headers that are there."""
    headers = [
        (n, match[1], _keys_of(match[2])) for n, line in enumerate(lines) if (match := _HEADER.match(line))
    ]
    known = [(n, indent, keys) for n, indent, keys in headers if keys]
    quote = "'" if any("'" in lines[n] for n, _, keys in known if len(keys) > 1) else '"'
    best = max((_shared(keys, top) for _, _, keys in known), default=0)
    if best < 2:
        return len(lines), "", quote
    kin = [(n, indent, keys) for n, indent, keys in known if _shared(keys, top) == best]
    like = next((indent for _, indent, keys in reversed(kin) if len(keys) == len(top)), None)
    if like is None:
        step = "  " if any(indent for _, indent, _ in known) else ""
        like = kin[-1][1] + step * max(0, len(top) - len(kin[-1][2]))
    later = [n for n, _, _ in headers if n > kin[-1][0]]
    end = later[0] if later else len(lines)
    while end > 0 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return max(end, kin[-1][0] + 1), like, quote


def _keys_of(header: str) -> Keys:
    """What stands between the brackets, as keys; () for what is no header."""
    found: list[str] = []
    end = 0
    while part := _PART.match(header, end):
        found.append(next(key for key in part.groups()[:3] if key is not None))
        end = part.end()
        if not part[4]:
            return tuple(found)
    return _keys_of_odd(header)


def _keys_of_odd(header: str) -> Keys:
    """With escapes in it: slow, and rare."""
    try:
        table: Any = tomllib.loads(f"[{header}]\n")
    except tomllib.TOMLDecodeError:
        return ()
    keys = []
    while table:
        (key, table), *_ = table.items()
        keys.append(key)
    return tuple(keys)


def _shared(keys: Keys, top: Keys) -> int:
    count = 0
    for mine, theirs in zip(keys, top, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


# --- by tomlkit -------------------------------------------------------------------------------------------


def _by_tomlkit(text: str, values: Mapping[Keys, Any]) -> str | None:
    try:
        document = tomlkit.parse(text)
        for keys, value in values.items():
            table: Any = document
            for key in keys[:-1]:
                if key not in table:
                    is_inline = isinstance(table, InlineTable)
                    table[key] = tomlkit.inline_table() if is_inline else tomlkit.table()
                table = table[key]
            table[keys[-1]] = value
        return tomlkit.dumps(document)
    except (TOMLKitError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _take(table: Any, keys: Keys) -> None:
    if keys[0] not in table:
        return
    if len(keys) == 1:
        del table[keys[0]]
        return
    inner = table[keys[0]]
    _take(inner, keys[1:])
    if not len(inner):
        del table[keys[0]]


def _tidied(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text)


# --- reading what was made --------------------------------------------------------------------------------


def _reads_as(text: str, meant: Mapping[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == meant
    except tomllib.TOMLDecodeError:
        return False


def _put(tables: dict[str, Any], keys: Keys, value: Any, path: str) -> None:
    table = tables
    for number, key in enumerate(keys[:-1], 1):
        inner = table.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigFileError(
                f"{path}: {dotted(keys[:number])} is no table",
                why=f"{dotted(keys)} belongs into it",
                next_step=f"correct {path}; it was left as it is",
            )
        table = inner
    table[keys[-1]] = copy.deepcopy(value)


def _find(tables: Mapping[str, Any], keys: Sequence[str]) -> Any:
    found: Any = tables
    for key in keys:
        if not isinstance(found, Mapping) or key not in found:
            return _NOT_PART
        found = found[key]
    return found


def _quoted(key: str, quote: str) -> str:
    if _BARE.fullmatch(key):
        return key
    return f"'{key}'" if quote == "'" and "'" not in key else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
