"""Where a distribution writes containerd's configuration anew at each start: what it makes it from. Pure.

k3s and RKE2 fill a template, which may extend their own; k0s merges the files of a directory. What we want is
appended there; whether it can be is judged by the configuration as it is now.

Source: the k3s documentation, "Configuring containerd" (base template); k0s, "k0s managed dynamic runtime
configuration".
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuready.operands.toolkit.containerd.merge import merge
from gpuready.operands.toolkit.containerd.plan import effective, settings_of
from gpuready.operands.toolkit.containerd.rules import Rules
from gpuready.operands.toolkit.plan import ABSENT, FileChange, Keys, Plan, RefusedPlan, SettingChange, Wanted
from gpuready.operands.toolkit.toml_file import dotted, parse, with_values

BASE = '{{ template "base" . }}\n'
K0S_MARK = "k0s_managed=true"


@dataclass(frozen=True)
class Source:
    """path   of the file that the distribution reads
    start  what a new one begins with
    joins  its text becomes part of the root as it stands, so no table may be there twice
    """

    path: str
    start: str
    joins: bool


def source_of(layout: str, root: str, text: str, drop_in: str, rules: Rules) -> Source | None:
    """None where the root is its administrator's own."""
    if layout in ("k3s", "RKE2"):
        name = "config-v3.toml.tmpl" if rules.deep else "config.toml.tmpl"
        return Source(f"{root.rpartition('/')[0]}/{name}", BASE, joins=True)
    if layout == "k0s" and K0S_MARK in text:
        version = parse(text, root).get("version", 2)
        return Source(drop_in, f"version = {version}\n", joins=False)
    return None


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
        raise RefusedPlan(
            f"{source.path} cannot say it",
            why=f"the distribution writes a table of {', '.join(dotted(keys) for keys in missing)} itself",
            next_step=f"set it in {source.path} by hand, without the base template",
        )
    there = texts.get(source.path)
    start = there if there is not None else source.start
    gap = "" if start.endswith("\n") else "\n"
    change = FileChange(source.path, there, f"{start}{gap}{block}", values)
    settings = tuple(SettingChange(("cri", *k), _at(before, k), value) for k, value in missing.items())
    note = f"{source.path}: {root} is made from it when the distribution starts containerd"
    return Plan((change,), settings, (note,))


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
