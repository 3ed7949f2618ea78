"""Spec files and the record beside them: the last good spec stays, and its record says when it is stale.

A file appears, changes and goes in one step. What another program defines in the same directory is never
defined a second time: a runtime would then take neither.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuready import names
from gpuready.chain.cdi_specs import NAMES_TAKEN, UNWRITABLE
from gpuready.gpu.cdi.build import Built
from gpuready.gpu.cdi.installed import SpecReader
from gpuready.gpu.cdi.model import Spec
from gpuready.gpu.tree import Tree
from gpuready.node.files import find_object, read_regular, write_atomic, write_if_changed
from gpuready.shape import Each, Needed

RECORD_NAME = "cdi.json"
_MODE = 0o644
_KIND = Needed(
    {
        "file": str,
        "digest": str,
        "devices": int,
        "stale": bool,
        "reason": str,
        "cause": str,
        "others": [str],
    },
    ("file", "digest"),
)
_SHAPE = {"bootId": str, "kinds": Each(_KIND)}


@dataclass(frozen=True)
class Kept:
    """What lies in one kind's file.

    file      as the host names it
    digest    of what we wrote; "" while there is nothing of ours
    stale     the file is of an earlier state of the node: `reason` says what has changed or is broken
    cause     NAMES_TAKEN, UNWRITABLE or "": it is the node that is not as it was
    others    whose files define our names, where they do
    left_out  devices that are not in it, with the reason
    """

    file: str
    digest: str = ""
    devices: int = 0
    stale: bool = False
    reason: str = ""
    cause: str = ""
    others: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"file": self.file, "digest": self.digest, "devices": self.devices}
        if self.stale:
            row["stale"] = True
        if self.reason:
            row["reason"] = self.reason
        if self.cause:
            row["cause"] = self.cause
        if self.others:
            row["others"] = list(self.others)
        if self.left_out:
            row["leftOut"] = [{"device": device, "reason": reason} for device, reason in self.left_out]
        return row


@dataclass(frozen=True)
class Outcome:
    """kinds  kind -> what is kept; changed  files written or removed in this pass."""

    kinds: Mapping[str, Kept] = field(default_factory=dict)
    changed: tuple[str, ...] = ()

    @property
    def is_unwritten(self) -> bool:
        """A spec is there to be written, and the disk or its rights did not allow it."""
        return any(kept.cause == UNWRITABLE for kept in self.kinds.values())

    @property
    def problems(self) -> list[str]:
        return [f"{kind}: {kept.reason}" for kind, kept in self.kinds.items() if kept.reason]


def file_of(kind: str) -> str:
    """Where a kind's spec lies on the host."""
    special = {
        names.GPU_CDI_KIND: names.GPU_CDI_FILE,
        names.MANAGEMENT_CDI_KIND: names.MANAGEMENT_CDI_FILE,
    }
    return special.get(kind) or f"{names.CDI_DIRS[-1]}/{kind.replace('/', '-')}.json"


