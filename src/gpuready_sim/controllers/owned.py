"""Pods of one owner as its controller should see them: just created and just deleted ones included.

A watch lags behind a write; without this a controller would create a second pod for the first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

Object = Mapping[str, Any]
EXPECTED_S = 10.0


class Expected:
    """What was written and not seen yet, for at most EXPECTED_S."""

    def __init__(self) -> None:
        self._created: dict[str, tuple[float, Object]] = {}  # uid -> until, object
        self._gone: dict[str, float] = {}  # uid -> until

    def created(self, obj: Object) -> None:
        self._created[obj["metadata"]["uid"]] = (time.monotonic() + EXPECTED_S, obj)

    def deleted(self, obj: Object) -> None:
        self._gone[obj["metadata"]["uid"]] = time.monotonic() + EXPECTED_S

    def seen(self, old: Object | None, new: Object | None) -> None:
        uid = str((new or old or {"metadata": {}})["metadata"].get("uid", ""))
        self._created.pop(uid, None)
        if new is None:
            self._gone.pop(uid, None)

    def of(self, owner_uid: str, cached: Iterable[Object]) -> list[Object]:
        """The owner's objects; one whose deletion was asked for counts as being deleted."""
        now = time.monotonic()
        self._created = {uid: entry for uid, entry in self._created.items() if entry[0] > now}
        self._gone = {uid: until for uid, until in self._gone.items() if until > now}
        known = {o["metadata"]["uid"]: o for o in cached if is_owned_by(o, owner_uid)}
        fresh = {uid: obj for uid, (_, obj) in self._created.items() if is_owned_by(obj, owner_uid)}
        return [_leaving(obj) if uid in self._gone else obj for uid, obj in (fresh | known).items()]


def controller_of(obj: Object) -> Mapping[str, Any] | None:
    owners = obj["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def is_owned_by(obj: Object, uid: str) -> bool:
    owner = controller_of(obj)
    return owner is not None and owner["uid"] == uid


def is_deleting(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def reference_to(api_version: str, kind: str, obj: Object) -> dict[str, Any]:
    """A controller's owner reference to `obj`."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from(template: Object, owner: Object, reference: Object, labels: Mapping[str, str]) -> dict[str, Any]:
    """A pod of a template, with a name of the server's choice."""
    meta = template.get("metadata") or {}
    metadata: dict[str, Any] = {
        "generateName": f"{owner['metadata']['name']}-",
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(meta.get("labels") or {}), **labels},
        "ownerReferences": [dict(reference)],
    }
    if meta.get("annotations"):
        metadata["annotations"] = dict(meta["annotations"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template["spec"])}


def _leaving(obj: Object) -> Object:
    if is_deleting(obj):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "pending"}}
