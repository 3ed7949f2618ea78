"""Where a distribution writes containerd's configuration anew at each start: what it makes it from. Pure.

k3s and RKE2 fill a template, which may extend their own; newer ones let their root import a directory too,
and k0s takes the files of one. What we want goes there; whether it can is judged by the configuration as it
is now.

Source: the k3s documentation, "Configuring containerd" (base template), and the root that k3s writes for
containerd 2.x; k0s v1.37, pkg/component/worker/containerd, docs/runtime.md (from 1.36 on its root imports the
directory itself, and files of version 2 keep k0s from starting).
"""

from __future__ import annotations

import posixpath
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuready.operands.toolkit.containerd.merge import imported as imports
from gpuready.operands.toolkit.containerd.merge import merge
from gpuready.operands.toolkit.containerd.plan import effective, settings_of
from gpuready.operands.toolkit.containerd.rules import Rules
from gpuready.operands.toolkit.plan import ABSENT, FileChange, Keys, Plan, RefusedPlan, SettingChange, Wanted
from gpuready.operands.toolkit.toml_file import ConfigFileError, dotted, parse, with_values

BASE = '{{ template "base" . }}\n'
K0S_MARK = "k0s_managed=true"


@dataclass(frozen=True)
class Source:
    """path   of the file that the distribution reads
    start  what a new one begins with
    joins  its text becomes part of the root as it stands, so no table may be there twice
    read   containerd itself reads it, as an import of the root
    """

    path: str
    start: str
    joins: bool
    read: bool = False


def source_of(layout: str, root: str, text: str, drop_in: str, rules: Rules) -> Source | None:
    """None where the root is its administrator's own."""
    may = layout in ("k3s", "RKE2") or (layout == "k0s" and K0S_MARK in text)
    # Before containerd 2.0 an import would push the root's section aside.
    imported = _folder_imported(root, text, drop_in) if may and rules.deep else ""
    if imported:
        version = parse(text, root).get("version", 2)
        path = f"{imported}/{posixpath.basename(drop_in)}"
        return Source(path, f"version = {version}\n", joins=False, read=True)
    if layout in ("k3s", "RKE2"):
        name = "config-v3.toml.tmpl" if rules.deep else "config.toml.tmpl"
        return Source(f"{root.rpartition('/')[0]}/{name}", BASE, joins=True)
    if layout == "k0s" and K0S_MARK in text:
        version = parse(text, root).get("version", 2)
        return Source(drop_in, f"version = {version}\n", joins=False)
    return None


def _folder_imported(root: str, text: str, drop_in: str) -> str:
    """The directory beside the root of which it takes every file; "" = none."""
    try:
        listed = parse(text, root).get("imports")
    except ConfigFileError:
        return ""  # read again, and told, by those who need it
    for pattern in imports(root, root, listed):
        folder, _, name = pattern.rpartition("/")
        if name == "*.toml" and folder.startswith(posixpath.dirname(root)) and drop_in:
            return folder
    return ""


def plan(source: Source, root: str, texts: Mapping[str, str], wanted: Wanted, rules: Rules) -> Plan:
    """raises  RefusedPlan, ConfigFileError; nothing was changed then"""
    now = merge(root, texts, rules)
    before = effective(now, rules)
    missing = {k: v for k, v in settings_of(before, wanted, rules).items() if _at(before, k) != v}
    if not missing:
        return Plan()
    version = now.files[0].version if now.files else min(3, rules.newest)
    section = rules.key_of(version)
    values: dict[Keys, Any] = {("plugins", section, *keys): value for keys, value in missing.items()}
    block = with_values("", values, source.path)
    if source.joins and not _can_follow(texts.get(root, ""), block):
        raise _refused(source, texts.get(root, ""), values)
    there = texts.get(source.path)
    start = there if there is not None else source.start
    gap = "" if start.endswith("\n") else "\n"
    change = FileChange(source.path, there, f"{start}{gap}{block}", values)
    settings = tuple(SettingChange(("cri", *k), _at(before, k), value) for k, value in missing.items())
    made = f"{source.path}: {root} is made from it when the distribution starts containerd"
    return Plan((change,), settings, () if source.read else (made,))


def _refused(source: Source, made: str, values: Mapping[Keys, Any]) -> RefusedPlan:
    """Names what stands in the way: of all that is to be said it is mostly one setting."""
    heads = dict.fromkeys(keys[:-1] for keys in values)
    blocks = {head: {k: v for k, v in values.items() if k[:-1] == head} for head in heads}
    taken = [
        head for head, some in blocks.items() if not _can_follow(made, with_values("", some, source.path))
    ]
    names = [dotted(keys[2:]) for head in taken for keys in blocks[head]]
    wants_cdi = any(name == "enable_cdi" for name in names)
    upgrade = "upgrade it to a release with containerd 2.x, where CDI is on, or " if wants_cdi else ""
    return RefusedPlan(
        f"{source.path} cannot say {', '.join(names) or 'it'}",
        why=f"the distribution writes the table {', '.join(map(dotted, taken)) or 'itself'} itself, and TOML "
        "lets a table be written once",
        next_step=f"{upgrade}write {source.path} by hand, without the base template",
    )


def _can_follow(text: str, block: str) -> bool:
    try:
        tomllib.loads(f"{text}\n{block}")
    except tomllib.TOMLDecodeError:
        return False
    return True


def _at(table: Any, keys: Keys) -> Any:
    for key in keys:
        if not isinstance(table, Mapping) or key not in table:
            return ABSENT
        table = table[key]
    return table