class SpecFiles:
    """The files of a node.

    host    the host's tree
    folder  where we see the directory of programs' specs (/var/run/cdi), which we may write
    record  our record, for whoever judges the node
    """

    def __init__(self, host: Tree, folder: Path, record: Path, *, boot_id: str = "") -> None:
        self._host = host
        self.folder = folder
        self._record = record
        self._boot_id = boot_id
        self._reader = SpecReader(host)
        self._names_built: frozenset[str] = frozenset()  # as last built, written or not

    def bring_up_to_date(self, built: Sequence[Built]) -> Outcome:
        """Write what differs, remove what vanished, keep what cannot be made now."""
        before = read_record(self._record)
        taken = self._taken_by_others()
        kinds: dict[str, Kept] = {}
        changed: list[str] = []
        self._names_built = frozenset(name for each in built if each.spec for name in _names(each.spec))
        for each in built:
            kinds[each.kind] = self._keep(each, before.get(each.kind), taken, changed)
        if any(each.spec for each in built):  # with no driver at all nothing is known of the others either
            for kind, kept in before.items():
                if kind not in kinds and self._remove(kept):
                    changed.append(kept.file)
        else:
            kinds.update({kind: kept for kind, kept in before.items() if kind not in kinds})
        self._write_record(kinds)
        return Outcome(kinds, tuple(changed))

    def is_disturbed(self) -> bool:
        """Whether a file of ours is not as we left it, or another one defines our names, or did and does not.

        What we could not write is no disturbance: it is tried again, in its time.
        """
        kept = read_record(self._record).values()
        whole = [each for each in kept if each.digest and (not each.reason or each.cause == NAMES_TAKEN)]
        if any(self._digest(each.file) != each.digest for each in whole):
            return True
        taken = self._taken_by_others()
        crossed = any(name in taken for name in self._names_built)
        return crossed != any(each.cause == NAMES_TAKEN for each in kept)

    def remove_all(self) -> list[str]:
        """Take away what we wrote and nobody changed since; the record goes too."""
        gone = [kept.file for kept in read_record(self._record).values() if self._remove(kept)]
        self._record.unlink(missing_ok=True)
        return gone

    def _keep(self, built: Built, before: Kept | None, taken: Mapping[str, str], changed: list[str]) -> Kept:
        file = file_of(built.kind)
        if built.spec is None:
            return self._stale(before or Kept(file), built.reason, built.left_out)
        spec, others = _without(built.spec, taken)
        left_out = (*built.left_out, *others)
        result = _beside(Kept(file, left_out=left_out), [path for _, path in others], len(spec["devices"]))
        if not spec["devices"]:
            if before and self._remove(before):
                changed.append(file)
            return result
        content = (json.dumps(spec, indent=1) + "\n").encode()
        try:
            wrote = write_if_changed(self._seen(file), content, _MODE)
        except OSError as exc:
            reason = f"cannot write {file}: {exc.strerror}"
            return replace(self._stale(before or Kept(file), reason, left_out), cause=UNWRITABLE)
        if wrote:
            changed.append(file)
        return replace(result, digest=digest_of(content), devices=len(spec["devices"]))

    def _stale(self, kept: Kept, reason: str, left_out: tuple[tuple[str, str], ...]) -> Kept:
        is_there = bool(kept.digest) and self._digest(kept.file) is not None
        return Kept(kept.file, kept.digest, kept.devices, is_there, reason, left_out=left_out)

    def _taken_by_others(self) -> dict[str, str]:
        """Qualified name -> file of another program, in the directory that we write to."""
        ours = {file_of(kind) for kind in (names.GPU_CDI_KIND, names.MANAGEMENT_CDI_KIND)}
        ours |= {kept.file for kept in read_record(self._record).values()}
        installed = self._reader.read(names.CDI_DIRS[-1:])
        return {name: file.path for file in installed.files if file.path not in ours for name in file.names()}

    def _remove(self, kept: Kept) -> bool:
        if not kept.digest or self._digest(kept.file) != kept.digest:
            return False
        try:
            self._seen(kept.file).unlink()
        except OSError:
            return False
        return True

    def _digest(self, file: str) -> str | None:
        try:
            return digest_of(read_regular(self._seen(file)))
        except OSError:
            return None

    def _seen(self, file: str) -> Path:
        return self.folder / file.rpartition("/")[2]

    def _write_record(self, kinds: Mapping[str, Kept]) -> None:
        rows = {kind: kept.to_json() for kind, kept in kinds.items()}
        content = json.dumps({"bootId": self._boot_id, "kinds": rows}, indent=1).encode()
        try:
            if read_regular(self._record) == content:
                return
        except OSError:
            pass
        write_atomic(self._record, content, _MODE)


def read_record(path: Path) -> dict[str, Kept]:
    """Kind -> what we keep for it; empty without a record, or with one that is not ours."""
    row = find_object(path, _SHAPE) or {}
    return {kind: _kept(each) for kind, each in (row.get("kinds") or {}).items() if each}


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _kept(row: Mapping[str, Any]) -> Kept:
    return Kept(
        row["file"],
        row["digest"],
        row.get("devices") or 0,
        bool(row.get("stale")),
        row.get("reason") or "",
        row.get("cause") or "",
        tuple(row.get("others") or ()),
    )


def _beside(kept: Kept, taken_by: Sequence[str], left: int) -> Kept:
    """What is said where others define names of ours.

    taken_by  the file of each such name
    left      how many names are ours alone
    """
    if not taken_by:
        return kept
    others = tuple(sorted(set(taken_by)))
    define = "defines" if len(others) == 1 else "define"
    reason = f"{' and '.join(others)} {define} the same names, and of two none would count"
    if left:
        reason += f": {len(taken_by)} of {len(taken_by) + left} names are left to it"
    return replace(kept, reason=reason, cause=NAMES_TAKEN, others=others)


def _without(spec: Spec, taken: Mapping[str, str]) -> tuple[Spec, list[tuple[str, str]]]:
    """The spec with the devices that nobody else defines, and (name, file) of the others."""
    names_of = [(device, f"{spec['kind']}={device['name']}") for device in spec["devices"]]
    kept = [device for device, name in names_of if name not in taken]
    return {**spec, "devices": kept}, [
        (device["name"], taken[name]) for device, name in names_of if name in taken
    ]


def _names(spec: Spec) -> Iterable[str]:
    return (f"{spec['kind']}={device['name']}" for device in spec["devices"])
