"""The smallest change after which containerd knows our handlers and everything else is as before. Pure.

Several places can hold our tables; each is tried on paper: the files as they would be are merged by the
daemon's own rules, and the first place counts whose result has all that is wanted and keeps every setting
that was in force. None does: nothing is written, and the reasons are told.
"""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuready.operands.toolkit.containerd.merge import (
    Merged,
    Path,
    Table,
    covers,
    imported,
    leaves,
    merge,
    overlay,
)
from gpuready.operands.toolkit.containerd.rules import CRI_RUNTIME, CRI_V1, CRI_V2, RUNC_TYPE, Rules
from gpuready.operands.toolkit.plan import (
    ABSENT,
    FileChange,
    Keys,
    Plan,
    RefusedPlan,
    SettingChange,
    Wanted,
    differences,
)
from gpuready.operands.toolkit.toml_file import ConfigFileError, dotted, parse, with_values

_BASES = ("runc", "crun")
_CRI = "cri"  # how a plan names the CRI plugin's section, which has another name in each version


@dataclass(frozen=True)
class Files:
    """root     the configuration that the daemon is started with; it may be absent
    drop_in  where a file of ours would lie
    texts    path -> text of the root and of every file that could be imported
    """

    root: str
    drop_in: str
    texts: Mapping[str, str]


@dataclass(frozen=True)
class Place:
    """One file that could hold our tables. version 0 = leave the file's own, or write none."""

    path: str
    section: str
    version: int = 0


def plan(files: Files, wanted: Wanted, rules: Rules) -> Plan:
    """raises  RefusedPlan, ConfigFileError; nothing was changed then"""
    now = merge(files.root, files.texts, rules)
    if now.refusal:
        raise RefusedPlan(
            "containerd would not start with the configuration as it is",
            why=now.refusal,
            next_step="correct the file; the toolkit changes nothing before",
        )
    before = effective(now, rules)
    settings = settings_of(before, wanted, rules)
    if all(_at(before, keys) == value for keys, value in settings.items()):
        return Plan(notes=tuple(_notes(now)))
    reasons = []
    for place in _places(files, now, rules):
        try:
            changes = _written(files, place, now, settings, rules)
            after = _judged(files, changes, now, settings, rules)
        except (RefusedPlan, ConfigFileError) as exc:
            reasons.append(f"{place.path}: {exc.why or exc.what}")
            continue
        found = tuple(differences(_told(now, rules), _told(after, rules)))
        return Plan(changes, found, tuple(_notes(after)))
    raise RefusedPlan(
        "no place was found for the handlers " + ", ".join(wanted.handlers),
        why="; ".join(dict.fromkeys(reasons)),
        next_step=f"add them to {files.root} by hand, or correct what stands in the way",
    )


def effective(merged: Merged, rules: Rules) -> Table:
    """The CRI plugin's runtime settings in force, as far as handlers and CDI go: files over defaults.

    Before 2.0 a `runtimes` table in a file replaces the built-in one, runc and all.
    """
    runc: Table = {"runc": dict(rules.runc)}
    table: Table = {"containerd": {"default_runtime_name": "runc", "runtimes": runc}}
    if rules.knows_cdi:
        table["enable_cdi"] = rules.cdi_by_default
    said = merged.cri(rules)
    if not rules.deep and "runtimes" in said.get("containerd", {}):
        table["containerd"]["runtimes"] = {}
    overlay(table, said)
    return table


def settings_of(before: Table, wanted: Wanted, rules: Rules) -> dict[Keys, Any]:
    """Path in the CRI section -> value that must be in force; a handler is the node's runc renamed."""
    base = _base_of(before)
    values: dict[Keys, Any] = {}
    for handler in wanted.handlers:
        table = copy.deepcopy(base)
        table.setdefault("options", {})["BinaryName"] = wanted.binary
        for path in leaves(table):
            values[("containerd", "runtimes", handler, *path)] = _at(table, path)
    if wanted.cdi and rules.knows_cdi:
        values["enable_cdi",] = True
        listed = before.get("cdi_spec_dirs")
        if isinstance(listed, list) and wanted.spec_dir not in listed:
            values["cdi_spec_dirs",] = [*listed, wanted.spec_dir]
    if wanted.as_default:
        values["containerd", "default_runtime_name"] = wanted.handlers[0]
    return values


def _base_of(before: Table) -> Table:
    """The table of the runtime whose containers ours should be like, without what is empty."""
    runtimes = before["containerd"].get("runtimes", {})
    default = before["containerd"].get("default_runtime_name", "")
    for name in (default, *_BASES):
        table = runtimes.get(name)
        if isinstance(table, dict) and not name.startswith("nvidia") and _is_runc(table):
            return copy.deepcopy(table)
    return {"runtime_type": RUNC_TYPE}


def _is_runc(table: Table) -> bool:
    return str(table.get("runtime_type") or RUNC_TYPE).startswith("io.containerd.runc.")


