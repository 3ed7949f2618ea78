"""The change to dockerd's `daemon.json` after which it knows our handlers. Pure.

Only our runtimes, the default when asked for, and the CDI feature; what else is in the file stays, also what
somebody has given a runtime of ours beside its path.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from gpuready.operands.toolkit import json_file
from gpuready.operands.toolkit.plan import ABSENT, FileChange, Keys, Plan, Wanted, differences
from gpuready.operands.toolkit.toml_file import ConfigFileError


def plan(path: str, text: str | None, wanted: Wanted) -> Plan:
    """raises  ConfigFileError; the file is left as it is then"""
    before = json_file.parse(text or "", path)
    after = copy.deepcopy(before)
    values = {keys: value for keys, value in settings_of(wanted).items() if _at(before, keys) != value}
    if not values:
        return Plan()
    for keys, value in values.items():
        _put(after, keys, value, path)
    change = FileChange(path, text, json_file.dump(after, like=text or ""), values)
    return Plan((change,), tuple(differences(before, after)))


def settings_of(wanted: Wanted) -> dict[Keys, Any]:
    values: dict[Keys, Any] = {("runtimes", handler, "path"): wanted.binary for handler in wanted.handlers}
    if wanted.cdi:
        values["features", "cdi"] = True
    if wanted.as_default:
        values["default-runtime",] = wanted.handlers[0]
    return values


def _put(tables: dict[str, Any], keys: Keys, value: Any, path: str) -> None:
    for number, key in enumerate(keys[:-1], 1):
        inner = tables.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigFileError(
                f"{path}: {'.'.join(keys[:number])} is no object",
                next_step=f"correct {path}; it was left as it is",
            )
        tables = inner
    tables[keys[-1]] = value


def _at(table: Any, keys: Keys) -> Any:
    for key in keys:
        if not isinstance(table, Mapping) or key not in table:
            return ABSENT
        table = table[key]
    return table
