"""What containerd makes of its root file and the files that it imports. Pure.

The same rules as the daemon's, version by version (`rules`): a plan is judged by them before anything is
activated. Where the daemon's own `config dump` can be had, that is asked as well; this model also knows which
file said what, and what was lost on the way.
"""

from __future__ import annotations

import copy
import fnmatch
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuready.operands.toolkit.containerd.rules import CRI_IMAGES, CRI_RUNTIME, CRI_V1, CRI_V2, Rules
from gpuready.operands.toolkit.toml_file import ConfigFileError, parse
from gpuready.shape import Each, ShapeError, check

Table = dict[str, Any]
Path = tuple[str, ...]  # of keys: ("containerd", "runtimes", "nvidia", "runtime_type")

# The CRI plugin's settings that moved to the image service with config version 3.
_OF_IMAGES = (
    "registry",
    "image_decryption",
    "max_concurrent_downloads",
    "image_pull_progress_timeout",
    "image_pull_with_sync_fs",
    "stats_collect_period",
)
_CONTAINERD_OF_IMAGES = ("snapshotter", "disable_snapshot_annotations", "discard_unpacked_layers")
_OF_SERVER = (
    "disable_tcp_service",
    "stream_server_address",
    "stream_server_port",
    "stream_idle_timeout",
    "enable_tls_streaming",
    "x509_key_pair_streaming",
)
_V1_NAMES = {"cri": CRI_V2}


@dataclass(frozen=True)
class Loaded:
    """One file as the daemon reads it; `version` 0 = it does not say."""

    path: str
    version: int
    tables: Table


@dataclass(frozen=True)
class Merged:
    """version   that the daemon takes the whole for, before it migrates
    plugins   section -> settings that some file makes, under the names the daemon reads
    files     in the order in which they count
    origin    path of keys (from the section on) -> the file whose word it is
    refusal   why the daemon would not start with it, "" = it starts
    lost      (file, section, why): written in a file, and no part of the result
    """

    version: int
    plugins: Mapping[str, Table]
    files: tuple[Loaded, ...]
    origin: Mapping[Path, str] = field(default_factory=dict)
    refusal: str = ""
    lost: tuple[tuple[str, str, str], ...] = ()

    def cri(self, rules: Rules) -> Table:
        """The CRI plugin's runtime settings; {} when nobody makes any."""
        return self.plugins.get(self.cri_key(rules), {})

    def cri_key(self, rules: Rules) -> str:
        if rules.deep:
            return CRI_RUNTIME
        return CRI_V1 if self.version < 2 else CRI_V2


def merge(root: str, files: Mapping[str, str], rules: Rules) -> Merged:
    """`files`: path -> text of every file there is below the imported directories; `root` may be absent.

    raises  ConfigFileError naming file, line and column
    """
    loaded, missing = _load(root, files)
    refusal = missing or _refused_version(loaded, rules)
    version = rules.newest if rules.deep else 1
    plugins: dict[str, Table] = {}
    origin: dict[Path, str] = {}
    for each in loaded:
        sections = copy.deepcopy(each.tables.get("plugins", {}))
        if rules.deep and each.version < 2:
            sections = {_V1_NAMES.get(name, name): table for name, table in sections.items()}
        if rules.each_file_migrated and each.version < rules.newest:
            sections = _migrate(sections)
        if rules.deep and each.version >= 2:
            version = each.version if not rules.each_file_migrated else rules.newest
        if not rules.deep and each.version:
            version = each.version
        _add(plugins, sections, each.path, origin, deep=rules.deep)
    if rules.deep and not rules.each_file_migrated and version < 3:
        plugins, origin = _migrate(plugins), _migrate_origin(origin)
    refusal = refusal or _refused_sections(plugins, version, rules)
    lost = tuple(_lost(loaded, plugins, origin, version, rules))
    return Merged(version, plugins, tuple(loaded), origin, refusal, lost)


def imported(root: str, path: str, patterns: object) -> Iterator[str]:
    """The absolute patterns that a file at `path` imports."""
    for pattern in patterns if isinstance(patterns, list) else []:
        clean = posixpath.normpath(str(pattern))
        yield clean if clean.startswith("/") else posixpath.join(posixpath.dirname(path), clean)


def covers(pattern: str, path: str) -> bool:
    """Would this absolute pattern import `path`? A star never reaches across directories."""
    if posixpath.dirname(pattern) != posixpath.dirname(path):
        return False
    return fnmatch.fnmatchcase(posixpath.basename(path), posixpath.basename(pattern))


def _load(root: str, files: Mapping[str, str]) -> tuple[list[Loaded], str]:
    """Breadth first, each file once, the names of a pattern in order; and what an import misses."""
    found: list[Loaded] = []
    seen: set[str] = set()
    pending = [root] if root in files else []
    while pending:
        path = pending.pop(0)
        if path in seen:
            continue
        if path not in files:
            return found, f"{root} imports {path}, which does not exist"
        seen.add(path)
        tables = _shaped(parse(files[path], path), path)
        found.append(Loaded(path, _version_of(tables), tables))
        for pattern in imported(root, path, tables.get("imports")):
            if "*" in pattern:
                pending += sorted(name for name in files if covers(pattern, name))
            else:
                pending.append(pattern)
    return found, ""


