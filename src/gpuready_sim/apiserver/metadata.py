"""The rules of ObjectMeta that hold for every kind: name, version, generation, what a client may set."""

from __future__ import annotations

import secrets
import uuid

from gpuready_sim.apiserver import go_json, schemas
from gpuready_sim.apiserver.failures import Failure, Obj, bad_request, conflict, internal_error, invalid
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.schemas import FieldError
from gpuready_sim.apiserver.store import encode

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
# Kinds whose metadata.generation counts changes of the specification; others have none.
_COUNTED = frozenset(
    {
        "pods",
        "replicationcontrollers",
        "deployments.apps",
        "daemonsets.apps",
        "statefulsets.apps",
        "replicasets.apps",
        "jobs.batch",
        "cronjobs.batch",
        "poddisruptionbudgets.policy",
        "networkpolicies.networking.k8s.io",
        "priorityclasses.scheduling.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
        "deviceclasses.resource.k8s.io",
        "resourceslices.resource.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    }
)


def has_generation(resource: ResourceType) -> bool:
    return resource.custom is not None or resource.qualified in _COUNTED


def checked_head(
    obj: Obj, resource: ResourceType, namespace: str, name: str = "", *, patching: bool = False
) -> Obj:
    """The object with apiVersion, kind, name and namespace as the path says; a fresh metadata map.

    patching  the object is what a patch has made, not what somebody sent
    raises    Failure 400 or 422 when the object says otherwise
    """
    refuse_unkind(obj, resource, patching=patching)
    if is_another_kind(obj, resource):
        if resource.custom is not None:
            raise _custom_kind(obj, resource, patching=patching)
        raise _builtin_kind(obj, resource, patching=patching)
    _refuse_mistyped(obj, resource, patching=patching)
    meta = dict(obj.get("metadata") or {})
    if resource.custom is not None:  # the schema knows nothing of metadata, so nobody else drops its nulls
        meta = {key: value for key, value in meta.items() if value is not None}
    for field in ("labels", "annotations"):
        if None in (meta.get(field) or {}).values():
            meta[field] = {key: "" if value is None else value for key, value in meta[field].items()}
    check_namespace(meta, namespace)
    if name and meta.get("name"):
        check_name(meta, name)
    if namespace:
        meta["namespace"] = namespace
    elif not resource.namespaced:
        meta.pop("namespace", None)
    if name:
        meta["name"] = name
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
    return head | {key: value for key, value in obj.items() if key not in head}


def refuse_unkind(obj: Obj, resource: ResourceType, *, patching: bool) -> None:
    """
    raises  Failure 400 or 422 for what has no readable kind
    """
    why = ""
    for key in ("apiVersion", "kind"):
        if obj.get(key) is not None and not isinstance(obj[key], str):
            what = go_json.unmarshalled(obj[key], "string", f".{key}")
            why = why or f"couldn't get version/kind; json parse error: {what}"
    if not why and patching and resource.custom is not None and not obj.get("kind"):
        why = f"Object 'Kind' is missing in '{encode(obj).decode()}'"
    if why and patching:
        raise invalid("", "", "", [FieldError("patch", "Invalid", encode(obj).decode(), why)])
    if why:
        raise bad_request(f"the object provided is unrecognized (must be of type {resource.kind}): {why}")
    if patching and resource.custom is not None and not obj.get("apiVersion"):
        raise internal_error("Object 'apiVersion' is missing in 'object has no apiVersion field'")


def _refuse_mistyped(obj: Obj, resource: ResourceType, *, patching: bool) -> None:
    """
    raises  Failure 400 or 422 for metadata that Go could not decode, before any of it is looked at
    """
    why = schemas.metadata_misfit(obj.get("metadata"), resource.kind, custom=resource.custom is not None)
    if not why:
        return
    if resource.custom is None:
        why = schemas.misfit({"apiVersion": resource.api_version, "kind": resource.kind, **obj}) or why
    if patching:
        raise invalid("", "", "", [FieldError("patch", "Invalid", encode(obj).decode(), why)])
    kind = resource.kind
    raise bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}')


