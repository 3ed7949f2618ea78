"""What containerd itself makes of its files (`containerd config dump`), before and after a change. Pure.

The daemon's own word before anything is activated: it must know what is wanted, and every setting that it had
must be there with the same value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuready.operands.toolkit.containerd.rules import CRI_RUNTIME, CRI_V2
from gpuready.operands.toolkit.plan import ABSENT, Keys, SettingChange, Wanted, differences
from gpuready.operands.toolkit.toml_file import dotted

_OF_THE_FILES = ("version", "imports")  # which files were read, and how: not settings


def cri_of(dump: Mapping[str, Any]) -> Mapping[str, Any]:
    plugins = dump.get("plugins", {})
    found: Mapping[str, Any] = plugins.get(CRI_RUNTIME) or plugins.get(CRI_V2) or {}
    return found


def problems(before: Mapping[str, Any] | None, after: Mapping[str, Any], wanted: Wanted) -> list[str]:
    """What is not as it should be, one phrase each; [] = all is well. before None: it could not be asked."""
    return [*_not_there(after, wanted), *(lost(before, after, wanted) if before else ())]


def _not_there(after: Mapping[str, Any], wanted: Wanted) -> Iterator[str]:
    cri = cri_of(after)
    containerd = cri.get("containerd", {})
    runtimes = containerd.get("runtimes", {})
    for handler in wanted.handlers:
        table = runtimes.get(handler)
        if table is None:
            yield f'it would know no handler "{handler}"'
        elif table.get("options", {}).get("BinaryName") != wanted.binary:
            yield f'handler "{handler}" would not run {wanted.binary}'
    if wanted.cdi and cri.get("enable_cdi") is False:
        yield "CDI would not be enabled"
    default = containerd.get("default_runtime_name")
    if default not in runtimes:
        yield f'its CRI plugin would not load: no runtime for default_runtime_name "{default}"'


def lost(before: Mapping[str, Any], after: Mapping[str, Any], wanted: Wanted) -> Iterator[str]:
    for change in differences(_settings(before), _settings(after)):
        # containerd 1.x prints the options of its built-in runc, all empty, as long as nobody names runc.
        says_nothing = not change.before and change.after is ABSENT
        is_meant = is_ours(change.keys, wanted) or _gives_back_the_default(change, wanted)
        if change.before is not ABSENT and not says_nothing and not is_meant:
            yield f"{dotted(change.keys)} would be lost"


def _gives_back_the_default(change: SettingChange, wanted: Wanted) -> bool:
    """It was a handler of ours, and is not to be any more."""
    is_default = change.keys[2:] == ("containerd", "default_runtime_name")
    return is_default and change.before in wanted.handlers


def is_ours(keys: Keys, wanted: Wanted) -> bool:
    if keys[:1] != ("plugins",) or keys[1:2] not in ((CRI_RUNTIME,), (CRI_V2,)):
        return False
    rest = keys[2:]
    if rest[:2] == ("containerd", "runtimes"):
        return rest[2:3] != () and rest[2] in wanted.handlers
    settings: list[Keys] = [("enable_cdi",), ("cdi_spec_dirs",)] if wanted.cdi else []
    if wanted.as_default:
        settings.append(("containerd", "default_runtime_name"))
    return rest in settings


def _settings(dump: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in dump.items() if key not in _OF_THE_FILES}