# What containerd itself would refuse, and we would stumble over.
_FILE = {"imports": [str], "plugins": Each({})}
_CRI = {"containerd": {"runtimes": Each({"options": {}}), "default_runtime_name": str}}
_CRI_NAMES = (CRI_V1, CRI_V2, CRI_RUNTIME)


def _shaped(tables: dict[str, Any], path: str) -> dict[str, Any]:
    """raises  ConfigFileError that names the key which is not what it must be"""
    try:
        check(tables, _FILE)
        for name in _CRI_NAMES:
            check(tables.get("plugins", {}).get(name), _CRI, f'plugins."{name}"')
    except ShapeError as exc:
        raise ConfigFileError(
            f"{path}: {exc}",
            why="containerd cannot read it so either",
            next_step=f"correct {path}; it was left as it is",
        ) from None
    return tables


def _version_of(tables: Mapping[str, Any]) -> int:
    version = tables.get("version", 0)
    return version if isinstance(version, int) else 0


def _add(
    plugins: dict[str, Table], sections: Table, file: str, origin: dict[Path, str], *, deep: bool
) -> None:
    for name, table in sections.items():
        if not deep and name in plugins:
            for path in [path for path in origin if path[0] == name]:
                del origin[path]
        if not deep:
            plugins[name] = table
        elif isinstance(table, dict) and isinstance(plugins.get(name), dict):
            overlay(plugins[name], table)
        else:
            plugins[name] = table
        for path in leaves(table):
            origin[(name, *path)] = file
        origin[(name,)] = file


def overlay(under: Table, over: Mapping[str, Any]) -> None:
    """Tables key by key; anything else, lists too, is replaced."""
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(under.get(key), dict):
            overlay(under[key], value)
        else:
            under[key] = copy.deepcopy(value)


def leaves(table: object, before: Path = ()) -> Iterator[Path]:
    """The path of every value, and of every table that holds none."""
    if isinstance(table, dict) and table:
        for key, value in table.items():
            yield from leaves(value, (*before, key))
    elif before:
        yield before


def _refused_version(loaded: list[Loaded], rules: Rules) -> str:
    root = 0
    for each in loaded:
        root = root or each.version
        if rules.refuses_higher and each.version > root:
            return (
                f"{each.path} has version = {each.version}, {loaded[0].path} has {root}: "
                f"containerd {rules.name} does not start when an imported file has a higher version"
            )
        if each.version > rules.newest:
            return (
                f"{each.path} has version = {each.version}: "
                f"containerd {rules.name} reads versions up to {rules.newest}"
            )
    return ""


def _refused_sections(plugins: Mapping[str, Table], version: int, rules: Rules) -> str:
    if rules.deep or version < 2:
        return ""
    short = next((name for name in plugins if len(name.split(".")) < 4), "")
    if not short:
        return ""
    return f'plugins."{short}" is of config version 1, and another file says version = {version}'


def _migrate(plugins: Mapping[str, Table]) -> dict[str, Table]:
    """The CRI plugin's section of version 2 as the sections of version 3; what those say already counts."""
    old = plugins.get(CRI_V2)
    if not isinstance(old, dict):
        return dict(plugins)
    runtime = copy.deepcopy(plugins.get(CRI_RUNTIME, {}))
    images = copy.deepcopy(plugins.get(CRI_IMAGES, {}))
    moved = {"sandbox_image", *_OF_IMAGES, *_OF_SERVER, "containerd"}
    for key, value in old.items():
        if key not in moved:
            runtime.setdefault(key, value)
    _migrate_containerd(old.get("containerd"), runtime, images)
    if "sandbox_image" in old:
        images.setdefault("pinned_images", {})["sandbox"] = old["sandbox_image"]
    images |= {key: old[key] for key in _OF_IMAGES if key in old}
    server = {key: old[key] for key in _OF_SERVER if key in old}
    found = {**plugins, CRI_V2: server, CRI_RUNTIME: runtime}
    return {**found, CRI_IMAGES: images} if images else found


def _migrate_containerd(old: object, runtime: Table, images: Table) -> None:
    if not isinstance(old, dict):
        return
    target = runtime.setdefault("containerd", {})
    for key, value in old.items():
        if key not in _CONTAINERD_OF_IMAGES:
            target.setdefault(key, value)
    if "runtimes" in old:  # as in the original: without runtimes it does not look
        images |= {key: old[key] for key in _CONTAINERD_OF_IMAGES if key in old}


def _migrate_origin(origin: Mapping[Path, str]) -> dict[Path, str]:
    found = dict(origin)
    for path, file in origin.items():
        if path[0] == CRI_V2:
            found.setdefault((CRI_RUNTIME, *path[1:]), file)
    return found


def _lost(
    loaded: list[Loaded], plugins: Mapping[str, Table], origin: Mapping[Path, str], version: int, rules: Rules
) -> Iterator[tuple[str, str, str]]:
    for each in loaded:
        for name in each.tables.get("plugins", {}):
            winner = origin.get((name,), each.path)
            full = _V1_NAMES.get(name, name)
            if not rules.deep and winner != each.path:
                yield each.path, name, f"{winner} replaces the whole section"
            elif rules.deep and not rules.each_file_migrated and full == CRI_V2 and version >= 3:
                later = next(e.path for e in reversed(loaded) if e.version == version or e.version < 2)
                said = f"{later} says version = {version}" if later != each.path else "its version is 1"
                yield each.path, name, f"{said}, and containerd {rules.name} then reads no version 2 section"
