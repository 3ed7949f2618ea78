"""What a transaction would change: files, and the settings in force after them. Pure data.

Every runtime's planner (`containerd/plan.py`, `crio.py`, `docker.py`) gives one of these.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuready.errors import GPUReadyError

Keys = tuple[str, ...]
ABSENT = object()


class RefusedPlan(GPUReadyError):
    """There is no change that gives what is wanted and leaves the rest as it is: nothing is written."""


@dataclass(frozen=True)
class Wanted:
    """What the runtime should know.

    handlers     names, the first is the one that may become the default
    binary       absolute path on the host of the program behind them
    cdi          the runtime should inject CDI devices
    spec_dir     where the CDI specs are that it must read
    as_default   pods without a RuntimeClass use the first handler
    """

    handlers: tuple[str, ...]
    binary: str
    cdi: bool = True
    spec_dir: str = "/var/run/cdi"
    as_default: bool = False


@dataclass(frozen=True)
class FileChange:
    """before, after: its text; None = there is no such file.

    values   path of keys in this file -> what we set it to: what an uninstall takes out again when
             others have changed the file meanwhile
    """

    path: str
    before: str | None
    after: str | None
    values: Mapping[Keys, Any] = field(default_factory=dict)

    def diff(self) -> str:
        lines = difflib.unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            "/dev/null" if self.before is None else self.path,
            "/dev/null" if self.after is None else self.path,
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


@dataclass(frozen=True)
class SettingChange:
    """One setting in force; `ABSENT` = nobody sets it."""

    keys: Keys
    before: Any
    after: Any


@dataclass(frozen=True)
class Plan:
    """files      to write, in this order: what nobody reads yet comes first
    settings   that change by it; none = the runtime need not be restarted
    notes      what somebody who reads the plan should know
    """

    files: tuple[FileChange, ...] = ()
    settings: tuple[SettingChange, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changes_anything(self) -> bool:
        return bool(self.files)


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], at: Keys = ()
) -> Iterator[SettingChange]:
    """Leaf by leaf, in the order of the keys; an empty table is a leaf."""
    for key in sorted({*before, *after}):
        old, new = before.get(key, ABSENT), after.get(key, ABSENT)
        if old == new and type(old) is type(new):
            continue
        if _is_table(old) or _is_table(new):
            yield from differences(_table(old), _table(new), (*at, key))
        else:
            yield SettingChange((*at, key), old, new)


def _is_table(value: object) -> bool:
    return isinstance(value, dict) and bool(value)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
