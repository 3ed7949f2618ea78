"""The verbs on resources: get, list, watch, create, update, patch, delete, deletecollection."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace

from gpuready_sim.apiserver import deletion, go_json, kinds, lists, metadata, patches, watches
from gpuready_sim.apiserver.failures import (
    Failure,
    Obj,
    bad_request,
    invalid,
    method_not_allowed,
    not_found,
)
from gpuready_sim.apiserver.field_errors import FieldError, not_supported, shown
from gpuready_sim.apiserver.negotiation import YAML, Form, body_of, form_of, object_of, to_yaml
from gpuready_sim.apiserver.registry import Registry, ResourceType
from gpuready_sim.apiserver.requests import Reply, Request, Stream, Target
from gpuready_sim.apiserver.store import Entry, Store, encode
from gpuready_sim.apiserver.views import View
from gpuready_sim.apiserver.watches import Watches, WatchOptions
from gpuready_sim.apiserver.write_options import WriteOptions
from gpuready_sim.apiserver.writes import Writes, Written

Answer = Reply | Stream
# Kinds whose deletion answers with the object that is gone instead of a Status.
_SHOWN_WHEN_DELETED = frozenset(
    {"pods", "services", "serviceaccounts", "persistentvolumes", "resourcequotas"}
)


@dataclass(frozen=True)
class Settings:
    """What may be tuned for tests and faults.

    gone_in_stream  how a watch from a compacted version is refused: an ERROR event (as the real server
                    does from its watch cache) or HTTP status 410 (as it does from etcd)
    """

    bookmark_interval_s: float = 60.0
    gone_in_stream: bool = True


class Resources:
    """Answers the verbs from the store."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        writes: Writes,
        open_watches: Watches,
        now: Callable[[], datetime.datetime],
        settings: Settings,
    ) -> None:
        self.store = store
        self.registry = registry
        self.writes = writes
        self._watches = open_watches
        self._now = now
        self._settings = settings
        self._verbs: dict[str, Callable[[Request, Target, ResourceType], Answer]] = {
            "get": self.get,
            "list": self.list,
            "watch": self.watch,
            "create": self.create,
            "update": self.update,
            "patch": self.patch,
            "delete": self.delete,
            "deletecollection": self.delete_collection,
        }

    def answer(self, request: Request, target: Target, resource: ResourceType) -> Answer:
        """
        raises  Failure
        """
        verb = self._verbs.get(request.verb)
        custom = resource.custom is not None
        if verb is None or (request.method == "POST" and target.name and not custom):
            raise method_not_allowed()
        if request.verb == "deletecollection" and request.verb not in resource.verbs:
            raise method_not_allowed()
        if request.method in ("PUT", "PATCH") and not target.name:
            raise bad_request("name must be provided") if custom else method_not_allowed()
        if resource.namespaced and not target.namespace and request.verb not in ("list", "watch"):
            raise method_not_allowed()
        return verb(request, target, resource)

    # --- reading ---

    def get(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        form = form_of(request)
        self.store.check_reached(lists.bare_version_of(request.query.get("resourceVersion", "")))
        entry = self.store.table(resource.table).get(target.namespace, target.name)
        if entry is None:
            raise not_found(resource.plural, resource.group, target.name)
        return self.show(request, resource, entry, form=form)

    def list(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        form = _form_of_list(request, resource)
        table = self.store.table(resource.table)
        page = lists.list_page(self.store, table, lists.selection_of(request, resource), request)
        body = self._view(request, resource, form).many(page.entries, page.meta)
        return _reply(200, body, form)

    def watch(self, request: Request, target: Target, resource: ResourceType) -> Stream:
        form = form_of(request)
        selection = lists.selection_of(request, resource)
        options = self._watch_options(request)
        view = self._view(request, resource, form)
        content_type = form.content_type + (";stream=watch" if form.shape else "")
        try:
            watch = self._watches.begin(self.store.table(resource.table), view, selection, options)
        except Failure as exc:
            if not self._settings.gone_in_stream:
                raise
            return Stream(watches.initial_error(exc), content_type)
        return Stream(self._watches.lines(watch, view, options), content_type)

    def _watch_options(self, request: Request) -> WatchOptions:
        timeout_s = float(request.number("timeoutSeconds") or 0)
        announce = lists.check_initial_events(request)
        version = lists.bare_version_of(request.query.get("resourceVersion", ""))
        if announce:
            self.store.check_reached(version)
        since = None if announce else version or self.store.rv
        return WatchOptions(
            since=since,
            bookmarks=request.flag("allowWatchBookmarks"),
            announce_end=announce and request.flag("allowWatchBookmarks"),
            timeout_s=timeout_s,
            bookmark_interval_s=self._settings.bookmark_interval_s,
        )

    # --- writing ---

    def create(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        form = form_of(request)
        options = write_options(request)
        given = object_of(request, resource.kind, custom=resource.custom is not None)
        metadata.refuse_custom_version(given, resource)
        written = self.writes.create(resource, target.namespace, given, options)
        request.created_name = written.entry.key[1]
        return self._written(request, resource, written, form)

    def update(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        form = form_of(request)
        options = write_options(request)
        key = (target.namespace, target.name)
        body = object_of(request, resource.kind, custom=resource.custom is not None)
        written = self.writes.put(resource, key, body, options, target.subresource)
        return self._written(request, resource, written, form)

    def patch(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        form = form_of(request)
        options = write_options(request)
        key = (target.namespace, target.name)
        media = patches.media_of(request, resource)
        if media == patches.APPLY_PATCH:
            applied = patches.applied_object(request, options)
            force = request.flag("force")
            written = self.writes.apply(
                resource, key, applied, options, force=force, subresource=target.subresource
            )
        else:
            edit = patches.edit_of(request, resource, media, options)
            written = self.writes.update(resource, key, edit, options, target.subresource)
        return self._written(request, resource, written, form)

    def delete(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        form = form_of(request)
        options = _delete_options(request)
        kinds.refuse_delete(resource, target.name)
        written = self.writes.delete(resource, (target.namespace, target.name), options)
        if written.removed and resource.qualified not in _SHOWN_WHEN_DELETED:
            return _reply(200, encode(_success(resource, written.entry)), Form(form.media))
        # Of custom resources nobody says that something is yet to come.
        waits = not written.removed and options.propagation == "Foreground" and resource.custom is None
        return self.show(request, resource, written.entry, form=form, code=202 if waits else 200)

    def delete_collection(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        form = _form_of_list(request, resource)
        options = _delete_options(request)
        table = self.store.table(resource.table)
        page = lists.list_page(self.store, table, lists.selection_of(request, resource), request)
        for entry in page.entries:
            self.writes.delete(resource, entry.key, replace(options, uid="", resource_version=""))
        body = self._view(request, resource, form).many(page.entries, page.meta)
        return _reply(200, body, form)

    # --- answers ---

    def show(
        self, request: Request, resource: ResourceType, entry: Entry, *, form: Form, code: int = 200
    ) -> Reply:
        _refuse_list_of_one(form, resource)
        return _reply(code, self._view(request, resource, form).one(entry), form)

    def _written(self, request: Request, resource: ResourceType, written: Written, form: Form) -> Reply:
        code = 201 if written.created else 200
        return self.show(request, resource, written.entry, form=form, code=code)

    def _view(self, request: Request, resource: ResourceType, form: Form) -> View:
        include = request.query.get("includeObject") or "Metadata"
        if form.shape == "Table" and include not in ("None", "Metadata", "Object"):
            must = "must be 'Metadata', 'Object', 'None', or empty"
            why = f"includeObject: Invalid value: {shown(include)}: {must}"
            raise bad_request(f"Unable to convert to Table as requested: {why}")
        return View(resource, form, include, self._now)


def _form_of_list(request: Request, resource: ResourceType) -> Form:
    """
    raises  Failure 406 for a shape that only a single object can have
    """
    form = form_of(request)
    if form.shape == "PartialObjectMetadata" and not form.listed:
        why = f"the requested object is a list ({_go_type(resource, 'List')})"
        raise Failure(406, "NotAcceptable", f"you requested PartialObjectMetadata, but {why}")
    return form


def _refuse_list_of_one(form: Form, resource: ResourceType) -> None:
    if form.listed and resource.custom is not None:
        raise Failure(500, "", "content is not a list")
    if form.listed:
        why = f"the requested object is not a list ({_go_type(resource)})"
        raise Failure(406, "NotAcceptable", f"you requested PartialObjectMetadataList, but {why}")


def _go_type(resource: ResourceType, suffix: str = "") -> str:
    if resource.custom is not None:
        return f"*unstructured.Unstructured{suffix}"
    group = resource.table.partition(".")[2] and resource.group.partition(".")[0]
    return f"*{group or 'core'}.{resource.kind}{suffix}"


def write_options(request: Request) -> WriteOptions:
    """
    raises  Failure 422 for unknown values
    """
    validation = request.query.get("fieldValidation") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        error = not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn"))
        raise invalid(request.options_kind, "meta.k8s.io", "", [error])
    manager = request.query.get("fieldManager") or request.agent
    if problem := _manager_problem(manager):
        raise invalid(request.options_kind, "meta.k8s.io", "", [problem])
    repeated = go_json.repeated_fields(request.body) if validation != "Ignore" else ()
    objections = [f'duplicate field "{path}"' for path in repeated]
    return WriteOptions(
        manager=manager,
        dry_run=request.dry_run,
        validation=validation,
        user=request.user,
        objections=objections,
        warnings=request.warnings,
    )


_LONGEST_MANAGER = 128


def _manager_problem(manager: str) -> FieldError | None:
    if len(manager.encode()) > _LONGEST_MANAGER:
        return FieldError(
            "fieldManager", "TooLong", manager, f"may not be more than {_LONGEST_MANAGER} bytes"
        )
    for at, letter in enumerate(manager):
        if not letter.isprintable():
            why = f"invalid character U+{ord(letter):04X} (at position {at})"
            return FieldError("fieldManager", "Invalid", manager, why)
    return None


def _delete_options(request: Request) -> deletion.DeleteOptions:
    """Of the body; the query counts only where there is none."""
    if request.body.strip():
        return deletion.parse_options(body_of(request), {})
    return deletion.parse_options({}, request.query)


def _success(resource: ResourceType, entry: Entry) -> Obj:
    details: Obj = {"name": entry.key[1], "kind": resource.plural, "uid": entry.obj["metadata"]["uid"]}
    if resource.group:
        details["group"] = resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _reply(code: int, body: bytes, form: Form) -> Reply:
    if form.media == YAML:
        body = to_yaml(body)
    return Reply(code, body, form.content_type)
