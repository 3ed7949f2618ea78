"""Bring an object to what is desired, and write nothing when it is there already.

Unchanged means: the digest of the desired object stands on the live one, and every field we own still has
our value. A hand edit shows as a difference with its manager and is repaired. An object that a predecessor
(the original operator) wrote is taken over at first contact, so that fields it left behind go away. One that
is neither ours nor a predecessor's is somebody else's: it is never written to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuready import names
from gpuready.errors import ApiError
from gpuready.kube.client import WATCH_IDLE_S, KubeClient
from gpuready.kube.compare import Difference, differences, digest
from gpuready.kube.errors import NotFound
from gpuready.kube.pace import Pace
from gpuready.kube.resources import Resource
from gpuready.kube.wire import is_older, key_of, version_of

PREDECESSORS = frozenset({"gpu-operator"})
# A watch shows what we made within milliseconds, one that fell silent when it is asked for again. An object
# that is not shown by then was deleted before we saw it.
ECHO_S = WATCH_IDLE_S + 15.0


class Change(StrEnum):
    NONE = "none"
    CREATED = "created"
    DESIRED = "desired changed"  # what we want is not what we wrote last
    REPAIRED = "repaired"  # somebody else changed a field of ours
    TAKEN_OVER = "taken over"  # a predecessor wrote it


@dataclass(frozen=True)
class Applied:
    object: Mapping[str, Any]  # the live object afterwards
    change: Change
    differences: tuple[Difference, ...] = ()
    again_in_s: float = 0.0  # somebody undoes what we write: not before
    awaits_echo: bool = False  # the cache does not show our last write yet: look again after ECHO_S

    @property
    def changed(self) -> bool:
        return self.change is not Change.NONE


class Occupied(ApiError):
    """Somebody else's object stands where ours should be, and says something else."""


Fit = Callable[[Mapping[str, Any], Mapping[str, Any] | None], Mapping[str, Any]]


