"""What CRI-O makes of its configuration files.

The root file, then every file below the drop-in directory, whatever its name, folder by folder in name order;
later files win key by key. Lists are replaced, storage options joined. A runtime is taken whole from the last
file that has its table; the built-in one stays beside those of the files.
"""

from __future__ import annotations

import copy
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Table = dict[str, Any]
ROOT, DROP_INS = "/etc/crio/crio.conf", "/etc/crio/crio.conf.d"
_SECTIONS = ("api", "runtime", "image", "network", "metrics", "tracing", "stats", "nri")
_NAMED = ("runtimes", "workloads")  # tables by name: each is taken whole
_TYPES = ("", "oci", "vm", "pod")
_PATH = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
_INHERITED = ("runtime_path", "runtime_type", "runtime_config_path", "runtime_root")
_FIRST_INHERITING, _FIRST_WITH_CRUN = (1, 32), (1, 31)


class Refused(Exception):
    """CRI-O would not start; while it runs, it would not take the change."""


def release_of(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def configuration(node_root: Path, release: str, root: str = ROOT, drop_ins: str = DROP_INS) -> Table:
    """Everything, as the daemon holds it; raises Refused."""
    told = _defaults(release_of(release))
    for path in _files(node_root, root, drop_ins):
        try:
            said = tomllib.loads((node_root / path.lstrip("/")).read_text())
        except (OSError, ValueError) as exc:
            raise Refused(f"unable to decode configuration {path}: {exc}") from exc
        _lay_over(told, said, path)
    return told


def started(told: Table, node_root: Path, release: str) -> Table:
    """What a daemon that starts with it works with: runtimes that cannot be used are left out.

    raises  Refused
    """
    runtime = copy.deepcopy(told["crio"]["runtime"])
    default = runtime["default_runtime"] = default_of(runtime, release)
    if release_of(release) >= _FIRST_INHERITING:
        _inherit(runtime["runtimes"], default)
    for name in list(runtime["runtimes"]):
        why = _why_not(name, runtime["runtimes"][name], node_root)
        if why and name == default:
            raise Refused(f"runtime validation: {why}")
        if why:
            del runtime["runtimes"][name]
    return {"crio": {**told["crio"], "runtime": runtime}}


def default_of(runtime: Table, release: str) -> str:
    """raises  Refused"""
    default = str(runtime["default_runtime"]) or _built_in(release_of(release))
    if default not in runtime["runtimes"]:
        raise Refused(
            f'default_runtime set to "{default}", but no runtime entry table '
            f"[crio.runtime.runtimes.{default}] was found"
        )
    return default


def _files(node_root: Path, root: str, drop_ins: str) -> Iterator[str]:
    if (node_root / root.lstrip("/")).exists():
        yield root
    yield from _below(node_root, drop_ins)


def _below(node_root: Path, folder: str) -> Iterator[str]:
    """A link is no folder to it, wherever it leads."""
    here = node_root / folder.lstrip("/")
    for name in sorted(os.listdir(here)) if here.is_dir() else ():
        path = f"{folder}/{name}"
        if (here / name).is_dir() and not (here / name).is_symlink():
            yield from _below(node_root, path)
        else:
            yield path


def _defaults(release: tuple[int, int]) -> Table:
    name = _built_in(release)
    runtimes = {name: {"runtime_path": "", "runtime_type": "oci", "runtime_root": f"/run/{name}"}}
    runtime: Table = {"default_runtime": name, "runtimes": runtimes, "log_level": "info", "workloads": {}}
    sections: Table = {section: {} for section in _SECTIONS}
    return {"crio": {"storage_option": [], **sections, "runtime": runtime}}


def _built_in(release: tuple[int, int]) -> str:
    return "crun" if release >= _FIRST_WITH_CRUN else "runc"


def _lay_over(told: Table, said: Table, path: str) -> None:
    """Keys outside of [crio] mean nothing to it."""
    crio = _table(said.get("crio", {}), "crio", path)
    for key, value in crio.items():
        if key in _SECTIONS:
            _lay_section_over(told["crio"][key], _table(value, key, path), path)
        elif key == "storage_option":
            joined = [*told["crio"][key], *value]
            told["crio"][key] = [each for at, each in enumerate(joined) if each not in joined[at + 1 :]]
        elif not isinstance(value, dict):
            told["crio"][key] = value


def _lay_section_over(section: Table, said: Table, path: str) -> None:
    for key, value in said.items():
        if key in _NAMED:
            tables = _table(value, key, path)
            section[key] |= {name: dict(_table(each, name, path)) for name, each in tables.items()}
            continue
        before = section.get(key)
        if before is not None and type(before) is not type(value):
            raise Refused(f"unable to decode configuration {path}: incompatible types: {key} = {value!r}")
        section[key] = value


def _table(value: Any, name: str, path: str) -> Table:
    if not isinstance(value, dict):
        raise Refused(f"unable to decode configuration {path}: {name} is no table")
    return value


def _inherit(runtimes: Table, default: str) -> None:
    base = runtimes[default]
    for table in runtimes.values():
        if table.get("inherit_default_runtime"):
            table |= {key: base.get(key, "") for key in _INHERITED}
            table["runtime_path"] = table["runtime_path"] or _on_path(default)


def _why_not(name: str, table: Table, node_root: Path) -> str:
    """Why a runtime cannot be used; "" = it can. An empty path is filled in."""
    if table.get("runtime_type", "") not in _TYPES:
        return f"invalid `runtime_type` {table['runtime_type']!r} for runtime {name!r}"
    asked = table.get("runtime_path") or ""
    found = asked or next((f"/{f}/{name}" for f in _PATH if (node_root / f / name).exists()), "")
    if not found:
        return f'"{name}" not found in $PATH'
    if not (node_root / found.lstrip("/")).exists():
        return f"invalid runtime_path for runtime '{name}': stat {found}: no such file or directory"
    table["runtime_path"] = found
    return ""


def _on_path(name: str) -> str:
    return f"/usr/bin/{name}"