def is_another_kind(obj: Obj, resource: ResourceType) -> bool:
    """Whether it says so; one that says nothing is what the path says."""
    given = obj.get("apiVersion") or resource.api_version, obj.get("kind") or resource.kind
    return given != (resource.api_version, resource.kind)


def refuse_applied_kind(applied: Obj, resource: ResourceType) -> None:
    """
    raises  Failure 400
    """
    if is_another_kind(applied, resource):
        version = str(applied.get("apiVersion"))
        place = version if "/" in version else f"/{version}"
        raise bad_request(f"invalid object type: {place}, Kind={applied.get('kind')}")


def refuse_custom_version(obj: Obj, resource: ResourceType) -> None:
    """
    raises  Failure 400
    """
    given = obj.get("apiVersion") or ""
    if resource.custom is not None and given != resource.api_version:
        raise bad_request(
            f"the API version in the data ({given}) does not match the expected API version "
            f"({resource.api_version})"
        )


def _custom_kind(obj: Obj, resource: ResourceType, *, patching: bool) -> Failure:
    """Of a custom resource the words are those of validation, once it has been decoded."""
    if not patching:
        refuse_custom_version(obj, resource)
    errors = [
        FieldError(key, "Invalid", obj[key], f"must be {wanted}")
        for key, wanted in (("kind", resource.kind), ("apiVersion", resource.api_version))
        if obj.get(key) and obj[key] != wanted
    ]
    group, _, _ = str(obj.get("apiVersion", "")).rpartition("/")
    return invalid(obj["kind"], group, (obj.get("metadata") or {}).get("name", ""), errors)


def _builtin_kind(obj: Obj, resource: ResourceType, *, patching: bool) -> Failure:
    given, kind = str(obj.get("apiVersion") or resource.api_version), str(obj.get("kind") or resource.kind)
    group, _, version = given.rpartition("/")
    if schemas.schema_of(group, version, kind) is None:
        why = f'no kind "{kind}" is registered for version "{given}" in scheme "pkg/runtime/scheme.go:111"'
    else:
        wanted = f"{resource.group.partition('.')[0] or 'core'}.{resource.kind}"
        why = f"converting ({version}.{kind}) to ({wanted}): unknown conversion"
    if patching:
        return invalid("", "", "", [FieldError("patch", "Invalid", encode(obj).decode(), why)])
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}')


def check_namespace(meta: Obj, namespace: str) -> None:
    """Of what belongs to the whole cluster the server forgets a namespace, as the real one does.

    raises  Failure 400 for an object that says it is elsewhere

    Source: kubernetes, apiserver/pkg/registry/rest/meta.go, EnsureObjectNamespaceMatchesRequestNamespace.
    """
    given = meta.get("namespace")
    if given and namespace and given != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_name(meta: Obj, name: str) -> None:
    """
    raises  Failure 400 for an object that says nothing of its name, or another one
    """
    if not meta.get("name"):
        why = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        raise bad_request(why)
    if meta["name"] != name:
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )


def refuse_nameless(made: Obj, name: str) -> None:
    """
    raises  Failure 400 for a patch that takes away what says which object it is
    """
    meta = made.get("metadata")
    told = isinstance(meta, dict) and meta.get("name") not in (None, "")
    if not (made.get("apiVersion") and (told or _is_told_wrongly(meta))):
        check_name({}, name)


def _is_told_wrongly(meta: object) -> bool:
    """Of a wrong type, which is said in other words."""
    return meta is not None and not isinstance(meta, dict)


def changed_identity(new: Obj, live: Obj) -> list[FieldError]:
    """What makes another object of it, or says itself when it was deleted."""
    meta, before = new["metadata"], live["metadata"]
    return [
        FieldError(f"metadata.{field}", "Invalid", meta[field], "field is immutable")
        for field in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if meta.get(field) and meta[field] != before.get(field)
    ]


