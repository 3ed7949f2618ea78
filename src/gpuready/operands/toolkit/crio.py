"""The change after which CRI-O knows our handlers: one drop-in. Pure.

CRI-O reads its root file, then every file below the drop-in directory, whatever its name, folder by folder in
name order; a runtime's table is taken whole from the last file that has it, everything else key by key. CDI
needs no setting.

Source: CRI-O pkg/config (UpdateFromPath, UpdateFromFile); node-chain.md §3.8.
"""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuready.operands.toolkit.containerd.merge import Table, leaves, overlay
from gpuready.operands.toolkit.plan import ABSENT, FileChange, Keys, Plan, RefusedPlan, Wanted, differences
from gpuready.operands.toolkit.running import Running
from gpuready.operands.toolkit.toml_file import parse, with_values

_BASES = ("crun", "runc")
_BY_NAME = ("runtimes", "workloads")  # tables whose entries are taken whole
_RUNTIMES: Keys = ("crio", "runtime", "runtimes")
_DEFAULT: Keys = ("crio", "runtime", "default_runtime")


@dataclass(frozen=True)
class Files:
    """root, and the directory of `drop_in`; texts: path -> text of what is there of them."""

    root: str
    drop_in: str
    texts: Mapping[str, str]


def plan(files: Files, wanted: Wanted) -> Plan:
    """raises  RefusedPlan, ConfigFileError; nothing was changed then"""
    before = merged(files)
    values = {k: v for k, v in settings_of(before, wanted).items() if _at(before, k) != v}
    if not values:
        return Plan()
    text = files.texts.get(files.drop_in)
    change = FileChange(files.drop_in, text, with_values(text or "", values, files.drop_in), values)
    after = merged(Files(files.root, files.drop_in, {**files.texts, files.drop_in: change.after or ""}))
    _judge(files, after, wanted, values)
    return Plan((change,), tuple(differences(before, after)))


def merged(files: Files) -> Table:
    """Every setting that some file makes, as CRI-O takes them."""
    folder = f"{posixpath.dirname(files.drop_in)}/"
    dropped = [path for path in files.texts if path.startswith(folder) and path != files.root]
    result: Table = {}
    in_order = sorted(dropped, key=lambda path: path.split("/"))
    for path in ([files.root] if files.root in files.texts else []) + in_order:
        tables = parse(files.texts[path], path)
        overlay(result, tables)
        for name in _BY_NAME:
            entries = _at(tables, (*_RUNTIMES[:-1], name))
            if isinstance(entries, dict):
                _at(result, (*_RUNTIMES[:-1], name)).update(copy.deepcopy(entries))
    return result


def running_of(told: Table) -> Running:
    """A CRI-O that would run with these settings."""
    runtimes, default = _at(told, _RUNTIMES), _at(told, _DEFAULT)
    tables = runtimes if isinstance(runtimes, dict) else {}
    paths = {name: _at(table, ("runtime_path",)) for name, table in tables.items()}
    known = {name: path if isinstance(path, str) else "" for name, path in paths.items()}
    return Running("cri-o", "", known, default if isinstance(default, str) else "")


def settings_of(before: Table, wanted: Wanted) -> dict[Keys, Any]:
    base = _base_of(before)
    table = {**base, "runtime_path": wanted.binary, "runtime_type": base.get("runtime_type") or "oci"}
    values = {
        (*_RUNTIMES, handler, *path): _at(table, path)
        for handler in wanted.handlers
        for path in leaves(table)
    }
    return {**values, _DEFAULT: wanted.handlers[0]} if wanted.as_default else values


def _base_of(before: Table) -> Table:
    """What the node's own runtime is run with: monitor, root directory, cgroup."""
    runtimes = _at(before, _RUNTIMES)
    default = _at(before, _DEFAULT)
    for name in (default, *_BASES):
        table = runtimes.get(name) if isinstance(runtimes, dict) and isinstance(name, str) else None
        if isinstance(table, dict) and not str(name).startswith("nvidia"):
            return copy.deepcopy(table)
    return {}


def _judge(files: Files, after: Table, wanted: Wanted, values: Mapping[Keys, Any]) -> None:
    for keys, value in values.items():
        if _at(after, keys) != value:
            raise RefusedPlan(
                "no place was found for the handlers " + ", ".join(wanted.handlers),
                why=f"a file that sorts after {files.drop_in} decides about {'.'.join(keys)}",
                next_step="remove the setting from that file",
            )


def _at(table: Any, keys: Keys) -> Any:
    for key in keys:
        if not isinstance(table, Mapping) or key not in table:
            return ABSENT
        table = table[key]
    return table