class Applier:
    """Remembers which values a server insists on, so that they are not fought over at every pass.

    fit   (desired, live) -> what is wanted of this very object, where that depends on what is there
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        field_manager: str = names.FIELD_MANAGER,
        predecessors: Collection[str] = PREDECESSORS,
        fit: Fit = lambda desired, live: desired,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._manager = field_manager
        self._predecessors = frozenset(predecessors)
        self._fit = fit
        self._clock = clock
        self._written: dict[str, _Written] = {}
        self._settled: dict[str, _Settled] = {}
        self._pace = Pace(clock)

    async def apply(
        self, resource: Resource, desired: Mapping[str, Any], live: Mapping[str, Any] | None
    ) -> Applied:
        """Server-side apply of `desired` when it is needed.

        live     the object as the cache knows it, with managedFields; None when the cache, which knows only
                 what is ours, does not show it: then the server is asked, once
        returns  what changed and why; zero requests when nothing did
        raises   Occupied beside ApiError
        """
        marked = with_digest(self._fit(desired, live))
        identity = f"{resource.plural}/{key_of(marked)}"
        before = self._written.get(identity)
        if before is not None and before.lags_behind(marked, live, self._clock()):
            is_shown = live is not None and version_of(live) == before.over_version
            return Applied(before.after, Change.NONE, awaits_echo=not is_shown)
        if live is None:
            live = await self._find(resource, marked)
            marked = with_digest(self._fit(desired, live))
            if live is not None and is_strangers(marked, live, {*self._predecessors, self._manager}):
                if occupied := find_occupied(marked, live):
                    raise occupied
                self._written[identity] = _Written.of(marked, None, live, self._clock())
                return Applied(live, Change.NONE, awaits_echo=True)
        settled = self._settled.get(identity)
        if settled is not None and settled.holds(marked, live):
            return Applied(settled.live, Change.NONE)
        change, found = decide(marked, live, predecessors=self._predecessors)
        if change is Change.REPAIRED and before is not None:
            found = before.without_insisted(marked, found)
            change = Change.REPAIRED if found else Change.NONE
        if change is Change.NONE:
            if live is not None:
                self._settled[identity] = _Settled(_digest_on(marked), live)
            return Applied(live or {}, Change.NONE)
        self._settled.pop(identity, None)
        is_again = before is not None and before.digest == _digest_on(marked)
        if is_again and (wait_s := self._pace.wait_s(identity)):
            return Applied(live or {}, Change.NONE, again_in_s=wait_s)
        if change is Change.TAKEN_OVER and live is not None:
            await self._take_over(resource, live)
        after = await self._client.apply(resource, marked, field_manager=self._manager)
        self._written[identity] = _Written.of(marked, live, after, self._clock())
        if is_again:
            self._pace.wrote(identity)
        return Applied(after, change, found)

    def forget(self, resource: Resource, key: str) -> None:
        """The object is no longer ours to write."""
        self._written.pop(f"{resource.plural}/{key}", None)
        self._settled.pop(f"{resource.plural}/{key}", None)

    async def _find(self, resource: Resource, desired: Mapping[str, Any]) -> dict[str, Any] | None:
        meta = desired["metadata"]
        try:
            return await self._client.get(resource, meta["name"], meta.get("namespace"))
        except NotFound:
            return None

    async def _take_over(self, resource: Resource, live: Mapping[str, Any]) -> None:
        fields = taken_over(live["metadata"].get("managedFields") or [], self._predecessors, self._manager)
        meta = live["metadata"]
        patch: list[dict[str, Any]] = [{"op": "replace", "path": "/metadata/managedFields", "value": fields}]
        if version := meta.get("resourceVersion"):
            # Who wrote in between is answered with Conflict; an operation "test" would make Invalid of it.
            patch.insert(0, {"op": "replace", "path": "/metadata/resourceVersion", "value": version})
        try:
            await self._client.json_patch(resource, meta["name"], patch, meta.get("namespace"))
        except NotFound:
            pass  # gone meanwhile: the apply creates it


@dataclass(frozen=True)
class _Settled:
    """A comparison that found nothing: of thousands of passes nearly all would only make it again."""

    digest: str
    live: Mapping[str, Any]

    def holds(self, marked: Mapping[str, Any], live: Mapping[str, Any] | None) -> bool:
        """Caches replace an object that changes, they never edit one."""
        return self.live is live and self.digest == _digest_on(marked)


@dataclass
class _Written:
    """Our last write of one object, and what the server made of it."""

    digest: str
    over_version: str  # resourceVersion of the object that we wrote over, "" when there was none
    insisted: frozenset[str]  # paths that differ even in the server's own answer
    after: Mapping[str, Any]
    at: float
    shown: bool = False  # the cache has shown the object since

    @classmethod
    def of(
        cls, marked: Mapping[str, Any], live: Mapping[str, Any] | None, after: Mapping[str, Any], now: float
    ) -> _Written:
        left = frozenset(each.path for each in differences(marked, after))
        return cls(_digest_on(marked), version_of(live) if live else "", left, _without_fields(after), now)

    def lags_behind(self, marked: Mapping[str, Any], live: Mapping[str, Any] | None, now: float) -> bool:
        """The cache still shows the object, or none, as it was before this very write.

        Somebody else may have written between what the cache showed us and our write, a status for one: that
        is shown first, and it is as old.
        """
        is_fresh = now - self.at < ECHO_S
        if live is None:
            same = not self.shown and is_fresh
        else:
            self.shown = True
            version = version_of(live)
            same = bool(self.over_version) and version == self.over_version
            same = same or (is_fresh and is_older(version, version_of(self.after)))
        return same and self.digest == _digest_on(marked)

    def without_insisted(
        self, marked: Mapping[str, Any], found: tuple[Difference, ...]
    ) -> tuple[Difference, ...]:
        if self.digest != _digest_on(marked):
            return found
        return tuple(each for each in found if each.path not in self.insisted)


def with_digest(desired: Mapping[str, Any]) -> dict[str, Any]:
    meta = dict(desired["metadata"])
    meta["annotations"] = {**(meta.get("annotations") or {}), names.DIGEST_ANNOTATION: digest(desired)}
    return {**desired, "metadata": meta}


def decide(
    marked: Mapping[str, Any],
    live: Mapping[str, Any] | None,
    *,
    predecessors: Collection[str] = PREDECESSORS,
) -> tuple[Change, tuple[Difference, ...]]:
    """Whether and why `marked` (with its digest) must be written; pure."""
    if live is None:
        return Change.CREATED, ()
    found = tuple(each for each in differences(marked, live) if not each.path.endswith(_DIGEST_PATH))
    entries = live["metadata"].get("managedFields") or ()
    if any(each.get("manager") in predecessors and not each.get("subresource") for each in entries):
        return Change.TAKEN_OVER, found
    if _digest_on(live) != _digest_on(marked):
        return Change.DESIRED, found
    return (Change.REPAIRED, found) if found else (Change.NONE, ())


def is_strangers(
    marked: Mapping[str, Any],
    live: Mapping[str, Any],
    known: Collection[str] = frozenset({*PREDECESSORS, names.FIELD_MANAGER}),
) -> bool:
    """Made by nobody of `known`, and not for the same controlling owner."""
    meta = live["metadata"]
    entries = [each for each in meta.get("managedFields") or () if not each.get("subresource")]
    if _digest_on(live) or any(each.get("manager") in known for each in entries):
        return False
    ours, theirs = (_controllers(obj) for obj in (marked, live))
    return not ours & theirs


def _controllers(obj: Mapping[str, Any]) -> set[tuple[str, str]]:
    owners = obj["metadata"].get("ownerReferences") or ()
    return {(owner["apiVersion"], owner["kind"]) for owner in owners if owner.get("controller")}


_OWNERSHIP = ("metadata.labels", "metadata.annotations", "metadata.ownerReferences")


def find_occupied(marked: Mapping[str, Any], live: Mapping[str, Any]) -> Occupied | None:
    """Of a stranger: what says the same serves as well as ours; what says something else stays as it is."""
    found = [each for each in differences(marked, live) if not each.path.startswith(_OWNERSHIP)]
    if not found:
        return None
    kind, name = live["kind"], live["metadata"]["name"]
    said = "; ".join(str(each) for each in found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return Occupied(
        f"there is a {kind} {name} that gpuready has not made: {said}{more}",
        why="an object of somebody else is never written over",
        next_step=f"delete or rename that {kind}; gpuready then makes its own",
    )


def taken_over(
    managed_fields: Sequence[Mapping[str, Any]], predecessors: Collection[str], manager: str
) -> list[dict[str, Any]]:
    """managedFields in which what the predecessors own is ours by apply, and so goes unless we apply it too.

    Source: client-go, util/csaupgrade/upgrade.go: the same move from update to apply.
    """
    moved: dict[str, Any] = {}
    kept: list[dict[str, Any]] = []
    template: Mapping[str, Any] | None = None
    for entry in managed_fields:
        own = entry.get("manager") == manager and entry.get("operation") == "Apply"
        if not entry.get("subresource") and (own or entry.get("manager") in predecessors):
            moved = _union(moved, entry.get("fieldsV1") or {})
            template = entry
        else:
            kept.append(dict(entry))
    if template is None:
        return kept
    ours = {"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": moved}
    ours |= {key: template[key] for key in ("apiVersion", "time") if template.get(key)}
    return [ours, *kept]


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(one)
    for key, value in other.items():
        merged[key] = _union(merged.get(key) or {}, value or {})
    return merged


_DIGEST_PATH = f"annotations.{names.DIGEST_ANNOTATION}"


def _digest_on(obj: Mapping[str, Any]) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(names.DIGEST_ANNOTATION) or "")


def _without_fields(obj: Mapping[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": meta}
