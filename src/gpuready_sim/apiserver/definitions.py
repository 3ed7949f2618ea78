"""What a CustomResourceDefinition tells of itself: which names it got, whether it is served, how it ends.

Pure: definitions in, definitions out, `now` (RFC 3339) is handed in; `lifecycle` writes what changes.

Source: kubernetes, apiextensions-apiserver pkg/registry/customresourcedefinition, pkg/controller/{status,
establish,finalizer}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpuready_sim.apiserver.failures import Obj

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
NAMES_ACCEPTED: Final = "NamesAccepted"
ESTABLISHED: Final = "Established"
TERMINATING: Final = "Terminating"


@dataclass
class Taken:
    """The names that other definitions of a group have."""

    resources: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)

    @classmethod
    def by(cls, others: Iterable[Obj]) -> Taken:
        taken = cls()
        for names in (other["status"]["acceptedNames"] for other in others):
            taken.resources |= {names.get("plural", ""), names.get("singular", "")}
            taken.resources |= set(names.get("shortNames") or ())
            taken.kinds |= {names.get("kind", ""), names.get("listKind", "")}
        return taken


def begun(crd: Obj) -> Obj:
    """The status of a definition that is just made: nobody has looked at its names yet."""
    return {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": _storage_versions(crd),
    }


def carried_on(crd: Obj, status: Obj) -> Obj:
    """The status after the specification has changed: a version that is now stored stays noted as such."""
    stored = list(status.get("storedVersions") or [])
    return status | {"storedVersions": stored + [v for v in _storage_versions(crd) if v not in stored]}


def _storage_versions(crd: Obj) -> list[str]:
    return [version["name"] for version in crd["spec"].get("versions") or [] if version.get("storage")][:1]


def is_served(crd: Obj) -> bool:
    return _is_true(crd, ESTABLISHED) or _is_true(crd, NAMES_ACCEPTED)


def named(crd: Obj, taken: Taken, now: str) -> Obj:
    """The definition with the names that it can have; the same one when nothing changes."""
    wanted, had = crd["spec"]["names"], crd["status"]["acceptedNames"]
    if wanted == had:
        return crd
    got, verdict = _judged(wanted, had, taken)
    before = _condition(crd, NAMES_ACCEPTED)
    if got == had and before is not None and verdict.items() <= before.items():
        return crd
    crd = _with_status(crd, acceptedNames=got)
    crd = _with_condition(crd, verdict, now)
    established = _condition(crd, ESTABLISHED) or _told(
        ESTABLISHED, "False", "NotAccepted", "not all names are accepted"
    )
    if established["status"] != "True" and verdict["status"] == "True":
        text = "the initial names have been accepted"
        established = _told(ESTABLISHED, "False", "Installing", text)
    return _with_condition(crd, established, now)


def _judged(wanted: Mapping[str, Any], had: Obj, taken: Taken) -> tuple[Obj, Obj]:
    """(names that are accepted, the condition that says so)"""
    got = {key: value for key, value in had.items() if key != "categories"}
    verdict = _told(NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found")
    for key, reason, used in (
        ("plural", "PluralConflict", taken.resources),
        ("singular", "SingularConflict", taken.resources),
        ("shortNames", "ShortNamesConflict", taken.resources),
        ("kind", "KindConflict", taken.kinds),
        ("listKind", "ListKindConflict", taken.kinds),
    ):
        clashes = _clashes(wanted.get(key), had.get(key), used)
        if clashes:
            told = [f'"{name}" is already in use' for name in clashes]
            text = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
            verdict = _told(NAMES_ACCEPTED, "False", reason, text)
        elif wanted.get(key):
            got[key] = wanted[key]
        else:
            got.pop(key, None)
    return got | ({"categories": wanted["categories"]} if wanted.get("categories") else {}), verdict


def _clashes(wanted: Any, had: Any, used: set[str]) -> list[str]:
    if isinstance(wanted, list):
        return [name for name in wanted if name not in (had or ()) and name in used]
    return [wanted] if wanted != had and wanted in used else []


def established(crd: Obj, now: str) -> Obj:
    """The definition as served, once its names are accepted; the same one when it is or cannot be."""
    if not _is_true(crd, NAMES_ACCEPTED) or _is_true(crd, ESTABLISHED):
        return crd
    text = "the initial names have been accepted"
    return _with_condition(crd, _told(ESTABLISHED, "True", "InitialNamesAccepted", text), now)


def doomed(crd: Obj, now: str) -> Obj:
    """A definition that is being deleted waits until its objects are gone."""
    meta = crd["metadata"]
    finalizers = list(meta.get("finalizers") or [])
    finalizers += [CLEANUP] if CLEANUP not in finalizers else []
    crd = crd | {"metadata": meta | {"deletionTimestamp": now, "finalizers": finalizers}}
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    return _with_condition(crd, _told(TERMINATING, "True", "InstanceDeletionPending", text), now)


def being_emptied(crd: Obj, now: str) -> Obj:
    text = "CustomResource deletion is in progress"
    return _with_condition(crd, _told(TERMINATING, "True", "InstanceDeletionInProgress", text), now)


def emptied(crd: Obj, now: str) -> Obj:
    """Without the finalizer: its objects are gone, or there never were any."""
    ended = _told(TERMINATING, "False", "InstanceDeletionCompleted", "removed all instances")
    if not _is_true(crd, ESTABLISHED):
        ended = _told(TERMINATING, "False", "NeverEstablished", "resource was never established")
    meta = crd["metadata"]
    left = [one for one in meta.get("finalizers") or [] if one != CLEANUP]
    kept = {key: value for key, value in meta.items() if key != "finalizers"}
    crd = crd | {"metadata": kept | ({"finalizers": left} if left else {})}
    return _with_condition(crd, ended, now)


def waits_for_objects(crd: Obj) -> bool:
    meta = crd["metadata"]
    return bool(meta.get("deletionTimestamp")) and CLEANUP in (meta.get("finalizers") or [])


# --- conditions ---


def _told(kind: str, status: str, reason: str, message: str) -> Obj:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _condition(crd: Obj, kind: str) -> Obj | None:
    conditions = (crd.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == kind), None)


def _is_true(crd: Obj, kind: str) -> bool:
    found = _condition(crd, kind)
    return found is not None and found["status"] == "True"


def _with_condition(crd: Obj, told: Obj, now: str) -> Obj:
    """The time of a condition is that at which its status changed."""
    before = _condition(crd, told["type"])
    since = before["lastTransitionTime"] if before and before["status"] == told["status"] else now
    new = {**told, "lastTransitionTime": since}
    conditions = list((crd.get("status") or {}).get("conditions") or [])
    if before is None:
        conditions.append(new)
    else:
        conditions[conditions.index(before)] = new
    return _with_status(crd, conditions=conditions)


def _with_status(crd: Obj, **parts: Any) -> Obj:
    return crd | {"status": crd["status"] | parts}