def begin(obj: Obj, resource: ResourceType, now: str) -> None:
    """Give a new object's metadata what the server owns; `obj` is ours to edit.

    raises  Failure 500 when it carries a resourceVersion
    """
    meta = obj["metadata"]
    if meta.pop("resourceVersion", ""):
        raise Failure(500, "", "resourceVersion should not be set on objects to be created")
    for key in _SERVER_OWNED:
        meta.pop(key, None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generated_name(meta["generateName"])
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = now
    if has_generation(resource):
        meta["generation"] = 1


def generated_name(base: str) -> str:
    return base[:58] + random_suffix()


def random_suffix() -> str:
    return "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))


def refuse_another_version(new: Obj, live: Obj, resource: ResourceType, *, needed: bool) -> None:
    """
    needed  the update must say from which version it was made
    raises  Failure 409 when that is another one than there is, 422 when it says none and must
    """
    given, name = parsed_version(new["metadata"]), live["metadata"]["name"]
    if needed and not given:
        error = FieldError("metadata.resourceVersion", "Invalid", 0, "must be specified for an update")
        raise invalid(resource.plural, resource.group, name, [error])
    if given not in (0, int(live["metadata"]["resourceVersion"])):
        raise conflict(resource.plural, resource.group, name)


def carry_over(new: Obj, old: Obj) -> None:
    """Keep in an update what the server owns; `new` is ours to edit."""
    meta, live = new["metadata"], old["metadata"]
    for key in (*_SERVER_OWNED, "generation", "resourceVersion"):
        if key in live:
            meta[key] = live[key]
        else:
            meta.pop(key, None)


def refuse_another_uid(meta: Obj, live: Obj, resource: ResourceType) -> None:
    """
    raises  Failure 409, which gives away the key under which the real one's store has the object
    """
    if (given := meta.get("uid")) and given != live["uid"]:
        folder = _folder(resource)
        place = "/".join(part for part in (folder, live.get("namespace"), live["name"]) if part)
        why = (
            f"StorageError: invalid object, Code: 4, Key: /registry/{place}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, "
            f"UID in object meta: {live['uid']}"
        )
        raise conflict(resource.plural, resource.group, live["name"], why)


_FOLDERS = {"nodes": "minions", "services": "services/specs", "endpoints": "services/endpoints"}


def _folder(resource: ResourceType) -> str:
    """Where the real one's store has the objects."""
    if resource.custom is not None or resource.group == "apiextensions.k8s.io":
        return f"{resource.group}/{resource.plural}"
    return _FOLDERS.get(resource.qualified, resource.plural)


def parsed_version(meta: Obj) -> int:
    """
    raises  Failure 500 for a version that is no number
    """
    given = str(meta.get("resourceVersion") or "0")
    if not given.isascii() or not given.isdecimal():
        raise Failure(500, "", f'strconv.ParseUint: parsing "{given}": invalid syntax')
    if int(given) >= 2**64:
        raise Failure(500, "", f'strconv.ParseUint: parsing "{given}": value out of range')
    return int(given)


def count_generation(new: Obj, old: Obj, resource: ResourceType) -> None:
    """Count up when anything but metadata and status differs; `new` is ours to edit."""
    if not has_generation(resource) or resource.qualified == "priorityclasses.scheduling.k8s.io":
        return
    noted = resource.qualified == "deployments.apps" and _annotations(new) != _annotations(old)
    if noted or specification(new, resource) != specification(old, resource):
        new["metadata"]["generation"] = int(old["metadata"].get("generation", 0)) + 1


def _annotations(obj: Obj) -> Obj:
    """A Deployment's revision history copies them, so they count as its specification."""
    return obj["metadata"].get("annotations") or {}


def specification(obj: Obj, resource: ResourceType) -> Obj:
    """What an object asks for: all but its metadata and its status."""
    hidden = {"metadata"}
    if "status" in resource.subresources or resource.custom is None:
        hidden.add("status")
    return {key: value for key, value in obj.items() if key not in hidden}


def finalizer_problems(new: Obj, old: Obj) -> list[FieldError]:
    """An object on its way out takes no new finalizers: who adds one comes too late to be waited for."""
    if old["metadata"].get("deletionTimestamp") is None:
        return []
    before = old["metadata"].get("finalizers") or []
    added = sorted(set(new["metadata"].get("finalizers") or []) - set(before))
    if not added:
        return []
    listed = ", ".join(f'"{finalizer}"' for finalizer in added)
    why = (
        "no new finalizers can be added if the object is being deleted, "
        f"found new finalizers []string{{{listed}}}"
    )
    return [FieldError("metadata.finalizers", "Forbidden", added, why)]