def _places(files: Files, now: Merged, rules: Rules) -> Iterator[Place]:
    if files.root not in files.texts:
        version = min(3, rules.newest)
        yield Place(files.root, rules.key_of(version), version)
        return
    root = now.files[0]
    if not rules.deep:
        yield from _places_that_win(files, now)
        return
    ours = next((each for each in now.files if each.path == files.drop_in), None)
    if ours is not None:
        yield Place(files.drop_in, rules.key_of(ours.version) if ours.version >= 2 else CRI_V2)
    elif files.drop_in not in files.texts and root.version >= 2:
        yield Place(files.drop_in, rules.key_of(root.version), root.version)
        # No version of its own: it goes with the others, whatever theirs is.
        yield Place(files.drop_in, CRI_V2 if now.version < 3 else CRI_RUNTIME)
        if now.version >= 2:
            yield Place(files.drop_in, rules.key_of(now.version), now.version)
    for path in (root.path, *(each.path for each in reversed(now.files[1:]))):
        version = next(each.version for each in now.files if each.path == path)
        yield from (Place(path, key) for key in dict.fromkeys((rules.key_of(version), CRI_RUNTIME)))


def _places_that_win(files: Files, now: Merged) -> Iterator[Place]:
    """The section is taken whole from the last file that has it: there, or nowhere, ours must stand."""
    section = CRI_V1 if now.version < 2 else CRI_V2
    winner = now.origin.get((section,), files.root)
    yield Place(winner, section)


def _written(
    files: Files, place: Place, now: Merged, settings: Mapping[Keys, Any], rules: Rules
) -> tuple[FileChange, ...]:
    """The files as they would be with our settings at this place."""
    text = files.texts.get(place.path)
    there = parse(text, place.path) if text is not None else {}
    values = {
        ("plugins", place.section, *keys): value
        for keys, value in _needed(files, place, now, settings, rules).items()
        if _at(there, ("plugins", place.section, *keys)) != value
    }
    start = text if text is not None else (f"version = {place.version}\n" if place.version else "")
    change = FileChange(place.path, text, with_values(start, values, place.path), values)
    if place.path == files.root or place.path in {each.path for each in now.files}:
        return (change,)
    imports = _with_import(files, now)
    return (change, imports) if imports else (change,)


def _needed(
    files: Files, place: Place, now: Merged, settings: Mapping[Keys, Any], rules: Rules
) -> dict[Keys, Any]:
    """What is not in force yet; before 2.0 also the runtimes that our table would push aside."""
    before = effective(now, rules)
    needed = {keys: value for keys, value in settings.items() if _at(before, keys) != value}
    told = now.cri(rules).get("containerd", {})
    if rules.deep or "runtimes" in told:
        return needed
    kept = {
        ("containerd", "runtimes", name, *path): _at(table, path)
        for name, table in before["containerd"]["runtimes"].items()
        for path in leaves(table)
    }
    return {**kept, **needed}


def _with_import(files: Files, now: Merged) -> FileChange | None:
    """The root file with one more pattern; None when it imports the directory already."""
    root = now.files[0]
    listed = root.tables.get("imports", [])
    if any(covers(pattern, files.drop_in) for pattern in imported(files.root, root.path, listed)):
        return None
    pattern = posixpath.join(posixpath.dirname(files.drop_in), "*.toml")
    values: dict[Keys, Any] = {("imports",): [*listed, pattern]}
    text = files.texts[files.root]
    return FileChange(files.root, text, with_values(text, values, files.root), values)


def _judged(
    files: Files, changes: tuple[FileChange, ...], now: Merged, settings: Mapping[Keys, Any], rules: Rules
) -> Merged:
    """What the daemon would make of it; raises RefusedPlan when that is not what we are after."""
    texts = {**files.texts, **{change.path: change.after or "" for change in changes}}
    after = merge(files.root, texts, rules)
    if after.refusal:
        raise RefusedPlan("containerd would not start", why=after.refusal)
    result = effective(after, rules)
    for keys, value in settings.items():
        if _at(result, keys) != value:
            over = after.origin.get((after.cri_key(rules), *keys), "another file")
            raise RefusedPlan("it would not be heard", why=f"{over} decides about {dotted(keys)}")
    ours = {(_CRI, *keys) for keys in settings}
    for change in differences(_told(now, rules), _told(after, rules)):
        if change.keys not in ours and change.before is not ABSENT:
            raise RefusedPlan("other settings would be lost", why=f"{dotted(change.keys)} would be lost")
    return after


def _told(merged: Merged, rules: Rules) -> Table:
    """Every setting in force that some file makes, and the defaults that matter here."""
    others = {name: table for name, table in merged.plugins.items() if name != merged.cri_key(rules)}
    return {**others, _CRI: effective(merged, rules)}


def changed_settings(before: Merged, after: Merged, rules: Rules) -> tuple[SettingChange, ...]:
    return tuple(differences(_told(before, rules), _told(after, rules)))


def _notes(merged: Merged) -> Iterator[str]:
    for file, section, why in merged.lost:
        yield f'{file}: plugins."{section}" has no effect: {why}'


def _at(table: Any, keys: Path) -> Any:
    for key in keys:
        if not isinstance(table, Mapping) or key not in table:
            return ABSENT
        table = table[key]
    return table
