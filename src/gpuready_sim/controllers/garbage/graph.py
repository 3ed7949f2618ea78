"""Who owns whom, and what that means for one object. Pure.

Source: kubernetes, pkg/controller/garbagecollector/garbagecollector.go (attemptToDeleteItem).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuready_sim.client import Resource

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(frozen=True)
class Item:
    """One object, as far as ownership goes."""

    uid: str
    resource: Resource
    namespace: str
    name: str
    owners: tuple[Mapping[str, Any], ...] = ()
    finalizers: tuple[str, ...] = ()
    deleting: bool = False

    @property
    def deletes_in_foreground(self) -> bool:
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def orphans(self) -> bool:
        return self.deleting and ORPHAN in self.finalizers


def item_of(resource: Resource, obj: Mapping[str, Any]) -> Item:
    meta = obj["metadata"]
    return Item(
        uid=meta["uid"],
        resource=resource,
        namespace=meta.get("namespace") or "",
        name=meta["name"],
        owners=tuple(meta.get("ownerReferences") or ()),
        finalizers=tuple(meta.get("finalizers") or ()),
        deleting=bool(meta.get("deletionTimestamp")),
    )


class Graph:
    """All items by uid, and for each owner's uid those that name it."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._dependents: dict[str, set[str]] = {}

    def put(self, item: Item) -> None:
        self.remove(item.uid)
        self._items[item.uid] = item
        for owner in item.owners:
            self._dependents.setdefault(owner["uid"], set()).add(item.uid)

    def remove(self, uid: str) -> None:
        item = self._items.pop(uid, None)
        for owner in item.owners if item else ():
            siblings = self._dependents[owner["uid"]]
            siblings.discard(uid)
            if not siblings:
                del self._dependents[owner["uid"]]

    def get(self, uid: str) -> Item | None:
        return self._items.get(uid)

    def dependents(self, uid: str) -> list[Item]:
        return [self._items[d] for d in sorted(self._dependents.get(uid, ()))]


class Owner(StrEnum):
    """What became of one owner reference."""

    SOLID = "solid"  # there, and staying
    WAITING = "waiting"  # being deleted in the foreground, waits for us
    ABSENT = "absent"
    UNKNOWN = "unknown"  # its kind is not served, or the reference is not allowed: keep our hands off


class Action(StrEnum):
    KEEP = "keep"
    DELETE = "delete"
    DELETE_FOREGROUND = "delete in the foreground"
    STRIP = "remove the references to owners that are gone"


def judge(item: Item, owners: Sequence[Owner], *, has_dependents: bool) -> Action:
    """What to do with an object, given what became of its owners (same order as item.owners)."""
    if item.deleting or not owners or Owner.UNKNOWN in owners:
        return Action.KEEP
    gone = [o for o in owners if o is not Owner.SOLID]
    if not gone:
        return Action.KEEP
    if len(gone) < len(owners):
        return Action.STRIP
    if Owner.WAITING in owners and has_dependents:
        return Action.DELETE_FOREGROUND
    return Action.DELETE


def blocks(item: Item, owner_uid: str) -> bool:
    """Whether a dependent holds up the foreground deletion of its owner."""
    return any(o["uid"] == owner_uid and o.get("blockOwnerDeletion") for o in item.owners)
