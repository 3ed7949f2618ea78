"""What a DELETE does to an object: removed at once, or marked and waiting for others. Pure.

Source: kubernetes, apiserver/pkg/registry/generic/registry/store.go, rest/delete.go.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from gpuready_sim.apiserver import go_values
from gpuready_sim.apiserver.failures import Obj, bad_request, conflict, invalid
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.schemas import FieldError

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_DEFAULT_GRACE_S = 30


@dataclass(frozen=True)
class DeleteOptions:
    """What the client wants.

    propagation   "", "Orphan", "Background" or "Foreground"
    grace_s       seconds that a pod gets to end; None: what the pod says
    """

    propagation: str = ""
    grace_s: int | None = None
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


def parse_options(body: Obj, query: Mapping[str, str]) -> DeleteOptions:
    """Options of a request: from its body, or from its query where the body says nothing.

    raises  Failure 400 or 422 for values that contradict
    """
    _refuse_other_kind(body)
    preconditions = body.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        what = f"cannot unmarshal {go_values.kind_of(preconditions)} into Go struct field"
        raise bad_request(f"json: {what} DeleteOptions.preconditions of type v1.Preconditions")
    orphan = body.get("orphanDependents", _flag(query.get("orphanDependents")))
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy", "")
    if orphan is not None:
        if propagation:
            why = "orphanDependents and deletionPropagation cannot be both set"
            raise _bad_option("propagationPolicy", "Invalid", propagation, why)
        propagation = "Orphan" if orphan else "Background"
    if propagation not in ("", "Orphan", "Background", "Foreground"):
        why = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        raise _bad_option("propagationPolicy", "NotSupported", propagation, why)
    dry_run = body.get("dryRun") or ([query["dryRun"]] if "dryRun" in query else [])
    if any(one != "All" for one in dry_run):  # who misspells it must not lose the object
        raise _bad_option("dryRun", "NotSupported", dry_run, 'supported values: "All"')
    return DeleteOptions(
        propagation=propagation,
        grace_s=_grace(body.get("gracePeriodSeconds"), query.get("gracePeriodSeconds")),
        uid=preconditions.get("uid", ""),
        resource_version=preconditions.get("resourceVersion", ""),
        dry_run=bool(dry_run),
    )


def _refuse_other_kind(body: Obj) -> None:
    """
    raises  Failure 400
    """
    kind, version = body.get("kind") or "DeleteOptions", body.get("apiVersion") or "v1"
    if kind != "DeleteOptions":
        what = f'no kind "{kind}" is registered for version "{version}" in scheme'
        raise bad_request(f'{what} "pkg/runtime/scheme.go:111"')


def _bad_option(path: str, type: str, value: object, why: str) -> Exception:
    return invalid("DeleteOptions", "meta.k8s.io", "", [FieldError(path, type, value, why)])


def _flag(text: str | None) -> bool | None:
    return None if text is None else text.lower() in ("true", "1")


def _grace(said: object, asked: str | None) -> int | None:
    """Of the body, or of the query where the body says nothing."""
    value = asked if said is None else said
    if value is None or value == "":
        return None
    try:
        seconds = int(str(value))
    except ValueError:
        where = "Go struct field DeleteOptions.gracePeriodSeconds of type int64"
        of_query = f'strconv.ParseInt: parsing "{value}": invalid syntax'
        why = of_query if said is None else f"json: cannot unmarshal string into {where}"
        raise bad_request(why) from None
    return 1 if seconds < 0 else seconds


def check_preconditions(live: Obj, resource: ResourceType, options: DeleteOptions) -> None:
    """
    raises  Failure 409 when the object is not the one, or not in the version, that the client meant
    """
    meta = live["metadata"]
    if resource.qualified == "namespaces":
        _check_of_namespace(meta, options)
        return
    for word, wanted, found, guess in (
        ("UID", options.uid, meta["uid"], "deleted and then recreated"),
        ("ResourceVersion", options.resource_version, meta["resourceVersion"], "modified"),
    ):
        if wanted and wanted != found:
            why = (
                f"the {word} in the precondition ({wanted}) does not match the {word} in record ({found}). "
                f"The object might have been {guess}"
            )
            raise conflict(resource.kind, resource.group, meta["name"], why)


def _check_of_namespace(meta: Obj, options: DeleteOptions) -> None:
    """In words of its own. Source: kubernetes, pkg/registry/core/namespace/storage/storage.go, Delete."""
    for word, wanted, found in (
        ("UID", options.uid, meta["uid"]),
        ("ResourceVersion", options.resource_version, meta["resourceVersion"]),
    ):
        if wanted and wanted != found:
            why = f"Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {found}"
            raise conflict("namespaces", "", meta["name"], why)


def marked(live: Obj, resource: ResourceType, options: DeleteOptions, now: datetime.datetime) -> Obj | None:
    """The object with its deletion under way, or None when it is to be removed now.

    The result shares unchanged parts with `live`.
    """
    meta = live["metadata"]
    finalizers = _finalizers(meta.get("finalizers") or [], options.propagation)
    grace_s = _grace_period(live, resource, options)
    pending = meta.get("deletionTimestamp")
    if not finalizers and grace_s == 0 and not _waits_for_content(resource):
        return None
    new_meta = dict(meta)
    if finalizers:
        new_meta["finalizers"] = finalizers
    else:
        new_meta.pop("finalizers", None)
    if pending is None or grace_s < int(meta.get("deletionGracePeriodSeconds") or 0):
        end = now + datetime.timedelta(seconds=grace_s)
        new_meta["deletionTimestamp"] = end.strftime("%Y-%m-%dT%H:%M:%SZ")
        if not _waits_for_content(resource):
            new_meta["deletionGracePeriodSeconds"] = grace_s
        if "generation" in new_meta and pending is None:
            new_meta["generation"] = int(new_meta["generation"]) + 1
    return live | {"metadata": new_meta}


def last_seen(live: Obj, resource: ResourceType, now: datetime.datetime) -> Obj:
    """An object that goes at once, as its deleter and its watchers see it."""
    if resource.qualified != "pods":
        return live
    meta = dict(live["metadata"])
    if meta.get("deletionTimestamp") is None:
        meta["deletionTimestamp"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        meta["generation"] = int(meta.get("generation", 0)) + 1
    meta["deletionGracePeriodSeconds"] = 0
    return live | {"metadata": meta}


def is_finished(obj: Obj) -> bool:
    """An object on its way out for which nobody is waited any more."""
    meta = obj["metadata"]
    if meta.get("deletionTimestamp") is None or meta.get("finalizers"):
        return False
    if obj["kind"] == "Namespace" and (obj.get("spec") or {}).get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds")


def _finalizers(present: list[str], propagation: str) -> list[str]:
    if not propagation:
        return present
    kept = [f for f in present if f not in (ORPHAN, FOREGROUND)]
    added = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(propagation, [])
    return kept + added


def _grace_period(live: Obj, resource: ResourceType, options: DeleteOptions) -> int:
    """Seconds until a pod has to be gone; other kinds have none."""
    if resource.qualified != "pods":
        return 0
    running = live["metadata"].get("deletionGracePeriodSeconds")
    if live["metadata"].get("deletionTimestamp") is not None and running is not None:
        # What has begun is only made shorter, and only by who says so.
        return int(running) if options.grace_s is None else min(options.grace_s, int(running))
    spec, status = live.get("spec") or {}, live.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_s is not None:
        return options.grace_s
    return int(spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_S))


def _waits_for_content(resource: ResourceType) -> bool:
    return resource.qualified == "namespaces"
