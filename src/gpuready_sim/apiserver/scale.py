"""The scale subresource: how many replicas are wanted, whatever the kind calls it.

A write to it is a write of one field of its object, and is owned as such.

Source: kubernetes, pkg/registry/apps/deployment/storage/storage.go (ScaleREST); apiextensions-apiserver
pkg/registry/customresource/etcd.go; apimachinery pkg/util/managedfields/scalehandler.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuready_sim.apiserver import metadata, patches, views
from gpuready_sim.apiserver.failures import (
    Obj,
    conflict,
    internal_error,
    invalid,
    method_not_allowed,
    not_found,
)
from gpuready_sim.apiserver.known_fields import check_patched, decoded_builtin
from gpuready_sim.apiserver.negotiation import form_of, object_of
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.requests import Reply, Request, Target
from gpuready_sim.apiserver.resources import Resources, write_options
from gpuready_sim.apiserver.schemas import FieldError
from gpuready_sim.apiserver.selectors import selector_text
from gpuready_sim.apiserver.store import Entry, encode
from gpuready_sim.apiserver.write_options import WriteOptions

SCALE = ResourceType("autoscaling", "v1", "Scale", "scales", "scale", True, storage=("autoscaling", "v1"))


@dataclass(frozen=True)
class Paths:
    """Where an object has its numbers; "" where it has none."""

    wanted: tuple[str, ...]
    actual: tuple[str, ...]
    selector: tuple[str, ...]

    @classmethod
    def of(cls, resource: ResourceType) -> Paths:
        if resource.custom is None:
            return cls(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))
        assert resource.crd is not None
        version = next(one for one in resource.crd["spec"]["versions"] if one["name"] == resource.version)
        scale = version["subresources"]["scale"]
        keys = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
        wanted, actual, selector = (_steps(scale.get(key, "")) for key in keys)
        return cls(wanted, actual, selector)


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split(".")) if path else ()


class Scales:
    """Answers get, update, patch and apply of a scale."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._store = resources.store

    def answer(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        """
        raises  Failure 400, 404, 405, 409, 422
        """
        form = form_of(request)
        if request.method in ("PUT", "PATCH"):
            entry = self._write(request, target, resource)
        elif request.method in ("GET", "HEAD"):
            entry = self._read(target, resource)
        else:
            raise method_not_allowed(request.verb if resource.custom is not None else "", resource.qualified)
        scale = _scale_of(views.shown(entry, resource), resource)
        shown = Entry(entry.key, entry.rv, encode(scale), scale)
        return self._resources.show(request, SCALE, shown, form=form)

    def _read(self, target: Target, resource: ResourceType) -> Entry:
        entry = self._store.table(resource.table).get(target.namespace, target.name)
        if entry is None:
            raise not_found(resource.plural, resource.group, target.name)
        return entry

    def _write(self, request: Request, target: Target, resource: ResourceType) -> Entry:
        options, writes = write_options(request), self._resources.writes
        key = (target.namespace, target.name)
        options.untimed = True
        if request.method == "PATCH" and patches.media_of(request, resource) == patches.APPLY_PATCH:
            applied = _applied(request, target, resource, options)
            force = request.flag("force")
            return writes.apply(resource, key, applied, options, force=force, subresource="scale").entry

        given = _given(request, target, options) if request.method == "PUT" else None

        def edit(live: Obj) -> Obj:
            before = _scale_of(live, resource, lenient=True)
            after = given
            if after is None:
                after = patches.edit_of(request, SCALE, patches.media_of(request, resource), options)(before)
                check_patched(after, SCALE, target.name, options)
                after = decoded_builtin(_headed(after, target, patching=True), SCALE, options)
            options.objections = ()  # they have been told
            replicas = _checked(after, before, resource)
            path = Paths.of(resource).wanted
            # A zero is left out of a scale, so nobody owns it; and what nobody owns is tracked no more.
            options.owning = replicas > 0 and _is_owned(live, path)
            return _with(live, path, replicas)

        return writes.update(resource, key, edit, options, "scale").entry


def _given(request: Request, target: Target, options: WriteOptions) -> Obj:
    """The scale in the body of an update.

    raises  Failure 400
    """
    given = object_of(request, SCALE.kind, custom=False)
    read = decoded_builtin(metadata.checked_head(given, SCALE, ""), SCALE, options)
    metadata.check_namespace(read["metadata"], target.namespace)
    metadata.check_name(read["metadata"], target.name)
    return read


def _headed(scale: Obj, target: Target, *, patching: bool) -> Obj:
    return metadata.checked_head(scale, SCALE, target.namespace, target.name, patching=patching)


def _scale_of(obj: Obj, resource: ResourceType, *, lenient: bool = False) -> Obj:
    """
    lenient  a number that is not there is none: for a write that is about to give one
    raises  Failure 500 when a custom object has no such number
    """
    paths, meta = Paths.of(resource), obj["metadata"]
    wanted = _at(obj, paths.wanted)
    if wanted is None and resource.custom is not None and not lenient:
        path = "." + ".".join(paths.wanted)
        raise internal_error(f'the spec replicas field "{path}" does not exist')
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Obj = {"replicas": _at(obj, paths.actual) or 0}
    selector = _at(obj, paths.selector) if paths.selector else None
    if selector:
        status["selector"] = selector if isinstance(selector, str) else selector_text(selector)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in shown if key in meta},
        "spec": {"replicas": wanted} if wanted else {},
        "status": status,
    }


def _checked(after: Obj, before: Obj, resource: ResourceType) -> int:
    """The number of replicas that a scale asks for.

    raises  Failure 400, 409, 422
    """
    live, meta = before["metadata"], after["metadata"]
    for key in ("resourceVersion", "uid"):
        if meta.get(key) and meta[key] != live[key]:
            raise conflict(resource.plural, resource.group, live["name"])
    replicas: int = (after.get("spec") or {}).get("replicas") or 0
    if replicas < 0 and resource.custom is not None:
        path = "." + ".".join(Paths.of(resource).wanted)
        error = FieldError(path, "Invalid", replicas, "should be a non-negative integer")
        raise invalid(resource.kind, resource.group, live["name"], [error])
    if replicas < 0:
        error = FieldError("spec.replicas", "Invalid", replicas, "must be greater than or equal to 0")
        raise invalid("Scale", "autoscaling", live["name"], [error])
    return replicas


def _is_owned(obj: Obj, path: tuple[str, ...]) -> bool:
    entries = obj["metadata"].get("managedFields") or []
    fields = tuple(f"f:{step}" for step in path)
    return any(_at(entry.get("fieldsV1"), fields) is not None for entry in entries)


def _applied(request: Request, target: Target, resource: ResourceType, options: WriteOptions) -> Obj:
    """What an applied scale says of its object."""
    applied = patches.applied_object(request, options)
    metadata.checked_head(applied, SCALE, target.namespace, target.name)
    head: Obj = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": target.name},
    }
    spec = applied.get("spec") or {}
    return _with(head, Paths.of(resource).wanted, spec["replicas"]) if "replicas" in spec else head


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _with(obj: Obj, path: tuple[str, ...], value: object) -> Obj:
    """The object with a value at a path; the given one stays as it is."""
    first, *rest = path
    return obj | {first: _with(obj.get(first) or {}, tuple(rest), value) if rest else value}
