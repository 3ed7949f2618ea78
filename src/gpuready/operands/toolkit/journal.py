"""What we changed on this node: for an exact uninstall, and for whoever starts after a power cut.

One JSON file. `pending` is the transaction that is under way: what each file was and what it becomes.
`installed` is every file as it was before we first touched it, and as we left it.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from gpuready.node.files import MOST_BYTES, find_object, write_atomic
from gpuready.operands.toolkit.plan import ABSENT, FileChange, Keys
from gpuready.shape import Needed

_ENTRY = Needed(
    {"path": str, "before": str, "after": str, "values": [Needed({"keys": [str]}, ("keys",))]}, ("path",)
)
_SHAPE = {"installed": [_ENTRY], "pending": [_ENTRY], "failed": {}}


@dataclass(frozen=True)
class Touched:
    """One file.

    before, after  its text; None = no such file
    values         path of keys -> (what we set, what was there; `ABSENT` = nothing)
    """

    path: str
    before: str | None
    after: str | None
    values: Mapping[Keys, tuple[Any, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        rows = [
            {"keys": list(keys), "set": value, **({} if was is ABSENT else {"was": was})}
            for keys, (value, was) in self.values.items()
        ]
        return {"path": self.path, "before": self.before, "after": self.after, "values": rows}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        values = {
            tuple(each["keys"]): (each.get("set"), each.get("was", ABSENT))
            for each in row.get("values") or ()
        }
        return cls(row["path"], row.get("before"), row.get("after"), values)


@dataclass(frozen=True)
class Journal:
    """failed  {"digest", "reason", "message", …} of a change that was rolled back and is not tried again"""

    installed: tuple[Touched, ...] = ()
    pending: tuple[Touched, ...] = ()
    failed: Mapping[str, Any] = field(default_factory=dict)

    def find(self, path: str) -> Touched | None:
        return next((each for each in self.installed if each.path == path), None)

    def begun(self, touched: Iterable[Touched]) -> Journal:
        return replace(self, pending=tuple(touched))

    def finished(self) -> Journal:
        """`pending` is done: what was there before the first of our changes stays what was there."""
        kept = {each.path: each for each in self.installed}
        for new in self.pending:
            kept[new.path] = _after(kept.get(new.path), new)
        gone = {path for path, each in kept.items() if each.before == each.after}
        return replace(
            self,
            installed=tuple(each for path, each in kept.items() if path not in gone),
            pending=(),
            failed={},
        )

    def abandoned(self, failed: Mapping[str, Any] | None = None) -> Journal:
        return replace(self, pending=(), failed=failed if failed is not None else self.failed)


def touched_by(change: FileChange, tables: Mapping[str, Any]) -> Touched:
    """tables  the file before, as read"""
    values = {keys: (value, _at(tables, keys)) for keys, value in change.values.items()}
    return Touched(change.path, change.before, change.after, values)


def find(path: Path) -> Journal:
    """Nothing where there is none, or one that nobody can read."""
    row = find_object(path, _SHAPE) or {}
    found = Journal(
        tuple(Touched.from_json(each) for each in row.get("installed") or ()),
        tuple(Touched.from_json(each) for each in row.get("pending") or ()),
        row.get("failed") or {},
    )
    return found if all(map(_can_be_ours, (*found.installed, *found.pending))) else Journal()


def _can_be_ours(touched: Touched) -> bool:
    return touched.path.startswith("/") and touched.path.isprintable() and all(touched.values)


def write(path: Path, journal: Journal) -> None:
    """raises  OSError, also for one that would be too large to be read again"""
    row = {
        "installed": [each.to_json() for each in journal.installed],
        "pending": [each.to_json() for each in journal.pending],
        "failed": dict(journal.failed),
    }
    # It holds the configuration of the node's runtime, which may name credentials of a registry.
    content = json.dumps(row, indent=1, ensure_ascii=False).encode()
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    write_atomic(path, content, mode=0o600, durable=True)


def _after(old: Touched | None, new: Touched) -> Touched:
    if old is None or old.after != new.before:
        # Others changed the file in between: what was there just now is the better memory.
        before = new.before if old is None else _rebased(old, new)
        return Touched(new.path, before, new.after, _values(old, new))
    return Touched(new.path, old.before, new.after, _values(old, new))


def _rebased(old: Touched, new: Touched) -> str | None:
    return new.before if not old.values else old.before


def _values(old: Touched | None, new: Touched) -> dict[Keys, tuple[Any, Any]]:
    values = dict(new.values)
    for keys, (value, was) in (old.values if old else {}).items():
        there = values.get(keys)
        values[keys] = (value, was) if there is None else (there[0], was)
    return values


def _at(table: Any, keys: Keys) -> Any:
    for key in keys:
        if not isinstance(table, Mapping) or key not in table:
            return ABSENT
        table = table[key]
    return table
