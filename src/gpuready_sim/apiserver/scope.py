"""What of an object a write through its path may change, and whether it changes anything. Pure."""

from __future__ import annotations

from gpuready_sim.apiserver.failures import Obj
from gpuready_sim.apiserver.registry import ResourceType


def own_part(applied: Obj, resource: ResourceType, subresource: str) -> Obj:
    """What of an applied object its path takes in; the rest is neither merged nor owned."""
    if subresource == "status":
        return {key: applied[key] for key in ("apiVersion", "kind", "metadata", "status") if key in applied}
    if "status" in resource.subresources:
        return {key: value for key, value in applied.items() if key != "status"}
    return applied


def confined(new: Obj, live: Obj, resource: ResourceType, subresource: str) -> Obj:
    """The part of an update that its path may change: all but the status, or the status alone."""
    if subresource == "status":
        return _status_only(new, live, resource)
    if "status" not in resource.subresources:
        return new
    new = {key: value for key, value in new.items() if key != "status"}
    return new | {"status": live["status"]} if "status" in live else new


def is_typable(new: Obj, live: Obj, resource: ResourceType, subresource: str) -> bool:
    """Whether what an update says beside its own part has the right types.

    It changes nothing, but the real server looks at all of it to see who owns what, and gives up on
    managedFields when it cannot.
    """
    if resource.custom is None or "status" not in resource.subresources:
        return True
    names = [name for name in new if name != "status"] if subresource == "status" else ["status"]
    # As text: to Python, False is 0.
    changed = [name for name in names if name != "metadata" and str(new.get(name)) != str(live.get(name))]
    return resource.custom.is_typable(new, changed)


def _status_only(new: Obj, live: Obj, resource: ResourceType) -> Obj:
    """The live object with the new status; built-in kinds take labels and annotations along, as really."""
    meta = dict(live["metadata"])
    changeable = (
        ("managedFields",) if resource.custom else ("managedFields", "labels", "annotations", "finalizers")
    )
    for key in changeable:
        if key in new["metadata"]:
            meta[key] = new["metadata"][key]
        else:
            meta.pop(key, None)
    result = {key: value for key, value in live.items() if key != "status"} | {"metadata": meta}
    return result | {"status": new["status"]} if "status" in new else result


def with_managed_fields(obj: Obj, fields: list[Obj] | None) -> Obj:
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    if fields:
        meta["managedFields"] = fields
    return obj | {"metadata": meta}


def same(new: Obj, live: Obj) -> bool:
    """Whether a write changes nothing: times in managedFields alone do not count."""
    if new == live:
        return True
    if _without_managed_fields(new) != _without_managed_fields(live):
        return False
    return _owners(new) == _owners(live)


def _without_managed_fields(obj: Obj) -> Obj:
    return obj | {
        "metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    }


def _owners(obj: Obj) -> list[Obj]:
    fields = obj["metadata"].get("managedFields") or []
    return sorted(
        ({k: v for k, v in entry.items() if k != "time"} for entry in fields),
        key=lambda entry: (
            entry.get("manager", ""),
            entry.get("operation", ""),
            entry.get("subresource", ""),
        ),
    )
